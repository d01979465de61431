/* A split: what comes before the sum over the shards, forward and backward, and the gradients of its weights. Of a
 * unit's rows the first p->in are applied to the split's input, the next p->out are those of its output. */
#ifndef TENSOR_SPLIT_H
#define TENSOR_SPLIT_H

#include "resize.h"

static void addRow(Rows *rows, const float *from, float *to) {
  rows->from[rows->count] = from;
  rows->to[rows->count++] = to;
}

/* Rows come in blocks. */
static void fillBlock(PipecStage *s, Rows *rows, float *to) {
  while (rows->count % kBlock != 0)
    addRow(rows, s->zeros, to);
}

/* The most that a part of these rows can be. */
static int reach(const Rows *rows, int64_t columns, int64_t width, double *most, PipecError *error) {
  *most = 0;
  for (int64_t i = 0; i < rows->count; ++i)
    *most += (double)largest(rows->from[i], width) * largest(rows->to[i], columns);
  return *most <= 1e300 ? 0 : fail(error, "the network's numbers are not finite any more; lower the provider's rate");
}

/* Adds the parts of all units that take part: forward of their outputs, backward of their input's gradients. */
static int addUnits(PipecStage *s, Split *p, float *numbers, int backward, PipecError *error) {
  int32_t each = backward ? p->in : p->out, terms = backward ? p->inputs : (int32_t)s->width;
  const int32_t *list = backward ? p->input : s->all;
  Quantum quantum = backward ? backwardQuantum(p) : forwardQuantum(p);
  int64_t stride = s->shape.stride, columns = rowCount(s), pending = 0;
  memset(s->sum, 0, (size_t)(s->width * stride) * sizeof(double));
  for (int32_t a = 0; a < p->active; ++a) {
    Rows rows = {s->rows.from + pending, s->rows.to + pending, 0};
    const float *weights = p->unit[p->chosen[a]].weights + (backward ? 0 : p->in * s->width);
    for (int32_t j = 0; j < each && p->outputs[a]; ++j)
      addRow(&rows, weights + j * s->width, numbers + (a * each + j) * stride);
    double most;
    if (reach(&rows, columns, s->width, &most, error))
      return 1;
    if (most > quantum.limit)
      addLimited(s->sum, &rows, stride, columns, list, terms, quantum);
    else if (each == 1)
      pending += rows.count; /* together, below */
    else
      addJoined(s->sum, &rows, stride, columns, list, terms, quantum);
  }
  s->rows.count = pending;
  fillBlock(s, &s->rows, s->zeros);
  addEach(s->sum, &s->rows, stride, columns, list, terms, quantum, s->wide);
  summed(s->sum, s->width * stride, quantum);
  return 0;
}

static void rescale(const Split *p, float *values, int64_t count) {
  for (int64_t i = 0; p->scale != 1 && i < count; ++i)
    values[i] *= p->scale;
}

/* Between the two matrices, of a unit by its place in `chosen`. */
static void unitForward(const PipecStage *s, const Split *p, SplitKept *k, int64_t a) {
  int64_t stride = s->shape.stride, matrix = s->tokens * s->tokens * s->samples;
  const float *biases = p->unit[p->chosen[a]].weights + (p->in + p->out) * s->width;
  float *pre = k->pre + a * p->in * stride, *act = k->act + a * p->out * stride;
  for (int64_t i = 0; i < p->in; ++i)
    for (int64_t r = 0; r < rowCount(s); ++r)
      pre[i * stride + r] += biases[i];
  if (p->kind == kColumnsSplit)
    bend(act, pre, rowCount(s));
  else
    attend(pre, k->parts + a * matrix, act, s->shape);
}

static void unitBackward(PipecStage *s, const Split *p, SplitKept *k, int64_t a) {
  int64_t stride = s->shape.stride, matrix = s->tokens * s->tokens * s->samples;
  float *pre = k->pre + a * p->in * stride;
  const float *dact = s->dact + a * p->out * stride;
  if (!p->outputs[a])
    memset(pre, 0, (size_t)(p->in * stride) * sizeof(float)); /* nothing comes back of what was not taken */
  else if (p->kind == kColumnsSplit)
    bendBack(pre, dact, rowCount(s));
  else
    attendBack(pre, k->parts + a * matrix, dact, s->scores, s->spare, s->shape);
}

/* From its normalized input to the shard's part of the sum, in s->sum. */
static int splitForward(PipecStage *s, Split *p, SplitKept *k, PipecError *error) {
  int64_t stride = s->shape.stride, columns = rowCount(s), rows = p->active,
          matrix = s->tokens * s->tokens * s->samples;
  k->pre = take(s, rows * p->in * stride);
  k->act = take(s, rows * p->out * stride);
  k->parts = take(s, p->kind == kHeadsSplit ? rows * matrix : 0);
  if (!k->pre || !k->act || !k->parts)
    return fail(error, "not enough memory for another microbatch");
  s->rows.count = 0;
  for (int32_t i = 0; i < rows * p->in; ++i)
    addRow(&s->rows, p->unit[p->chosen[i / p->in]].weights + i % p->in * s->width, k->pre + i * stride);
  fillBlock(s, &s->rows, s->spill);
  multiply(&s->rows, k->normal, stride, p->input, p->inputs, columns);
  for (int32_t a = 0; a < rows; ++a)
    if (p->outputs[a])
      unitForward(s, p, k, a);
  rescale(p, k->act, rows * p->out * stride);
  return addUnits(s, p, k->act, 0, error);
}

/* From the gradient of its output, k->dy, to the shard's part of that of its normalized input, in s->sum. */
static int splitBackward(PipecStage *s, Split *p, SplitKept *k, PipecError *error) {
  int64_t stride = s->shape.stride, rows = p->active;
  s->rows.count = 0;
  for (int32_t i = 0; i < rows * p->out; ++i)
    if (p->outputs[i / p->out])
      addRow(&s->rows, p->unit[p->chosen[i / p->out]].weights + (p->in + i % p->out) * s->width, s->dact + i * stride);
  fillBlock(s, &s->rows, s->spill);
  multiply(&s->rows, k->dy, stride, s->all, s->width, rowCount(s));
  rescale(p, s->dact, rows * p->out * stride);
  for (int64_t a = 0; a < rows; ++a)
    unitBackward(s, p, k, a);
  give(s, &k->parts);
  return addUnits(s, p, k->pre, 1, error);
}

static int64_t wholeLanes(int64_t count) { return (count + kLanes - 1) / kLanes * kLanes; }

/* Adds to the gradients of the first matrices: of rows of `pre`, now gradients, with the normalized input. */
static void inputWeights(PipecStage *s, Split *p, const SplitKept *k) {
  int64_t stride = s->shape.stride, columns = rowCount(s), width = wholeLanes(p->inputs);
  turn(s->turned, width, k->normal, stride, p->input, p->inputs, columns, s->zeros);
  s->rows.count = 0;
  for (int32_t i = 0; i < p->active * p->in; ++i)
    addRow(&s->rows, k->pre + i * stride, s->products + i * width);
  fillBlock(s, &s->rows, s->spill);
  multiply(&s->rows, s->turned, width, s->all, columns, width);
  for (int32_t i = 0; i < p->active * p->in; ++i) {
    float *g = p->unit[p->chosen[i / p->in]].gradients;
    for (int32_t n = 0; n < p->inputs; ++n)
      g[i % p->in * s->width + p->input[n]] += s->products[i * width + n];
    g[(p->in + p->out) * s->width + i % p->in] += total(k->pre + i * stride, columns);
  }
}

/* And of the second ones. */
static void outputWeights(PipecStage *s, Split *p, const SplitKept *k) {
  int64_t stride = s->shape.stride, columns = rowCount(s), width = s->width;
  turn(s->turned, width, k->dy, stride, s->all, width, columns, s->zeros);
  s->rows.count = 0;
  for (int32_t i = 0; i < p->active * p->out; ++i)
    if (p->outputs[i / p->out])
      addRow(&s->rows, k->act + i * stride, s->products + i * width);
  fillBlock(s, &s->rows, s->spill);
  multiply(&s->rows, s->turned, width, s->all, columns, width);
  for (int32_t i = 0; i < p->active * p->out; ++i) {
    float *g = p->unit[p->chosen[i / p->out]].gradients + (p->in + i % p->out) * width;
    for (int64_t n = 0; p->outputs[i / p->out] && n < width; ++n)
      g[n] += s->products[i * width + n];
  }
}

static void splitWeights(PipecStage *s, Split *p, SplitKept *k) {
  inputWeights(s, p, k);
  outputWeights(s, p, k);
  give(s, &k->normal);
  give(s, &k->pre);
  give(s, &k->act);
}

static void releaseSplit(PipecStage *s, SplitKept *k) {
  float **all[] = {&k->hat, &k->inverse, &k->parts, &k->normal, &k->pre, &k->act, &k->dy};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
    give(s, all[i]);
}

#endif
