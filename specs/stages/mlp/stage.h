/* What the object holds: its stages, what they keep of each microbatch, and memory that is counted. */
#ifndef MLP_STAGE_H
#define MLP_STAGE_H

#include "pipec_stage.h"

typedef PipecError MlpError;

#include "layer.h"
#include "provider.h"
#include "stream.h"

/* What a stage keeps of a microbatch, as long as it needs it. */
typedef struct Kept {
  Real *x;          /* input of each layer: from forward to backward_weight (the weight context) */
  Real *pre;        /* before the relu; after backward_input its gradient instead: likewise */
  Real *out;        /* for the next stage on this rank, which takes it over as its x */
  Real *dout;       /* gradient of the output, where no other rank sends it: until backward_input (the activation) */
  Real *d;          /* between parts of backward_input: the gradient of the input of the last one's first layer */
  int32_t weighted; /* layers whose backward_weight is done */
} Kept;

typedef struct Own {
  int32_t stage;
  int32_t first; /* its layers, numbered over the model */
  int32_t layers;
  int64_t rows;          /* of a microbatch on this rank */
  int64_t each;          /* of one sample of it, where the stage is on several ranks; else all of them */
  int32_t width, member; /* ranks that it is on, and which of them this one is */
  int32_t *seen;         /* by layer: microbatches of this step, so far */
  int32_t updated;       /* layers whose update of this step is done */
  Real *weights;         /* of each layer: hidden x hidden, then hidden biases */
  Real *gradients;       /* likewise */
  Kept *kept;            /* by microbatch */
} Own;

struct PipecStage {
  int64_t hidden, samples, seed;
  int64_t perStage; /* layers, where the plan says nothing */
  int64_t model;    /* layers of the whole model */
  double rate;
  char log[256]; /* a file that gets a line for each stage and step; empty: none */
  int32_t stages, ownCount;
  int64_t microbatches;
  int64_t batch; /* samples of a step, where stages are on several ranks; else 0 */
  int32_t replica, replicas;
  double clip; /* the most that the norm of all gradients may be, in plans with a global norm; 0: any */
  float scale; /* of this step's gradients, by that */
  Own *own;
  Real *scratch; /* hidden x the larger of hidden and samples */
  double loss;   /* summed over the step's microbatches */
  int64_t live, peak;
  Stream *stream; /* of a GPU; NULL: computes where it is called */
};

/* How many numbers: of one activation, of a layer's parameters, of a stage's. */
static int64_t size(const PipecStage *s, const Own *own) { return own->rows * s->hidden; }
static int64_t layerSize(const PipecStage *s) { return (s->hidden + 1) * s->hidden; }
static int64_t parameters(const PipecStage *s, const Own *own) { return own->layers * layerSize(s); }

/* The data: of a microbatch, or of the samples of it that are on this rank, whoever asks. Microbatches of a step are
 * numbered over all replicas. */
static void drawInput(const PipecStage *s, const Own *own, Real *to, int64_t step, int64_t microbatch) {
  int64_t number = s->replica * s->microbatches + microbatch, sample = own->each * s->hidden;
  uint64_t seed = mix(mix((uint64_t)s->seed + 1) ^ (uint64_t)step) ^ (uint64_t)number;
  for (int64_t k = 0; k * own->each < own->rows; ++k)
    draw(to + k * sample, sample, seedBehind(seed, (own->member + k * own->width) * sample));
}

/* The layers that a call is about: all of its stage, or a part. */
static int32_t firstOf(const PipecCall *call) { return PIPEC_STAGE_HAS(call, layers) ? call->first_layer : 0; }
static int32_t endOf(const Own *own, const PipecCall *call) {
  return PIPEC_STAGE_HAS(call, layers) && call->layers > 0 ? call->first_layer + call->layers : own->layers;
}
/* Where this replica's share of a layer's parameters begins, or this member's; behind: where it ends. */
static int64_t shareOf(const PipecStage *s, const Own *own, int behind) {
  return layerSize(s) * (s->replica + own->member + behind) / (s->replicas * own->width);
}

static Real *take(PipecStage *s, int64_t count) {
  Real *memory = malloc((size_t)count * sizeof(Real));
  if (memory && (s->live += count * (int64_t)sizeof(Real)) > s->peak)
    s->peak = s->live;
  return memory;
}

static void give(PipecStage *s, Real **memory, int64_t count) {
  if (*memory)
    s->live -= count * (int64_t)sizeof(Real);
  free(*memory);
  *memory = NULL;
}

static void release(PipecStage *s, const Own *own, Kept *kept) {
  give(s, &kept->x, own->layers * size(s, own));
  give(s, &kept->pre, own->layers * size(s, own));
  give(s, &kept->out, size(s, own));
  give(s, &kept->dout, size(s, own));
  give(s, &kept->d, size(s, own));
  kept->weighted = 0;
}

static Own *ownOf(PipecStage *s, int32_t stage) {
  for (int32_t i = 0; i < s->ownCount; ++i)
    if (s->own[i].stage == stage)
      return &s->own[i];
  return NULL;
}

#endif
