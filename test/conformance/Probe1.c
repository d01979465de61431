/* A stage library of version 1 of the header (version1/), which says what it was told. */
#include "test/conformance/version1/pipec_stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct PipecStage {
  int forwards;
};

static int says; /* whether the provider asks it to say what it was told */

uint32_t pipec_stage_version(void) { return PIPEC_STAGE_VERSION; }

int pipec_stage_create(const PipecSetup *setup, PipecStage **stage, PipecError *error) {
  const PipecStageFacts *last = &setup->own[setup->own_count - 1];
  says = strstr(setup->provider, "\"say\"") != NULL;
  if (strstr(setup->provider, "\"create\"")) {
    snprintf(error->message, sizeof error->message,
             "rank %d of %d, %d stages, %d own, %d microbatches; stage %d takes %lld ps, sends %d bytes",
             (int)setup->rank, (int)setup->ranks, (int)setup->stages, (int)setup->own_count, (int)setup->microbatches,
             (int)last->stage, (long long)last->forward_time, (int)last->output_bytes);
    return 1;
  }
  *stage = calloc(1, sizeof(PipecStage));
  return 0;
}

void pipec_stage_destroy(PipecStage *stage) { free(stage); }

int pipec_stage_forward(PipecStage *stage, const PipecCall *call, PipecError *error) {
  ++stage->forwards;
  snprintf(error->message, sizeof error->message, "stage %d microbatch %d step %d, %d and %d bytes", (int)call->stage,
           (int)call->microbatch, (int)call->step, (int)call->input_bytes, (int)call->output_bytes);
  memset(call->output, 7, (size_t)call->output_bytes);
  return says;
}

int pipec_stage_backward(PipecStage *stage, const PipecCall *call, PipecError *error) {
  (void)stage, (void)error;
  memset(call->output, 7, (size_t)call->output_bytes);
  return 0;
}

int pipec_stage_gradient_norm(PipecStage *stage, int64_t step, double *squares, PipecError *error) {
  (void)stage, (void)error;
  *squares = 2.5 + (double)step;
  return 0;
}

int pipec_stage_set_global_norm(PipecStage *stage, int64_t step, double squares, PipecError *error) {
  (void)stage;
  snprintf(error->message, sizeof error->message, "%g in step %d is too much", squares, (int)step);
  return squares > 100;
}

int pipec_stage_optimizer_step(PipecStage *stage, const PipecCall *call, PipecError *error) {
  (void)stage, (void)call, (void)error;
  return 0;
}

int pipec_stage_save(PipecStage *stage, const char *path, int64_t steps, PipecError *error) {
  (void)stage, (void)path, (void)steps, (void)error;
  return 0;
}

int pipec_stage_load(PipecStage *stage, const char *path, int64_t steps, PipecError *error) {
  (void)stage, (void)path, (void)steps, (void)error;
  return 0;
}

void pipec_stage_memory(const PipecStage *stage, PipecMemory *memory) {
  memory->fixed = 17;
  memory->live = stage->forwards;
  memory->peak = 23;
}
