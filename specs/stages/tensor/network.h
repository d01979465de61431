/* Passes through a stage: layers of two splits each, before the first one the embedding of a glyph's patches, behind
 * the last one the classifier of the mean token, and the loss. What is not in a split every shard computes. */
#ifndef TENSOR_NETWORK_H
#define TENSOR_NETWORK_H

#include "split.h"

/* Rows as they cross between stages: without what fills them up to the stride. */
static void pack(const PipecStage *s, float *to, const float *from) {
  for (int64_t k = 0; k < s->width; ++k)
    memcpy(to + k * rowCount(s), from + k * s->shape.stride, (size_t)rowsBytes(1, rowCount(s)));
}
static void unpack(const PipecStage *s, float *to, const float *from) {
  for (int64_t k = 0; k < s->width; ++k)
    memcpy(to + k * s->shape.stride, from + k * rowCount(s), (size_t)rowsBytes(1, rowCount(s)));
}

/* The number of a microbatch's sample among the glyphs to train. */
static int64_t imageOf(PipecStage *s, int64_t step, int64_t microbatch, int64_t sample) {
  int64_t at = (step * s->microbatches + microbatch) * s->samples + sample;
  if (at / kTrain != s->epoch)
    shuffle(s->order, (uint64_t)s->seed, s->epoch = at / kTrain);
  return s->order[at % kTrain];
}

/* The samples' pixels, into s->image: a row for each pixel of a patch. */
static void patches(PipecStage *s) {
  int64_t side = kSide / s->patch;
  for (int64_t p = 0; p < s->pixels; ++p)
    for (int64_t t = 0; t < s->tokens; ++t) {
      int64_t y = t / side * s->patch + p / s->patch, x = t % side * s->patch + p % s->patch, at = y * kSide + x;
      float *to = s->image + p * s->shape.stride + t * s->samples;
      for (int64_t i = 0; i < s->samples; ++i)
        to[i] = ((float)s->glyph[i][at] - 80.0f) / 64.0f;
    }
}

static void trainingPatches(PipecStage *s, int64_t step, int64_t microbatch) {
  for (int64_t i = 0; i < s->samples; ++i)
    s->glyph[i] = s->train + imageOf(s, step, microbatch, i) * kImage;
  patches(s);
}

/* From s->image to s->x. */
static void embed(PipecStage *s, const Own *own) {
  const float *place = own->embedding.weights + s->width * s->pixels;
  s->rows.count = 0;
  for (int64_t d = 0; d < s->width; ++d)
    addRow(&s->rows, own->embedding.weights + d * s->pixels, s->x + d * s->shape.stride);
  multiply(&s->rows, s->image, s->shape.stride, s->all, s->pixels, rowCount(s));
  for (int64_t d = 0; d < s->width; ++d)
    for (int64_t t = 0; t < s->tokens; ++t) {
      float *token = s->x + d * s->shape.stride + t * s->samples;
      for (int64_t i = 0; i < s->samples; ++i)
        token[i] += place[d * s->tokens + t];
    }
}

static void embedWeights(PipecStage *s, Own *own, const PipecCall *call) {
  float *g = own->embedding.gradients, *place = g + s->width * s->pixels;
  int64_t stride = s->shape.stride, wide = wholeLanes(s->pixels);
  trainingPatches(s, call->step, call->microbatch);
  turn(s->turned, wide, s->image, stride, s->all, s->pixels, rowCount(s), s->zeros);
  s->rows.count = 0;
  for (int64_t d = 0; d < s->width; ++d)
    addRow(&s->rows, s->dx + d * stride, s->products + d * wide);
  multiply(&s->rows, s->turned, wide, s->all, rowCount(s), wide);
  for (int64_t d = 0; d < s->width; ++d) {
    for (int64_t p = 0; p < s->pixels; ++p)
      g[d * s->pixels + p] += s->products[d * wide + p];
    for (int64_t t = 0; t < s->tokens; ++t)
      place[d * s->tokens + t] += total(s->dx + d * stride + t * s->samples, s->samples);
  }
}

/* x += split(LayerNorm(x)), x in s->x. */
static int residual(PipecStage *s, Layer *layer, int32_t kind, SplitKept *k, PipecError *error) {
  const float *gain = layer->norms.weights + 2 * kind * s->width;
  int64_t count = s->width * s->shape.stride;
  k->hat = take(s, count);
  k->normal = take(s, count);
  k->inverse = take(s, s->shape.stride);
  if (!k->hat || !k->normal || !k->inverse)
    return fail(error, "not enough memory for another microbatch");
  normalize(k->hat, k->normal, k->inverse, s->x, s->width, s->shape.stride, rowCount(s), gain, gain + s->width);
  if (splitForward(s, &layer->split[kind], k, error) || sumOver(s, s->sum, count, error))
    return 1;
  for (int64_t i = 0; i < count; ++i)
    s->x[i] += (float)s->sum[i];
  return 0;
}

/* The gradient of x from that of what `residual` made of it, in s->dx. */
static int residualBack(PipecStage *s, Layer *layer, int32_t kind, SplitKept *k, int fused, PipecError *error) {
  const float *gain = layer->norms.weights + 2 * kind * s->width;
  float *dgain = layer->norms.gradients + 2 * kind * s->width;
  int64_t count = s->width * s->shape.stride;
  k->dy = s->dx; /* kept; what comes before it goes elsewhere */
  s->dx = take(s, count);
  if (!s->dx)
    return fail(error, "not enough memory");
  if (splitBackward(s, &layer->split[kind], k, error))
    return 1;
  if (fused)
    splitWeights(s, &layer->split[kind], k);
  if (sumOver(s, s->sum, count, error))
    return 1;
  normalizeBack(s->dx, k->dy, s->sum, s->dnormal, k->hat, k->inverse, s->width, s->shape.stride, rowCount(s), gain,
                dgain, dgain + s->width, s->spare);
  if (fused)
    give(s, &k->dy);
  give(s, &k->hat);
  give(s, &k->inverse);
  return 0;
}

/* Logits of the mean token of s->x: a row a class. */
static int classify(PipecStage *s, const Own *own, Kept *kept, PipecError *error) {
  const float *gain = own->classifier.weights, *weights = gain + 2 * s->width, *bias = weights + kClasses * s->width;
  int64_t n = s->samples, count = s->width * n;
  float *mean = s->dnormal;
  kept->hat = take(s, count);
  kept->normal = take(s, count);
  kept->inverse = take(s, n);
  kept->logits = take(s, kClasses * n);
  if (!kept->hat || !kept->normal || !kept->inverse || !kept->logits)
    return fail(error, "not enough memory for another microbatch");
  memset(mean, 0, (size_t)count * sizeof(float));
  for (int64_t d = 0; d < s->width; ++d)
    for (int64_t t = 0; t < s->tokens; ++t) {
      const float *token = s->x + d * s->shape.stride + t * n;
      for (int64_t i = 0; i < n; ++i)
        mean[d * n + i] += token[i] / (float)s->tokens;
    }
  normalize(kept->hat, kept->normal, kept->inverse, mean, s->width, n, n, gain, gain + s->width);
  s->rows.count = 0;
  for (int64_t c = 0; c < kClasses; ++c)
    addRow(&s->rows, weights + c * s->width, kept->logits + c * n);
  multiply(&s->rows, kept->normal, n, s->all, s->width, n);
  for (int64_t c = 0; c < kClasses; ++c)
    for (int64_t i = 0; i < n; ++i)
      kept->logits[c * n + i] += bias[c];
  return 0;
}

/* Cross entropy; logits become their gradients. */
static int lose(PipecStage *s, Kept *kept, const PipecCall *call, PipecError *error) {
  int64_t n = s->samples;
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    double parts[kClasses], most = -1e300, all = 0;
    for (int c = 0; c < kClasses; ++c)
      most = kept->logits[c * n + i] > most ? kept->logits[c * n + i] : most;
    for (int c = 0; c < kClasses; ++c)
      all += parts[c] = exp(kept->logits[c * n + i] - most);
    int32_t right = classOf(imageOf(s, call->step, call->microbatch, i));
    for (int c = 0; c < kClasses; ++c) {
      double target = (c == right ? 1 - s->smoothing : 0) + s->smoothing / kClasses;
      sum -= target * (kept->logits[c * n + i] - most - log(all));
      kept->logits[c * n + i] = (float)((parts[c] / all - target) / (double)n);
    }
  }
  s->loss += sum / (double)n;
  return isfinite(sum) ? 0
                       : fail(error, "the loss is not finite in step %lld; lower the provider's rate, which is %g",
                              (long long)call->step, s->rate);
}

/* The gradient of the last stage's output, into s->dx. */
static void classifyBack(PipecStage *s, Own *own, Kept *kept) {
  const float *gain = own->classifier.weights, *weights = gain + 2 * s->width;
  float *g = own->classifier.gradients, *dw = g + 2 * s->width, *db = dw + kClasses * s->width;
  int64_t n = s->samples;
  memset(s->dnormal, 0, (size_t)(s->width * n) * sizeof(float));
  for (int64_t c = 0; c < kClasses; ++c) {
    const float *d = kept->logits + c * n;
    db[c] += total(d, n);
    for (int64_t k = 0; k < s->width; ++k) {
      dw[c * s->width + k] += dot(d, kept->normal + k * n, n);
      for (int64_t i = 0; i < n; ++i)
        s->dnormal[k * n + i] += weights[c * s->width + k] * d[i];
    }
  }
  float *dmean = s->dact;
  memset(dmean, 0, (size_t)(s->width * n) * sizeof(float));
  normalizeBack(dmean, dmean, NULL, s->dnormal, kept->hat, kept->inverse, s->width, n, n, gain, g, g + s->width,
                s->spare);
  for (int64_t k = 0; k < s->width; ++k)
    for (int64_t t = 0; t < s->tokens; ++t) {
      float *token = s->dx + k * s->shape.stride + t * n;
      for (int64_t i = 0; i < n; ++i)
        token[i] = dmean[k * n + i] / (float)s->tokens;
    }
}

static void release(PipecStage *s, const Own *own, Kept *kept) {
  for (int32_t i = 0; kept->split && i < kSplits * own->layers; ++i)
    releaseSplit(s, &kept->split[i]);
  float **all[] = {&kept->out, &kept->d, &kept->hat, &kept->inverse, &kept->normal, &kept->logits};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
    give(s, all[i]);
}

/* All layers of a stage, from s->x to s->x. */
static int throughLayers(PipecStage *s, Own *own, Kept *kept, int64_t step, int everything, PipecError *error) {
  for (int32_t l = 0; l < own->layers; ++l)
    for (int32_t kind = 0; kind < kSplits; ++kind)
      if (choose(s, &own->layer[l].split[kind], own->layer[l].number, step, everything, error) ||
          residual(s, &own->layer[l], kind, &kept->split[kSplits * l + kind], error))
        return 1;
  return 0;
}

static int stageForward(PipecStage *s, const PipecCall *call, PipecError *error) {
  Own *own = ownOf(s, call->stage), *previous = ownOf(s, call->stage - 1);
  Kept *kept = &own->kept[call->microbatch];
  release(s, own, kept); /* of the last step, in a plan without backwards */
  if (call->stage == 0) {
    trainingPatches(s, call->step, call->microbatch);
    embed(s, own);
  } else if (call->input) {
    unpack(s, s->x, call->input);
  } else {
    unpack(s, s->x, previous->kept[call->microbatch].out);
    give(s, &previous->kept[call->microbatch].out);
  }
  if (throughLayers(s, own, kept, call->step, 0, error))
    return 1;
  ++own->seen;
  if (call->stage + 1 == s->stages)
    return classify(s, own, kept, error) || lose(s, kept, call, error);
  if (!call->output && !(kept->out = take(s, s->width * rowCount(s))))
    return fail(error, "not enough memory for another microbatch");
  pack(s, call->output ? call->output : kept->out, s->x);
  return 0;
}

static int stageBackward(PipecStage *s, const PipecCall *call, int fused, PipecError *error) {
  Own *own = ownOf(s, call->stage), *previous = ownOf(s, call->stage - 1);
  Kept *kept = &own->kept[call->microbatch];
  if (call->stage + 1 == s->stages)
    classifyBack(s, own, kept);
  else
    unpack(s, s->dx, call->input ? call->input : kept->d);
  for (int32_t l = own->layers; l-- > 0;)
    for (int32_t kind = kSplits; kind-- > 0;)
      if (residualBack(s, &own->layer[l], kind, &kept->split[kSplits * l + kind], fused, error))
        return 1;
  float **spent[] = {&kept->d, &kept->hat, &kept->inverse, &kept->normal, &kept->logits};
  for (size_t i = 0; i < sizeof spent / sizeof *spent; ++i)
    give(s, spent[i]);
  if (call->stage == 0) {
    embedWeights(s, own, call);
    return 0;
  }
  if (!call->output && !(previous->kept[call->microbatch].d = take(s, s->width * rowCount(s))))
    return fail(error, "not enough memory");
  pack(s, call->output ? call->output : previous->kept[call->microbatch].d, s->dx);
  return 0;
}

static void stageWeights(PipecStage *s, const PipecCall *call) {
  Own *own = ownOf(s, call->stage);
  for (int32_t i = 0; i < kSplits * own->layers; ++i) {
    SplitKept *kept = &own->kept[call->microbatch].split[i];
    splitWeights(s, &own->layer[i / kSplits].split[i % kSplits], kept);
    give(s, &kept->dy);
  }
}

/* How many of `samples` test glyphs from `first` on are told right, with all units. */
static int tellTest(PipecStage *s, int64_t first, int64_t *right, PipecError *error) {
  for (int64_t i = 0; i < s->samples; ++i)
    s->glyph[i] = s->test + (first + i) % kTest * kImage;
  patches(s);
  embed(s, &s->own[0]);
  for (int32_t i = 0; i < s->ownCount; ++i) {
    Own *own = &s->own[i];
    Kept kept = {0};
    kept.split = calloc((size_t)(kSplits * own->layers), sizeof *kept.split);
    int failed = kept.split ? throughLayers(s, own, &kept, 0, 1, error) : fail(error, "not enough memory");
    if (!failed && own->stage + 1 == s->stages)
      failed = classify(s, own, &kept, error);
    for (int64_t n = 0; !failed && own->stage + 1 == s->stages && n < s->samples && first + n < kTest; ++n) {
      int32_t best = 0;
      for (int32_t c = 1; c < kClasses; ++c)
        if (kept.logits[c * s->samples + n] > kept.logits[best * s->samples + n])
          best = c;
      *right += best == classOf(first + n);
    }
    release(s, own, &kept);
    free(kept.split);
    if (failed)
      return 1;
  }
  return 0;
}

static int evaluate(PipecStage *s, double *accuracy, PipecError *error) {
  int64_t right = 0;
  if (!s->test && !(s->test = drawGlyphs(2, kTest)))
    return fail(error, "not enough memory for glyphs");
  for (int64_t first = 0; first < kTest; first += s->samples)
    if (tellTest(s, first, &right, error))
      return 1;
  *accuracy = (double)right / kTest;
  return 0;
}

#endif
