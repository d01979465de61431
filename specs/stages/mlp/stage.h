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
  float *x;         /* input of each layer: from forward to backward_weight (the weight context) */
  float *pre;       /* before the relu; after backward_input its gradient instead: likewise */
  float *out;       /* for the next stage on this rank, which takes it over as its x */
  float *dout;      /* gradient of the output, where no other rank sends it: until backward_input (the activation) */
  float *d;         /* between parts of backward_input: the gradient of the input of the last one's first layer */
  int32_t weighted; /* layers whose backward_weight is done */
} Kept;

typedef struct Own {
  int32_t stage;
  int32_t first; /* its layers, numbered over the model */
  int32_t layers;
  int32_t *seen;    /* by layer: microbatches of this step, so far */
  int32_t updated;  /* layers whose update of this step is done */
  float *weights;   /* of each layer: hidden x hidden, then hidden biases */
  float *gradients; /* likewise */
  Kept *kept;       /* by microbatch */
} Own;

struct PipecStage {
  int64_t hidden, samples, seed;
  int64_t perStage; /* layers, where the plan says nothing */
  int64_t model;    /* layers of the whole model */
  double rate;
  char log[256]; /* a file that gets a line for each stage and step; empty: none */
  int32_t stages, ownCount;
  int64_t microbatches;
  int32_t replica, replicas;
  double clip; /* the most that the norm of all gradients may be, in plans with a global norm; 0: any */
  float scale; /* of this step's gradients, by that */
  Own *own;
  float *scratch; /* hidden x the larger of hidden and samples */
  double loss;    /* summed over the step's microbatches */
  int64_t live, peak;
  Stream *stream; /* of a GPU; NULL: computes where it is called */
};

/* How many numbers: of one activation, of a layer's parameters, of a stage's. */
static int64_t size(const PipecStage *s) { return s->samples * s->hidden; }
static int64_t layerSize(const PipecStage *s) { return (s->hidden + 1) * s->hidden; }
static int64_t parameters(const PipecStage *s, const Own *own) { return own->layers * layerSize(s); }

/* The data: of a microbatch, whoever asks. Those of a step are numbered over all replicas. */
static void drawInput(const PipecStage *s, float *to, int64_t step, int64_t microbatch) {
  int64_t number = s->replica * s->microbatches + microbatch;
  draw(to, s->samples * s->hidden, mix(mix((uint64_t)s->seed + 1) ^ (uint64_t)step) ^ (uint64_t)number);
}

/* The layers that a call is about: all of its stage, or a part. */
static int32_t firstOf(const PipecCall *call) { return PIPEC_STAGE_HAS(call, layers) ? call->first_layer : 0; }
static int32_t endOf(const Own *own, const PipecCall *call) {
  return PIPEC_STAGE_HAS(call, layers) && call->layers > 0 ? call->first_layer + call->layers : own->layers;
}
/* Where this replica's share of a layer's parameters begins; that of replica + 1 begins where it ends. */
static int64_t shareOf(const PipecStage *s, int32_t replica) { return layerSize(s) * replica / s->replicas; }

static float *take(PipecStage *s, int64_t count) {
  float *memory = malloc((size_t)count * sizeof(float));
  if (memory && (s->live += count * (int64_t)sizeof(float)) > s->peak)
    s->peak = s->live;
  return memory;
}

static void give(PipecStage *s, float **memory, int64_t count) {
  if (*memory)
    s->live -= count * (int64_t)sizeof(float);
  free(*memory);
  *memory = NULL;
}

static void release(PipecStage *s, const Own *own, Kept *kept) {
  give(s, &kept->x, own->layers * size(s));
  give(s, &kept->pre, own->layers * size(s));
  give(s, &kept->out, size(s));
  give(s, &kept->dout, size(s));
  give(s, &kept->d, size(s));
  kept->weighted = 0;
}

static Own *ownOf(PipecStage *s, int32_t stage) {
  for (int32_t i = 0; i < s->ownCount; ++i)
    if (s->own[i].stage == stage)
      return &s->own[i];
  return NULL;
}

#endif
