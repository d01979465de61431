/* What the object holds: its stages, their layers and splits, the units of which this shard has numbers, and what is
 * kept of each microbatch. */
#ifndef TENSOR_STAGE_H
#define TENSOR_STAGE_H

#include "attention.h"
#include "glyphs.h"
#include "provider.h"

enum { kHeads = 8 };
/* What parameters are of: the two splits of a layer, its LayerNorms, the first stage's embedding, the last one's
 * classifier. */
enum { kHeadsSplit, kColumnsSplit, kSplits, kNorms = kSplits, kEmbedding, kClassifier };

static const char *const kNames[] = {"heads", "columns", "norms", "embedding", "classifier"};

/* Parameters that belong together: of one unit, or what all shards hold alike. Rows of weights of `width` numbers:
 * those applied to the input, those of the output; then a bias for each of the first. Gradients, weights and AdamW's
 * two moments lie one behind the other. */
typedef struct Unit {
  float *gradients; /* NULL: neither owned nor worked here */
  float *weights;
  float *moments; /* both; NULL: another shard owns it, and the weights are a copy */
  float *begin;   /* resize: weights when the epoch began */
  float *last;    /* impute "same": the gradients that were computed last */
} Unit;

typedef struct Balance {
  char name[16], impute[16], priority[16];
} Balance;

/* Whether it leaves out inputs of matrices (FlexTP's way), rather than units. */
static int prunes(const Balance *balance) {
  return strcmp(balance->name, "resize") == 0 || strcmp(balance->name, "semi") == 0;
}

/* Which inputs of its two matrices a shard leaves out: scores of those that took part, when the epoch began. */
typedef struct Resize {
  int64_t epoch;
  float *inputScore, *outputScore; /* of each row of x; of each unit */
  uint8_t *inputSeen, *outputSeen; /* took part since */
} Resize;

typedef struct Split {
  int32_t kind, units;
  int32_t in, out; /* rows of a unit */
  Unit *unit;
  int32_t *owner, *worker; /* by unit: shards; NULL: nobody has said yet */
  int32_t *kept;           /* by shard: how many units */
  Balance balance;         /* of this shard */
  Resize *resize;
  /* What takes part in a step: */
  int64_t step; /* -1: to be chosen */
  int32_t active, inputs;
  int32_t *chosen;  /* units, ascending */
  int32_t *input;   /* rows of x that the first matrix takes, ascending */
  uint8_t *outputs; /* by place in `chosen`: whether the second matrix takes the unit's */
  float scale;      /* of outputs, for those that are left out */
} Split;

typedef struct Layer {
  int32_t number; /* in the model */
  int32_t index;  /* here */
  Split split[kSplits];
  Unit norms; /* gain and shift before each split */
} Layer;

/* Of a split and microbatch. From forward to the input's gradient: */
typedef struct SplitKept {
  float *hat, *inverse; /* of its LayerNorm */
  float *parts;         /* of attention, by head */
  /* until the weights' gradient: */
  float *normal; /* its input */
  float *pre;    /* rows of the first matrix; then their gradients instead */
  float *act;    /* rows for the second one */
  float *dy;     /* gradient of the output */
} SplitKept;

typedef struct Kept {
  SplitKept *split;                       /* by layer and split */
  float *out;                             /* for the next stage here */
  float *d;                               /* gradient of the output, where it comes from here */
  float *hat, *inverse, *normal, *logits; /* the classifier's, of the mean token; then gradients of the logits */
} Kept;

typedef struct Own {
  int32_t stage, first, layers, seen; /* microbatches of this step */
  Layer *layer;
  Unit embedding, classifier;
  Kept *kept; /* by microbatch */
} Own;

struct PipecStage {
  int64_t width, columns, patch, samples, seed, perStage, steps, warmup, fullEpochs;
  double rate, decay, smoothing;
  char log[256]; /* a file that gets lines; empty: none */
  int64_t model, microbatches, tokens, pixels;
  Shape shape;
  int32_t stages, ownCount, shard, shards;
  PipecGroup *group;
  Own *own;
  int32_t held;    /* layers of all stages here */
  int32_t updated; /* stages, in this step */
  double loss;     /* of this step's microbatches; then its mean */
  int64_t fixed, live, peak;
  struct Spare *free;
  int64_t room; /* of `live`, what the object always has */
  /* Glyphs, and the order of an epoch: */
  uint8_t *train, *test;
  const uint8_t **glyph; /* a microbatch's, by sample */
  int32_t *order;
  int64_t epoch;
  /* Room for what one call computes: */
  float *x, *dx, *dnormal, *image, *dact, *turned, *products, *scores, *spare, *zeros, *spill;
  double *sum, *wide;
  int32_t *all; /* 0, 1, 2, … */
  Rows rows;
};

/* Before memory that `take` has given, and before what waits to be given again. */
typedef struct Spare {
  int64_t count;
  struct Spare *next;
} Spare;

static int64_t bytesOf(int64_t count) { return 64 + count * (int64_t)sizeof(float); }

/* So many numbers, aligned to 64 bytes, counted as live: zeros, or what has been given back. Microbatches come and go
 * with the same sizes, and fresh memory is slow. */
static float *take(PipecStage *s, int64_t count) {
  Spare **at = &s->free, *found;
  while (*at && (*at)->count != count)
    at = &(*at)->next;
  if ((found = *at)) {
    *at = found->next;
  } else {
    void *memory = NULL;
    if (posix_memalign(&memory, 64, (size_t)bytesOf(count)) != 0)
      return NULL;
    memset(memory, 0, (size_t)bytesOf(count));
    found = memory;
    found->count = count;
  }
  if ((s->live += bytesOf(count)) > s->peak)
    s->peak = s->live;
  return (float *)(void *)found + kLanes;
}

static void give(PipecStage *s, float **memory) {
  if (!*memory)
    return;
  Spare *spare = (Spare *)(void *)(*memory - kLanes);
  s->live -= bytesOf(spare->count);
  spare->next = s->free;
  s->free = spare;
  *memory = NULL;
}

static void freeSpares(PipecStage *s) {
  while (s->free) {
    Spare *next = s->free->next;
    free(s->free);
    s->free = next;
  }
}

static int64_t rowsBytes(int64_t rows, int64_t stride) { return rows * stride * (int64_t)sizeof(float); }

/* Parameters of each kind. */
static int64_t sizeOf(const PipecStage *s, int32_t kind) {
  switch (kind) {
  case kHeadsSplit:
    return (4 * s->width + 3) * s->width / kHeads;
  case kColumnsSplit:
    return 2 * s->width + 1;
  case kNorms:
    return 4 * s->width;
  case kEmbedding:
    return (s->pixels + s->tokens) * s->width;
  default:
    return (2 + kClasses) * s->width + kClasses;
  }
}

/* Of a sum between shards: forward, backward. */
static Quantum forwardQuantum(const Split *p) { return quantumOf(-30, p->units); }
static Quantum backwardQuantum(const Split *p) { return quantumOf(-44, p->units); }

static int64_t rowCount(const PipecStage *s) { return s->tokens * s->samples; }
static int64_t epochOf(const PipecStage *s, int64_t step) { return step * s->microbatches * s->samples / kTrain; }

static Own *ownOf(PipecStage *s, int32_t stage) {
  for (int32_t i = 0; i < s->ownCount; ++i)
    if (s->own[i].stage == stage)
      return &s->own[i];
  return NULL;
}

static int sumOver(PipecStage *s, double *values, int64_t count, PipecError *error) {
  return s->group ? s->group->sum(s->group, values, count, PIPEC_FLOAT64, error) : 0;
}

/* Here from now on: the owner's with moments, or a worker's copy. Weights stay what they were. */
static int hold(PipecStage *s, Unit *unit, int64_t size, int owned, PipecError *error) {
  if (unit->gradients && (unit->moments != NULL) == owned)
    return 0;
  int64_t count = (owned ? 4 : 2) * size;
  float *memory = calloc((size_t)count, sizeof(float));
  if (!memory)
    return fail(error, "not enough memory for weights");
  if (unit->gradients) {
    memcpy(memory + size, unit->weights, (size_t)size * sizeof(float));
    s->fixed -= (unit->moments ? 4 : 2) * size * (int64_t)sizeof(float);
    free(unit->gradients);
  }
  s->fixed += count * (int64_t)sizeof(float);
  unit->gradients = memory;
  unit->weights = memory + size;
  unit->moments = owned ? memory + 2 * size : NULL;
  return 0;
}

static void drop(PipecStage *s, Unit *unit, int64_t size) {
  if (unit->gradients)
    s->fixed -= (unit->moments ? 4 : 2) * size * (int64_t)sizeof(float);
  free(unit->gradients);
  free(unit->begin);
  free(unit->last);
  memset(unit, 0, sizeof *unit);
}

/* Weights to begin with, from the seed, the layer and the unit alone: uniform, so that outputs begin at about 1, those
 * of splits at less. */
static void drawWeights(const PipecStage *s, Unit *unit, int64_t layer, int32_t kind, int64_t number) {
  int64_t size = sizeOf(s, kind), biases = kind == kClassifier ? kClasses : 0, in = 0, out = 0;
  uint64_t seed = mixed(mixed(mixed(mix((uint64_t)s->seed), (uint64_t)layer), (uint64_t)kind), (uint64_t)number);
  if (kind < kSplits) {
    in = kind == kHeadsSplit ? 3 * s->width / kHeads : 1;
    out = kind == kHeadsSplit ? s->width / kHeads : 1;
    biases = in;
  }
  double terms = (double)(kind == kEmbedding ? s->pixels : s->width);
  double first = sqrt(3 / terms);
  double second = sqrt(3 / ((double)(kind == kHeadsSplit ? s->width : s->columns) * 2 * (double)s->model));
  for (int64_t i = 0; i < size; ++i) {
    int output = kind < kSplits && i >= in * s->width && i < (in + out) * s->width;
    unit->weights[i] = uniform(mixed(seed, (uint64_t)i)) * (float)(output ? second : first);
    if (i >= size - biases)
      unit->weights[i] = 0;
    if (kind == kNorms)
      unit->weights[i] = i / s->width % 2 == 0 ? 1 : 0;
    if (kind == kClassifier && i < 2 * s->width)
      unit->weights[i] = i < s->width ? 1 : 0;
  }
}

#endif
