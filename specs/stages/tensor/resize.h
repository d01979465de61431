/* What takes part in a step where a shard keeps fewer units than it works.
 *
 * Most balances leave out units, drawn anew each step; what is left is scaled up. `resize` and `semi` do what FlexTP
 * (fearless1007/ZERO) does with both matrices of a split: each loses input columns, the same ones in forward, input's
 * and weights' gradient; the first one features of x, the second one what this shard's units put out, of a head all of
 * it. As there the first matrix computes all units,
 * forward and weights' gradients, though what is not taken of them gets none. Missing gradients of both matrices'
 * pruned columns are imputed. */
#ifndef TENSOR_RESIZE_H
#define TENSOR_RESIZE_H

#include "stage.h"

typedef struct Ranked {
  double score;
  int32_t index;
} Ranked;

static int descending(const void *a, const void *b) {
  const Ranked *x = a, *y = b;
  return x->score != y->score ? (x->score < y->score) - (x->score > y->score)
                              : (x->index > y->index) - (x->index < y->index);
}

static int upwards(const void *a, const void *b) {
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

/* The `kept` indices of highest score, ascending; of equal ones the first. */
static int best(Ranked *ranked, int32_t count, int32_t kept, int32_t *to) {
  qsort(ranked, (size_t)count, sizeof *ranked, descending);
  for (int32_t i = 0; i < kept; ++i)
    to[i] = ranked[i].index;
  qsort(to, (size_t)kept, sizeof *to, upwards);
  return kept;
}

static int32_t workedHere(const PipecStage *s, const Split *p, int32_t *to) {
  int32_t count = 0;
  for (int32_t u = 0; u < p->units; ++u)
    if (p->worker[u] == s->shard)
      to[count++] = u;
  return count;
}

static int keepTrack(const PipecStage *s, Split *p, PipecError *error) {
  if (p->resize)
    return 0;
  size_t outputs = (size_t)p->units, inputs = (size_t)s->width;
  Resize *r = p->resize = calloc(1, sizeof *r);
  if (r) {
    r->epoch = -1;
    r->inputScore = calloc(inputs, sizeof(float));
    r->outputScore = calloc(outputs, sizeof(float));
    r->inputSeen = calloc(inputs, 1);
    r->outputSeen = calloc(outputs, 1);
  }
  return r && r->inputScore && r->outputScore && r->inputSeen && r->outputSeen
             ? 0
             : fail(error, "not enough memory for priorities");
}

static void forget(Split *p) {
  if (!p->resize)
    return;
  free(p->resize->inputScore);
  free(p->resize->outputScore);
  free(p->resize->inputSeen);
  free(p->resize->outputSeen);
  free(p->resize);
  p->resize = NULL;
}

/* A new epoch: how much the weights of what took part have changed in the last one; the rest keeps its score. */
static int score(const PipecStage *s, Split *p, PipecError *error) {
  Resize *r = p->resize;
  int64_t width = s->width, size = sizeOf(s, p->kind);
  for (int64_t k = 0; k < width; ++k)
    r->inputScore[k] = r->inputSeen[k] ? 0 : r->inputScore[k];
  for (int32_t u = 0; u < p->units; ++u) {
    Unit *unit = &p->unit[u];
    if (p->worker[u] != s->shard)
      continue;
    float out = 0;
    for (int64_t i = 0; unit->begin && i < (p->in + p->out) * width; ++i) {
      float change = fabsf(unit->weights[i] - unit->begin[i]);
      if (i >= p->in * width)
        out += change;
      else if (r->inputSeen[i % width])
        r->inputScore[i % width] += change;
    }
    if (r->outputSeen[u])
      r->outputScore[u] = out;
    if (!unit->begin && !(unit->begin = malloc((size_t)size * sizeof(float))))
      return fail(error, "not enough memory for priorities");
    memcpy(unit->begin, unit->weights, (size_t)size * sizeof(float));
  }
  memset(r->inputSeen, 0, (size_t)width);
  memset(r->outputSeen, 0, (size_t)p->units);
  return 0;
}

/* The score of an input of either matrix. */
static double priorityOf(const PipecStage *s, const Split *p, int32_t layer, int32_t matrix, int32_t index) {
  if (strcmp(p->balance.priority, "first") == 0)
    return -index;
  if (strcmp(p->balance.priority, "random") == 0) {
    uint64_t seed = mixed(mixed((uint64_t)s->seed ^ 0x7072u, (uint64_t)p->resize->epoch), (uint64_t)s->shard);
    seed = mixed(mixed(seed, (uint64_t)layer), (uint64_t)(2 * p->kind + matrix));
    return (double)(mixed(seed, (uint64_t)index) >> 11);
  }
  return matrix == 0 ? p->resize->inputScore[index] : p->resize->outputScore[index];
}

/* Which inputs of the matrices take part, in this epoch. */
static int prune(const PipecStage *s, Split *p, int32_t layer, int64_t step, int32_t kept, PipecError *error) {
  int64_t epoch = epochOf(s, step);
  if (keepTrack(s, p, error) || (p->resize->epoch != epoch && score(s, p, error)))
    return 1;
  Resize *r = p->resize;
  r->epoch = epoch;
  int32_t width = (int32_t)s->width;
  Ranked *ranked = malloc((size_t)(p->active + width) * sizeof *ranked);
  int32_t *taken = malloc((size_t)(p->active + 1) * sizeof *taken);
  int failed = !ranked || !taken;
  if (!failed && kept < p->active && epoch >= s->fullEpochs) {
    for (int32_t k = 0; k < width; ++k)
      ranked[k] = (Ranked){priorityOf(s, p, layer, 0, k), k};
    p->inputs = best(ranked, width, (int32_t)(((int64_t)width * kept + p->active - 1) / p->active), p->input);
    for (int32_t a = 0; a < p->active; ++a)
      ranked[a] = (Ranked){priorityOf(s, p, layer, 1, p->chosen[a]), a};
    best(ranked, p->active, kept, taken);
    memset(p->outputs, 0, (size_t)p->active);
    for (int32_t i = 0; i < kept; ++i)
      p->outputs[taken[i]] = 1;
  }
  for (int32_t k = 0; !failed && k < p->inputs; ++k)
    r->inputSeen[p->input[k]] = 1;
  for (int32_t a = 0; !failed && a < p->active; ++a)
    r->outputSeen[p->chosen[a]] |= p->outputs[a];
  free(ranked);
  free(taken);
  return failed ? fail(error, "not enough memory for priorities") : 0;
}

/* Which units take part in this step; outputs are scaled by the worked over the kept ones of all shards. */
static int leaveOut(const PipecStage *s, Split *p, int32_t layer, int64_t step, int32_t kept, PipecError *error) {
  int64_t all = 0;
  for (int32_t i = 0; i < s->shards; ++i)
    all += p->kept[i];
  p->scale = all > 0 ? (float)((double)p->units / (double)all) : 1;
  if (kept == p->active)
    return 0;
  uint64_t seed = mixed(mixed((uint64_t)s->seed ^ 0x64726177u, (uint64_t)step), (uint64_t)layer);
  seed = mixed(mixed(seed, (uint64_t)s->shard), (uint64_t)p->kind);
  Ranked *ranked = malloc((size_t)p->active * sizeof *ranked);
  if (!ranked)
    return fail(error, "not enough memory to draw units");
  for (int32_t i = 0; i < p->active; ++i)
    ranked[i] = (Ranked){(double)(mixed(seed, (uint64_t)p->chosen[i]) >> 11), p->chosen[i]};
  p->active = best(ranked, p->active, kept, p->chosen);
  free(ranked);
  return 0;
}

/* What takes part in a step; everything: in an evaluation. */
static int choose(const PipecStage *s, Split *p, int32_t layer, int64_t step, int everything, PipecError *error) {
  if (p->step == step && !everything)
    return 0;
  if (!p->worker)
    return fail(error, "pipec_stage_portions has not said which units are whose");
  p->step = everything ? -1 : step;
  p->scale = 1;
  p->active = workedHere(s, p, p->chosen);
  p->inputs = (int32_t)s->width;
  memcpy(p->input, s->all, (size_t)s->width * sizeof *p->input);
  memset(p->outputs, 1, (size_t)p->active);
  if (everything)
    return 0;
  int32_t kept = p->kept[s->shard];
  return prunes(&p->balance) ? prune(s, p, layer, step, kept, error) : leaveOut(s, p, layer, step, kept, error);
}

/* Missing gradients: the mean of those of the same output that there are. In the first matrix an output is a row; in
 * the second one it is a number of the rows, and a head's rows have their counterparts in the other heads. */
static void averageInputs(const PipecStage *s, Split *p, const uint8_t *taken) {
  for (int32_t a = 0; a < p->active; ++a)
    for (int32_t j = 0; j < p->in; ++j) {
      float *g = p->unit[p->chosen[a]].gradients + j * s->width, sum = 0;
      for (int32_t k = 0; k < p->inputs; ++k)
        sum += g[p->input[k]];
      for (int64_t k = 0; k < s->width; ++k)
        g[k] = taken[k] ? g[k] : sum / (float)p->inputs;
    }
}

static void averageOutputs(const PipecStage *s, Split *p) {
  for (int64_t i = p->in * s->width; i < (p->in + p->out) * s->width; ++i) {
    float sum = 0, count = 0;
    for (int32_t a = 0; a < p->active; ++a)
      if (p->outputs[a]) {
        sum += p->unit[p->chosen[a]].gradients[i];
        ++count;
      }
    for (int32_t a = 0; a < p->active; ++a)
      if (!p->outputs[a])
        p->unit[p->chosen[a]].gradients[i] = sum / count;
  }
}

/* What was computed is remembered; what was not is what was remembered. */
static int sameAsLast(const PipecStage *s, Split *p, const uint8_t *taken, PipecError *error) {
  int64_t size = sizeOf(s, p->kind), width = s->width;
  for (int32_t a = 0; a < p->active; ++a) {
    Unit *unit = &p->unit[p->chosen[a]];
    if (!unit->last && !(unit->last = calloc((size_t)size, sizeof(float))))
      return fail(error, "not enough memory for the last gradients");
    for (int64_t j = 0; j < p->in + p->out; ++j)
      for (int64_t k = 0; k < width; ++k) {
        int there = j < p->in ? taken[k] : p->outputs[a];
        float *from = there ? unit->gradients : unit->last, *to = there ? unit->last : unit->gradients;
        to[j * width + k] = from[j * width + k];
      }
  }
  return 0;
}

/* Fills in the gradients that a step has not computed. With `zero` they are zero already. */
static int impute(const PipecStage *s, Split *p, PipecError *error) {
  if (!prunes(&p->balance) || strcmp(p->balance.impute, "zero") == 0 || p->step < 0 || p->active == 0)
    return 0;
  uint8_t *taken = calloc((size_t)s->width, 1);
  if (!taken)
    return fail(error, "not enough memory to impute gradients");
  for (int32_t k = 0; k < p->inputs; ++k)
    taken[p->input[k]] = 1;
  int failed = 0;
  if (strcmp(p->balance.impute, "same") == 0)
    failed = sameAsLast(s, p, taken, error);
  else if (p->kept[s->shard] > 0) {
    averageInputs(s, p, taken);
    averageOutputs(s, p);
  }
  free(taken);
  return failed;
}

#endif
