/* A stage library of which one rank takes its time over one kind of call. PIPEC_SLOW says which:
 * "CALL:RANK:MILLISECONDS", CALL being create, save, load or forward; unset: none does. Each call for a layer's state
 * is one. The time of a pass is that of its layers. */
#include "runtime/stage/pipec_stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kLayerMicroseconds = 200 };

struct PipecStage {
  int32_t rank, layers;
};

static void rest(long microseconds) {
  struct timespec left = {microseconds / 1000000, microseconds % 1000000 * 1000};
  while (nanosleep(&left, &left) != 0) {
  }
}

static void perhapsRest(const char *call, int32_t rank) {
  const char *slow = getenv("PIPEC_SLOW");
  char what[16];
  int who;
  long milliseconds;
  if (slow && sscanf(slow, "%15[^:]:%d:%ld", what, &who, &milliseconds) == 3 && who == rank && strcmp(what, call) == 0)
    rest(milliseconds * 1000);
}

uint32_t pipec_stage_version(void) { return PIPEC_STAGE_VERSION; }

int pipec_stage_create(const PipecSetup *setup, PipecStage **stage, PipecError *error) {
  (void)error;
  perhapsRest("create", setup->rank);
  *stage = calloc(1, sizeof **stage);
  (*stage)->rank = setup->rank;
  for (int32_t i = 0; i < setup->own_count; ++i)
    (*stage)->layers += PIPEC_STAGE_FACTS(setup, i)->layers;
  return 0;
}

void pipec_stage_destroy(PipecStage *stage) { free(stage); }

static int pass(PipecStage *stage, const PipecCall *call) {
  rest(kLayerMicroseconds * stage->layers);
  if (call->output)
    memset(call->output, 0, (size_t)call->output_bytes);
  return 0;
}

int pipec_stage_forward(PipecStage *stage, const PipecCall *call, PipecError *error) {
  (void)error;
  perhapsRest("forward", stage->rank);
  return pass(stage, call);
}

int pipec_stage_backward(PipecStage *stage, const PipecCall *call, PipecError *error) {
  (void)error;
  return pass(stage, call);
}

int pipec_stage_optimizer_step(PipecStage *stage, const PipecCall *call, PipecError *error) {
  (void)stage, (void)call, (void)error;
  return 0;
}

int pipec_stage_save(PipecStage *stage, const char *path, int64_t steps, PipecError *error) {
  (void)error;
  perhapsRest("save", stage->rank);
  FILE *file = fopen(path, "w");
  const int bad = !file || fprintf(file, "%ld", (long)steps) < 0;
  return (file && fclose(file) != 0) || bad;
}

int pipec_stage_load(PipecStage *stage, const char *path, int64_t steps, PipecError *error) {
  perhapsRest("load", stage->rank);
  FILE *file = fopen(path, "r");
  long saved = -1;
  const int found = file && fscanf(file, "%ld", &saved) == 1 && saved == steps;
  if (file)
    fclose(file);
  snprintf(error->message, sizeof error->message, "%s: is of step %ld", path, saved);
  return !found;
}

int pipec_stage_save_layer(PipecStage *stage, int32_t layer, const char *path, int64_t steps, PipecError *error) {
  (void)layer;
  return pipec_stage_save(stage, path, steps, error);
}

int pipec_stage_load_layer(PipecStage *stage, int32_t layer, const char *path, int64_t steps, PipecError *error) {
  (void)layer;
  return pipec_stage_load(stage, path, steps, error);
}

void pipec_stage_memory(const PipecStage *stage, PipecMemory *memory) {
  memory->fixed = (int64_t)sizeof *stage;
  memory->live = memory->peak = 0;
}
