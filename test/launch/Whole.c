/* A stage library whose sums are of whole numbers, so that no order of adding shows: a layer's gradient of a microbatch
 * follows from both and the step, and an update takes the sum over all microbatches away from the weights. */
#include "runtime/stage/pipec_stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kNumbers = 37 };

typedef struct Layer {
  double gradients[kNumbers], weights[kNumbers];
} Layer;

struct PipecStage {
  int32_t stage, first, count, replica, replicas;
  int64_t microbatches;
  Layer *layers;
};

uint32_t pipec_stage_version(void) { return PIPEC_STAGE_VERSION; }

int pipec_stage_create(const PipecSetup *setup, PipecStage **stage, PipecError *error) {
  (void)error;
  const PipecStageFacts *own = PIPEC_STAGE_FACTS(setup, 0);
  PipecStage *s = calloc(1, sizeof *s);
  s->stage = own->stage;
  s->first = own->first_layer;
  s->count = own->layers;
  s->replica = setup->replica;
  s->replicas = setup->replicas;
  s->microbatches = setup->microbatches;
  s->layers = calloc((size_t)s->count, sizeof *s->layers);
  *stage = s;
  return 0;
}

void pipec_stage_destroy(PipecStage *s) {
  free(s->layers);
  free(s);
}

int pipec_stage_forward(PipecStage *s, const PipecCall *call, PipecError *error) {
  (void)s, (void)error;
  if (call->output)
    memset(call->output, 1, (size_t)call->output_bytes);
  return 0;
}

int pipec_stage_backward(PipecStage *s, const PipecCall *call, PipecError *error) {
  const int64_t microbatch = s->replica * s->microbatches + call->microbatch;
  if (call->output)
    memset(call->output, 2, (size_t)call->output_bytes);
  snprintf(error->message, sizeof error->message, "layers %d+%d of %d", (int)call->first_layer, (int)call->layers,
           (int)s->count);
  for (int32_t l = call->first_layer; l < call->first_layer + call->layers; ++l)
    for (int i = 0; i < kNumbers; ++i)
      s->layers[l].gradients[i] += (double)((microbatch * 31 + i * 7 + (s->first + l) * 3 + call->step * 5) % 11 +
                                            (int64_t)s->layers[l].weights[i] % 3);
  return call->layers < 1;
}

int pipec_stage_optimizer_step(PipecStage *s, const PipecCall *call, PipecError *error) {
  (void)error;
  const int begin = call->sharded ? kNumbers * s->replica / s->replicas : 0;
  const int end = call->sharded ? kNumbers * (s->replica + 1) / s->replicas : kNumbers;
  for (int32_t l = call->first_layer; l < call->first_layer + call->layers; ++l) {
    for (int i = begin; i < end; ++i)
      s->layers[l].weights[i] -= s->layers[l].gradients[i];
    memset(s->layers[l].gradients, 0, sizeof s->layers[l].gradients);
  }
  return 0;
}

int pipec_stage_layer(PipecStage *s, int32_t stage, int32_t layer, PipecLayer *found, PipecError *error) {
  snprintf(error->message, sizeof error->message, "there is no layer %d", (int)layer);
  if (stage != s->stage || layer >= s->count)
    return 1;
  found->type = PIPEC_FLOAT64;
  found->elements = kNumbers;
  found->gradients = s->layers[layer].gradients;
  found->weights = s->layers[layer].weights;
  return 0;
}

int pipec_stage_save(PipecStage *s, const char *path, int64_t steps, PipecError *error) {
  (void)steps, (void)error;
  FILE *file = fopen(path, "wb");
  int bad = !file;
  for (int32_t l = 0; !bad && l < s->count; ++l)
    bad = fwrite(s->layers[l].weights, sizeof s->layers[l].weights, 1, file) != 1;
  return (file && fclose(file) != 0) || bad;
}

int pipec_stage_load(PipecStage *s, const char *path, int64_t steps, PipecError *error) {
  (void)s, (void)path, (void)steps, (void)error;
  return 1;
}

void pipec_stage_memory(const PipecStage *s, PipecMemory *memory) {
  memory->fixed = s->count * (int64_t)sizeof(Layer);
  memory->live = memory->peak = 0;
}
