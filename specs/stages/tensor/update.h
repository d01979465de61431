/* The end of a step: AdamW, and the log's lines. */
#ifndef TENSOR_UPDATE_H
#define TENSOR_UPDATE_H

#include "network.h"
#include "portions.h"

#include <fcntl.h>
#include <unistd.h>

/* Something done with all parameters of a stage that are here: copies too, moments or not. */
typedef void Visit(PipecStage *s, Unit *unit, int64_t layer, int32_t kind, int64_t number, void *data);

static void visit(PipecStage *s, Own *own, Visit *each, void *data) {
  for (int32_t l = 0; l < own->layers; ++l) {
    Layer *layer = &own->layer[l];
    for (int32_t kind = 0; kind < kSplits; ++kind)
      for (int32_t u = 0; u < layer->split[kind].units; ++u)
        if (layer->split[kind].unit[u].gradients)
          each(s, &layer->split[kind].unit[u], layer->number, kind, u, data);
    each(s, &layer->norms, layer->number, kNorms, 0, data);
  }
  if (own->embedding.gradients)
    each(s, &own->embedding, 0, kEmbedding, 0, data);
  if (own->classifier.gradients)
    each(s, &own->classifier, 0, kClassifier, 0, data);
}

/* What AdamW takes of a step. */
typedef struct Pace {
  float rate, decay, scale, first, second; /* the moments' corrections for having begun at 0 */
} Pace;

enum { kPercentOfFirst = 90, kPerMilleOfSecond = 999 };

/* Up over the first steps, then down along a cosine. */
static Pace paceOf(const PipecStage *s, const Own *own, int64_t step) {
  double way = s->steps > s->warmup ? (double)(step - s->warmup) / (double)(s->steps - s->warmup) : 1;
  double rate = step < s->warmup ? (double)(step + 1) / (double)s->warmup : 0.5 + 0.5 * cos(acos(-1.0) * fmin(way, 1));
  Pace pace;
  pace.rate = (float)(s->rate * rate);
  pace.decay = (float)s->decay;
  pace.scale = 1.0f / (float)(own->seen > 0 ? own->seen : 1);
  pace.first = (float)(1 / (1 - pow(kPercentOfFirst / 100.0, (double)step + 1)));
  pace.second = (float)(1 / (1 - pow(kPerMilleOfSecond / 1000.0, (double)step + 1)));
  return pace;
}

/* Matrices decay, of what all shards hold nothing does. */
static void adamW(PipecStage *s, Unit *unit, int64_t layer, int32_t kind, int64_t number, void *data) {
  (void)layer;
  (void)number;
  if (!unit->moments)
    return;
  const Pace *pace = data;
  const float one = kPercentOfFirst / 100.0f, two = kPerMilleOfSecond / 1000.0f;
  int64_t size = sizeOf(s, kind);
  float *restrict weights = unit->weights, *restrict first = unit->moments, *restrict second = first + size;
  const float *restrict gradients = unit->gradients;
  float decay = kind < kSplits ? pace->decay : 0;
  for (int64_t i = 0; i < size; ++i) {
    float g = gradients[i] * pace->scale;
    first[i] = one * first[i] + (1 - one) * g;
    second[i] = two * second[i] + (1 - two) * g * g;
    float step = first[i] * pace->first / (sqrtf(second[i] * pace->second) + 1e-8f);
    weights[i] -= pace->rate * (step + decay * weights[i]);
  }
}

static void clear(PipecStage *s, Unit *unit, int64_t layer, int32_t kind, int64_t number, void *data) {
  (void)layer;
  (void)number;
  (void)data;
  memset(unit->gradients, 0, (size_t)sizeOf(s, kind) * sizeof(float));
}

/* Of the numbers that this shard owns; what all hold is shard 0's. Each number is hashed with its place in the model,
 * and hashes are added, so that their sum over stages and shards does not depend on who owns what. */
static void hash(PipecStage *s, Unit *unit, int64_t layer, int32_t kind, int64_t number, void *data) {
  if (!unit->moments || (kind >= kSplits && s->shard != 0))
    return;
  uint64_t key = mixed(mixed(mixed(0, (uint64_t)layer), (uint64_t)kind), (uint64_t)number), sum = 0;
  for (int64_t i = 0; i < 3 * sizeOf(s, kind); ++i) {
    uint32_t bits;
    memcpy(&bits, unit->weights + i, sizeof bits);
    sum += mix((key + (uint64_t)i * 0x9e3779b97f4a7c15u) ^ bits);
  }
  *(uint64_t *)data += sum;
}

/* One write, as several processes share the file. */
static int writeLine(PipecStage *s, Own *own, int64_t step, const char *accuracy, PipecError *error) {
  uint64_t sum = 0;
  char line[160], loss[32] = "";
  visit(s, own, hash, &sum);
  if (own->stage + 1 == s->stages)
    snprintf(loss, sizeof loss, "%.17g", s->loss);
  int length = snprintf(line, sizeof line, "%lld,%d,%d,%016llx,%s,%s\n", (long long)step, own->stage, s->shard,
                        (unsigned long long)sum, loss, own->stage + 1 == s->stages ? accuracy : "");
  int file = open(s->log, O_WRONLY | O_CREAT | O_APPEND, 0666);
  int bad = file < 0 || write(file, line, (size_t)length) != length;
  if (file >= 0 && close(file) != 0)
    bad = 1;
  return bad ? fail(error, "%s: cannot be written", s->log) : 0;
}

/* Of all stages here, once the last of them has its update. */
static int endStep(PipecStage *s, int64_t step, PipecError *error) {
  char accuracy[32] = "";
  double part = 0;
  int told = s->log[0] && s->ownCount == s->stages && (step + 1) % 128 == 0;
  if (told && evaluate(s, &part, error))
    return 1;
  if (told)
    snprintf(accuracy, sizeof accuracy, "%.6f", part);
  for (int32_t i = 0; s->log[0] && i < s->ownCount; ++i)
    if (writeLine(s, &s->own[i], step, accuracy, error))
      return 1;
  s->loss = 0;
  s->updated = 0;
  return 0;
}

static int optimizerStep(PipecStage *s, const PipecCall *call, PipecError *error) {
  Own *own = ownOf(s, call->stage);
  Trips trips = {0};
  for (int32_t i = 0; i < kSplits * own->layers; ++i)
    if (impute(s, &own->layer[i / kSplits].split[i % kSplits], error))
      return 1;
  if (shareOut(s, own, 1, &trips, error) || travel(s, &trips, error))
    return 1;
  Pace pace = paceOf(s, own, call->step);
  visit(s, own, adamW, &pace);
  visit(s, own, clear, NULL);
  if (shareOut(s, own, 0, &trips, error) || travel(s, &trips, error))
    return 1;
  if (own->stage + 1 == s->stages)
    s->loss /= own->seen > 0 ? own->seen : 1;
  own->seen = 0;
  return ++s->updated == s->ownCount ? endStep(s, call->step, error) : 0;
}

#endif
