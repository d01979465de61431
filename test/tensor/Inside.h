/* What tests see of the tensor stage library beside its interface. Kinds: 0 heads, 1 columns, 2 norms, 3 embedding, 4
 * classifier. */
#ifndef PIPEC_TEST_TENSOR_INSIDE_H
#define PIPEC_TEST_TENSOR_INSIDE_H

#include "runtime/stage/pipec_stage.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Parameters that belong together, where they are here; layer and stage count from 0. */
typedef struct Parameters {
  float *weights, *gradients, *moments; /* NULL: not here; moments: not owned */
  int64_t size;
} Parameters;
Parameters parametersOf(PipecStage *stage, int32_t own, int32_t layer, int32_t kind, int32_t unit);

/* Makes the next update leave weights as they are and gradients where they are; its loss is there. */
double lossOf(const PipecStage *stage);
void forgetStep(PipecStage *stage, int32_t own);

/* What takes part of a split in the step that is under way. */
typedef struct TakingPart {
  int32_t active, inputs, outputs; /* units, input rows, units whose output is taken */
  const int32_t *chosen, *input;
  float scale;
} TakingPart;
TakingPart takingPart(PipecStage *stage, int32_t own, int32_t layer, int32_t kind);
/* A split's output for a microbatch that went forward: its `index`-th number, before the sum. */
void splitOutput(PipecStage *stage, int32_t own, int32_t layer, int32_t kind, int64_t step, double *to);
int64_t outputSize(const PipecStage *stage);

/* With all units, on all shards at once. */
double accuracyOf(PipecStage *stage);

void drawImage(uint8_t *pixels, uint64_t set, int64_t image);

#ifdef __cplusplus
}
#endif

#endif
