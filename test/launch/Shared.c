/* A stage library whose ranks have shards. Each stage has one split, of units with some weights each; all numbers are
 * whole, so that no order of adding shows. A unit's gradient follows from the unit, the microbatch, the step and what
 * all shards' units sum up to. */
#include "runtime/stage/pipec_stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kNumbers = 5, kUnits = 64, kMicrobatches = 64, kSum = 6000 };

struct PipecStage {
  int32_t stage;
  PipecGroup *group;
  int64_t units;
  int32_t owner[kUnits]; /* -1: nobody knows yet */
  double weights[kUnits][kNumbers], gradients[kUnits][kNumbers], activations[kMicrobatches];
  int slow; /* so much that a pass of a unit computes */
  double sink;
};

uint32_t pipec_stage_version(void) { return PIPEC_STAGE_VERSION; }

int pipec_stage_create(const PipecSetup *setup, PipecStage **stage, PipecError *error) {
  if (!PIPEC_STAGE_HAS(setup, group) || !setup->group || setup->group->shard != setup->shard ||
      setup->group->shards != setup->shards || setup->world != setup->ranks * setup->shards) {
    snprintf(error->message, sizeof error->message, "there are no shards");
    return 1;
  }
  PipecStage *s = calloc(1, sizeof *s);
  s->stage = PIPEC_STAGE_FACTS(setup, 0)->stage;
  s->group = setup->group;
  s->slow = strstr(setup->provider, "slow") ? 20000 : 0;
  for (int u = 0; u < kUnits; ++u)
    s->owner[u] = -1;
  *stage = s;
  return 0;
}

void pipec_stage_destroy(PipecStage *s) { free(s); }

static int owns(const PipecStage *s, int64_t unit) { return s->owner[unit] == s->group->shard; }

static int sum(PipecStage *s, double *values, int64_t count, PipecError *error) {
  return s->group->sum(s->group, values, count, PIPEC_FLOAT64, error);
}

static void compute(PipecStage *s) {
  for (int64_t u = 0; u < s->units; ++u)
    for (int i = 0; owns(s, u) && i < s->slow; ++i)
      s->sink += 1.0 / (1 + i);
}

/* The sum of all weights of the stage, wherever they are. */
int pipec_stage_forward(PipecStage *s, const PipecCall *call, PipecError *error) {
  double values[2] = {0, 0};
  compute(s);
  for (int64_t u = 0; u < s->units; ++u)
    for (int i = 0; owns(s, u) && i < kNumbers; ++i, ++values[1])
      values[0] += s->weights[u][i];
  if (sum(s, values, 2, error))
    return 1;
  if (values[1] != (double)(s->units * kNumbers)) {
    snprintf(error->message, sizeof error->message, "%g weights take part", values[1]);
    return 1;
  }
  s->activations[call->microbatch] = values[0];
  if (call->output)
    memset(call->output, (int)call->microbatch, (size_t)call->output_bytes);
  return 0;
}

int pipec_stage_backward(PipecStage *s, const PipecCall *call, PipecError *error) {
  static double large[kSum];
  const long activation = (long)s->activations[call->microbatch];
  compute(s);
  for (int64_t u = 0; u < s->units; ++u)
    for (int i = 0; owns(s, u) && i < kNumbers; ++i)
      s->gradients[u][i] +=
          (double)((call->microbatch * 31 + i * 7 + u * 3 + call->step * 5) % 11 + (activation % 3 + 3) % 3);
  for (int i = 0; i < kSum; ++i)
    large[i] = i + s->group->shard;
  if (call->output)
    memset(call->output, 2, (size_t)call->output_bytes);
  return sum(s, large, kSum, error);
}

int pipec_stage_optimizer_step(PipecStage *s, const PipecCall *call, PipecError *error) {
  (void)call, (void)error;
  for (int64_t u = 0; u < s->units; ++u)
    for (int i = 0; owns(s, u) && i < kNumbers; ++i)
      s->weights[u][i] -= s->gradients[u][i];
  memset(s->gradients, 0, sizeof s->gradients);
  return 0;
}

/* Weights go to their new owners. */
int pipec_stage_portions(PipecStage *s, const PipecPortion *portions, int32_t count, PipecError *error) {
  int32_t owner[kUnits];
  const PipecPortion *portion = portions;
  const int first = s->units == 0;
  for (int32_t p = 0; p < count; ++p) {
    s->units = portion->units;
    for (int64_t r = 0; r < portion->owned_count; ++r)
      for (int64_t u = 0; u < portion->owned[r].count; ++u)
        owner[portion->owned[r].first + u] = portion->shard;
    if (portion->stage != s->stage || portion->layers != 1 || strcmp(portion->split, "heads") != 0 ||
        !strstr(portion->balance, "name")) {
      snprintf(error->message, sizeof error->message, "this is no portion of stage %d", (int)s->stage);
      return 1;
    }
    portion = (const PipecPortion *)(const void *)((const char *)portion + portion->size);
  }
  int64_t sent[kUnits] = {0}, received[kUnits] = {0};
  double out[kUnits][kNumbers], in[kUnits][kNumbers];
  int64_t goes = 0, comes = 0;
  for (int32_t other = 0; other < s->group->shards; ++other)
    for (int64_t u = 0; u < s->units; ++u)
      if (!first && owns(s, u) && owner[u] == other) {
        memcpy(out[goes++], s->weights[u], sizeof out[0]);
        sent[other] += (int64_t)sizeof out[0];
      }
  for (int32_t other = 0; other < s->group->shards; ++other)
    for (int64_t u = 0; u < s->units; ++u)
      if (!first && s->owner[u] == other && owner[u] == s->group->shard)
        received[other] += (int64_t)sizeof in[0];
  if (s->group->exchange(s->group, out, sent, in, received, error))
    return 1;
  for (int32_t other = 0; other < s->group->shards; ++other)
    for (int64_t u = 0; u < s->units; ++u)
      if (!first && s->owner[u] == other && owner[u] == s->group->shard)
        memcpy(s->weights[u], in[comes++], sizeof in[0]);
  for (int64_t u = 0; u < s->units; ++u) {
    s->owner[u] = owner[u];
    if (!owns(s, u))
      memset(s->weights[u], 0, sizeof s->weights[u]);
    for (int i = 0; first && owns(s, u) && i < kNumbers; ++i)
      s->weights[u][i] = (double)(s->stage * 100 + u * 10 + i);
  }
  return 0;
}

/* Of each unit here its number, then its weights. */
int pipec_stage_save(PipecStage *s, const char *path, int64_t steps, PipecError *error) {
  (void)steps, (void)error;
  FILE *file = fopen(path, "wb");
  int bad = !file;
  for (int64_t u = 0; !bad && u < s->units; ++u) {
    const double number = (double)(s->stage * kUnits + u);
    if (owns(s, u))
      bad = fwrite(&number, sizeof number, 1, file) != 1 || fwrite(s->weights[u], sizeof s->weights[u], 1, file) != 1;
  }
  return (file && fclose(file) != 0) || bad;
}

int pipec_stage_load(PipecStage *s, const char *path, int64_t steps, PipecError *error) {
  (void)steps, (void)error;
  FILE *file = fopen(path, "rb");
  int bad = !file;
  double number = 0;
  for (int64_t u = 0; !bad && u < s->units; ++u)
    if (owns(s, u))
      bad = fread(&number, sizeof number, 1, file) != 1 || number != (double)(s->stage * kUnits + u) ||
            fread(s->weights[u], sizeof s->weights[u], 1, file) != 1;
  return (file && fclose(file) != 0) || bad;
}

void pipec_stage_memory(const PipecStage *s, PipecMemory *memory) {
  memory->fixed = (int64_t)sizeof *s;
  memory->live = memory->peak = 0;
}
