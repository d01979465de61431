/* A stage library that goes wrong in the way it is built for (CMakeLists.txt). */
#include "runtime/stage/pipec_stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(PROBE_CRASHES)
__attribute__((constructor)) static void atLoad(void) { abort(); }
#elif defined(PROBE_LEAVES)
__attribute__((constructor)) static void atLoad(void) { _exit(0); }
#elif defined(PROBE_PRINTS)
__attribute__((constructor)) static void atLoad(void) { printf("loaded\n"); }
#endif

#if defined(PROBE_UNDEFINED)
extern int nobodyDefinesThis(void);
#endif

struct PipecStage {
  int calls, backwards, pairs;
};

uint32_t pipec_stage_version(void) {
#if defined(PROBE_VERSION)
  return PIPEC_STAGE_VERSION + 1;
#else
  return PIPEC_STAGE_VERSION;
#endif
}

/* The provider says what to do: {"say": …, "at": "create" | "told" | "F" | "pair" | "count"}. */
static char what[4096];

#if defined(PROBE_PORTIONS)
static PipecGroup *group;

/* Calls all there is, says what it was told where a portion has gaps, and calls wrongly where the balance says so. */
int pipec_stage_portions(PipecStage *stage, const PipecPortion *portions, int32_t count, PipecError *error) {
  static float small[16];
  static double large[16];
  static const int64_t sizes[2] = {1, 2}, less[2] = {1, -2};
  const PipecPortion *p = portions;
  (void)stage;
  for (int32_t n = 0; n < count; ++n, p = (const PipecPortion *)(const void *)((const char *)p + p->size))
    if (strstr(p->balance, "even") && p->owned_count > 1) {
      snprintf(error->message, sizeof error->message, "%s of stage %d layers %d+%d has %d+%d %d+%d of %d, keeps %d",
               p->split, (int)p->stage, (int)p->first_layer, (int)p->layers, (int)p->owned[0].first,
               (int)p->owned[0].count, (int)p->owned[1].first, (int)p->owned[1].count, (int)p->units, (int)p->kept);
      return 1;
    }
  if (strstr(portions->balance, "wrong"))
    return group->sum(group, small, 4, 7, error);
  if (strstr(portions->balance, "negative"))
    return group->gather(group, small, -1, PIPEC_FLOAT32, small, error);
  if (strstr(portions->balance, "less"))
    return group->exchange(group, small, less, small, sizes, error);
  if (strstr(portions->balance, "gone"))
    return group->exchange(group, small, sizes, small, sizes, error);
  return group->sum(group, small, 4, PIPEC_FLOAT32, error) ||
         group->scatter(group, large, 5, PIPEC_FLOAT64, large, error) ||
         group->gather(group, small, 6, PIPEC_FLOAT32, small, error);
}
#endif

int pipec_stage_create(const PipecSetup *setup, PipecStage **stage, PipecError *error) {
  snprintf(what, sizeof what, "%s", setup->provider);
  if (strstr(what, "\"told\"")) {
    const PipecStageFacts *own = PIPEC_STAGE_FACTS(setup, setup->own_count - 1);
    snprintf(error->message, sizeof error->message, "stage %d has layers %d+%d of %d; sizes %d %d, device %d, %d",
             (int)own->stage, (int)own->first_layer, (int)own->layers, (int)setup->layers, setup->size == sizeof *setup,
             own->size == sizeof *own, (int)setup->device, PIPEC_STAGE_HAS(setup, context));
    return 1;
  }
  if (strstr(what, "\"shards\"")) {
    snprintf(error->message, sizeof error->message, "shard %d of %d, %d processes, group %d of %d", (int)setup->shard,
             (int)setup->shards, (int)setup->world, (int)setup->group->shard, (int)setup->group->shards);
    return 1;
  }
#if defined(PROBE_PORTIONS)
  group = setup->group;
#endif
  if (strstr(what, "\"create\"")) {
    snprintf(error->message, sizeof error->message, "no stage for %d of %d", setup->rank, setup->ranks);
    return 1;
  }
  if (!strstr(what, "\"nothing\""))
    *stage = calloc(1, sizeof(PipecStage));
  return 0;
}

void pipec_stage_destroy(PipecStage *stage) { free(stage); }

#if !defined(PROBE_NO_FORWARD)
int pipec_stage_forward(PipecStage *stage, const PipecCall *call, PipecError *error) {
#if defined(PROBE_UNDEFINED)
  nobodyDefinesThis();
#endif
  (void)call;
  ++stage->calls;
  if (strstr(what, "\"long\""))
    memset(error->message, 'x', sizeof error->message); /* no end */
  else if (strstr(what, "\"garbage\""))
    snprintf(error->message, sizeof error->message, "two\nlines, \x01\xff\xfe");
  return strstr(what, "\"F\"") ? 3 : 0;
}
#endif

#if defined(PROBE_BACKWARD) || defined(PROBE_LAYER) || defined(PROBE_PORTIONS) || defined(PROBE_PAIRS) || defined(PROBE_PRINTS)
int pipec_stage_backward(PipecStage *stage, const PipecCall *call, PipecError *error) {
  (void)call, (void)error;
  ++stage->backwards;
  return 0;
}
#endif

#if defined(PROBE_PAIRS)
int pipec_stage_forward_backward(PipecStage *stage, const PipecCall *forward, const PipecCall *backward,
                                 PipecError *error) {
  ++stage->pairs;
  snprintf(error->message, sizeof error->message, "F %d with BW %d", (int)forward->microbatch,
           (int)backward->microbatch);
  return strstr(what, "\"pair\"") && forward->microbatch == 3;
}
#endif

int pipec_stage_gradient_norm(PipecStage *stage, const PipecCall *call, PipecError *error) {
  (void)stage, (void)error;
  double squares = 2.5 + (double)call->step;
  memcpy(call->output, &squares, (size_t)call->output_bytes);
  return strstr(what, "\"norm\"") ? 3 : 0;
}

int pipec_stage_set_global_norm(PipecStage *stage, const PipecCall *call, PipecError *error) {
  (void)stage;
  double squares = 0;
  memcpy(&squares, call->input, (size_t)call->input_bytes);
  snprintf(error->message, sizeof error->message, "%g in step %d is too much", squares, (int)call->step);
  return squares > 100 || call->stage != -1 || call->output || call->stream;
}

int pipec_stage_optimizer_step(PipecStage *stage, const PipecCall *call, PipecError *error) {
#if defined(PROBE_PRINTS)
  printf("stage %d step %d\n", (int)call->stage, (int)call->step);
#endif
  (void)call;
  snprintf(error->message, sizeof error->message, "%d F, %d BW, %d pairs", stage->calls, stage->backwards,
           stage->pairs);
  return strstr(what, "\"count\"") ? 1 : 0;
}

int pipec_stage_save(PipecStage *stage, const char *path, int64_t steps, PipecError *error) {
  (void)stage, (void)path, (void)steps;
  snprintf(error->message, sizeof error->message, "the disk is on fire");
  return 1;
}

int pipec_stage_load(PipecStage *stage, const char *path, int64_t steps, PipecError *error) {
  (void)stage, (void)path, (void)steps, (void)error;
  return 0;
}

#if defined(PROBE_SAVES_ALONE) || defined(PROBE_LAYERS)
int pipec_stage_save_layer(PipecStage *stage, int32_t layer, const char *path, int64_t steps, PipecError *error) {
  (void)stage, (void)steps;
  snprintf(error->message, sizeof error->message, "%s: no room for layer %d", path, (int)layer);
  return 1;
}
#endif

#if defined(PROBE_LOADS_ALONE) || defined(PROBE_LAYERS)
int pipec_stage_load_layer(PipecStage *stage, int32_t layer, const char *path, int64_t steps, PipecError *error) {
  (void)stage, (void)layer;
  snprintf(error->message, sizeof error->message, "%s: not of step %d", path, (int)steps);
  return 1;
}
#endif

#if defined(PROBE_LAYER)
/* Of two layers of 100 numbers, unless the provider says otherwise. */
int pipec_stage_layer(PipecStage *stage, int32_t s, int32_t layer, PipecLayer *found, PipecError *error) {
  static float numbers[4][100];
  (void)stage, (void)s;
  snprintf(error->message, sizeof error->message, "there is no layer %d", (int)layer);
  if (layer >= (strstr(what, "\"few\"") ? 1 : 2) && !strstr(what, "\"many\""))
    return 1;
  found->type = strstr(what, "\"type\"") ? 7 : PIPEC_FLOAT32;
  found->elements = strstr(what, "\"bytes\"") ? 99 : 100;
  found->gradients = strstr(what, "\"nowhere\"") ? NULL : numbers[layer % 4];
  found->weights = numbers[(layer + 2) % 4];
  return 0;
}
#endif

void pipec_stage_memory(const PipecStage *stage, PipecMemory *memory) {
  memory->fixed = (int64_t)sizeof *stage;
  memory->live = memory->peak = 0;
}
