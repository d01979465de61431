/* A stage library, complete and small: a residual network of fully connected layers, trained by gradient descent.
 *
 * Layer:  x' = x + relu(x W + b), on `samples` rows of `hidden` numbers; a stage has those that the plan says, or
 *         `layers` of them.
 * Data:   made here, the same on every machine: x uniform in [-1, 1), to be turned into y_j = relu(x_(j+1)).
 * Loss:   mean of (x_last - y)^2.
 * What is computed depends on the layer, the microbatch and the step alone, and sums run over microbatches in the order
 * of the calls: training on many ranks, cut anywhere, gives bit for bit the weights of training on one. */
#include "layer.h"
#include "pipec_stage.h"
#include "provider.h"
#include "stream.h"

#include <math.h>

/* What a stage keeps of a microbatch, as long as it needs it. */
typedef struct Kept {
  float *x;    /* input of each layer: from forward to backward_weight (the weight context) */
  float *pre;  /* before the relu; after backward_input its gradient instead: likewise */
  float *out;  /* for the next stage on this rank, which takes it over as its x */
  float *dout; /* gradient of the output, where no other rank sends it: until backward_input (the activation) */
} Kept;

typedef struct Own {
  int32_t stage;
  int32_t first; /* its layers, numbered over the model */
  int32_t layers;
  int32_t seen;     /* microbatches of this step, so far */
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

/* The data: of a microbatch, whoever asks. */
static void drawInput(const PipecStage *s, float *to, int64_t step, int64_t microbatch) {
  draw(to, s->samples * s->hidden, mix(mix((uint64_t)s->seed + 1) ^ (uint64_t)step) ^ (uint64_t)microbatch);
}

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
}

static Own *ownOf(PipecStage *s, int32_t stage) {
  for (int32_t i = 0; i < s->ownCount; ++i)
    if (s->own[i].stage == stage)
      return &s->own[i];
  return NULL;
}

/* ---- What pipec calls. ---- */

uint32_t pipec_stage_version(void) { return PIPEC_STAGE_VERSION; }

void pipec_stage_destroy(PipecStage *s) {
  closeStream(s->stream);
  for (int32_t i = 0; s->own && i < s->ownCount; ++i) {
    Own *own = &s->own[i];
    for (int64_t m = 0; own->kept && m < s->microbatches; ++m)
      release(s, own, &own->kept[m]);
    free(own->kept);
    free(own->weights);
    free(own->gradients);
  }
  free(s->own);
  free(s->scratch);
  free(s);
}

static int makeStage(PipecStage *s, Own *own, const PipecStageFacts *facts, PipecError *error) {
  int64_t boundary = size(s) * (int64_t)sizeof(float), n = s->hidden;
  int64_t said[2] = {facts->input_bytes, facts->output_bytes};
  for (int i = 0; i < 2; ++i)
    if (said[i] != 0 && said[i] != boundary)
      return fail(error, "the plan's boundary is %lld bytes, samples x hidden x 4 is %lld", (long long)said[i],
                  (long long)boundary);
  own->stage = facts->stage;
  own->layers = facts->layers > 0 ? facts->layers : (int32_t)s->perStage;
  own->first = facts->layers > 0 ? facts->first_layer : facts->stage * own->layers;
  own->weights = malloc((size_t)parameters(s, own) * sizeof(float));
  own->gradients = calloc((size_t)parameters(s, own), sizeof(float));
  own->kept = calloc((size_t)s->microbatches, sizeof(Kept));
  if (!own->weights || !own->gradients || !own->kept)
    return fail(error, "stage %d: not enough memory", facts->stage);
  for (int64_t l = 0; l < own->layers; ++l)
    draw(own->weights + l * layerSize(s), layerSize(s), mix((uint64_t)s->seed) ^ (uint64_t)(own->first + l));
  float scale = (float)sqrt(1.0 / (double)(n * s->model));
  for (int64_t i = 0; i < parameters(s, own); ++i)
    own->weights[i] = i % ((n + 1) * n) < n * n ? own->weights[i] * scale : 0; /* biases begin at 0 */
  return 0;
}

int pipec_stage_create(const PipecSetup *setup, PipecStage **stage, PipecError *error) {
  PipecStage *s = calloc(1, sizeof *s);
  if (!s)
    return fail(error, "not enough memory");
  const char *json = setup->provider;
  int failed = integer(json, "hidden", 65536, &s->hidden, error) ||
               (setup->layers == 0 && integer(json, "layers", 1024, &s->perStage, error)) ||
               integer(json, "samples", 65536, &s->samples, error) || integer(json, "seed", 1e15, &s->seed, error) ||
               number(json, "rate", 0, 1e30, &s->rate, error);
  text(json, "log", s->log, sizeof s->log);
  s->stages = setup->stages;
  s->model = setup->layers > 0 ? setup->layers : s->perStage * s->stages;
  s->microbatches = setup->microbatches;
  if (!failed && (s->hidden % 4 != 0 || s->samples % 4 != 0))
    failed = fail(error, "provider: hidden is %lld, samples is %lld, expected multiples of 4", (long long)s->hidden,
                  (long long)s->samples);
  if (!failed) {
    s->own = calloc((size_t)setup->own_count, sizeof *s->own);
    s->scratch = malloc((size_t)(s->hidden * (s->hidden > s->samples ? s->hidden : s->samples)) * sizeof(float));
    if (!s->own || !s->scratch)
      failed = fail(error, "not enough memory");
  }
  for (; !failed && s->ownCount < setup->own_count; ++s->ownCount)
    failed = makeStage(s, &s->own[s->ownCount], PIPEC_STAGE_FACTS(setup, s->ownCount), error);
  /* At most three steps are under way at once, each of three calls a microbatch and stage, and the optimizers. */
  if (!failed && setup->device >= 0) {
    s->stream = openStream(s, 3 * s->ownCount * (3 * s->microbatches + 1), size(s) * (int64_t)sizeof(float), error);
    failed = !s->stream;
  }
  if (failed) {
    s->ownCount += s->own && s->ownCount < setup->own_count; /* the one that failed is half made */
    pipec_stage_destroy(s);
    return 1;
  }
  *stage = s;
  return 0;
}

/* The last stage's end: the loss, and its gradient into kept->dout. */
static int finish(PipecStage *s, Kept *kept, const float *out, const PipecCall *call, PipecError *error) {
  int64_t n = s->hidden;
  double sum = 0;
  kept->dout = take(s, size(s));
  float *input = malloc((size_t)size(s) * sizeof(float));
  if (!kept->dout || !input) {
    free(input);
    return fail(error, "not enough memory");
  }
  drawInput(s, input, call->step, call->microbatch);
  for (int64_t i = 0; i < size(s); ++i) {
    float x = input[i - i % n + (i + 1) % n];
    float off = out[i] - (x > 0 ? x : 0);
    sum += (double)off * off;
    kept->dout[i] = 2 * off / (float)s->samples;
  }
  free(input);
  s->loss += sum / (double)size(s);
  if (!isfinite(sum))
    return fail(error, "the loss is not finite in step %lld; lower the provider's rate, which is %g",
                (long long)call->step, s->rate);
  return 0;
}

static int forward(PipecStage *s, const PipecCall *call, PipecError *error) {
  Own *own = ownOf(s, call->stage), *next = ownOf(s, call->stage + 1), *previous = ownOf(s, call->stage - 1);
  Kept *kept = &own->kept[call->microbatch];
  size_t bytes = (size_t)size(s) * sizeof(float);
  release(s, own, kept); /* of the last step, in a plan without backwards */
  kept->x = take(s, own->layers * size(s));
  kept->pre = take(s, own->layers * size(s));
  float *out = call->output ? call->output : take(s, size(s));
  if (!kept->x || !kept->pre || !out)
    return fail(error, "not enough memory for another microbatch");
  if (call->stage == 0) {
    drawInput(s, kept->x, call->step, call->microbatch);
  } else if (call->input) {
    memcpy(kept->x, call->input, bytes);
  } else {
    memcpy(kept->x, previous->kept[call->microbatch].out, bytes);
    give(s, &previous->kept[call->microbatch].out, size(s));
  }
  for (int64_t l = 0; l < own->layers; ++l) {
    float *to = l + 1 < own->layers ? kept->x + (l + 1) * size(s) : out;
    layerForward(own->weights + l * layerSize(s), kept->x + l * size(s), kept->pre + l * size(s), to, s->samples,
                 s->hidden);
  }
  ++own->seen;
  int failed = call->stage + 1 == s->stages && finish(s, kept, out, call, error);
  if (next)
    kept->out = out;
  else if (!call->output)
    give(s, &out, size(s));
  return failed;
}

static int backwardInput(PipecStage *s, const PipecCall *call, PipecError *error) {
  Own *own = ownOf(s, call->stage), *previous = ownOf(s, call->stage - 1);
  Kept *kept = &own->kept[call->microbatch];
  float *d = call->output ? call->output : take(s, size(s));
  if (!d)
    return fail(error, "not enough memory");
  memcpy(d, call->input ? call->input : kept->dout, (size_t)size(s) * sizeof(float));
  give(s, &kept->dout, size(s));
  for (int64_t l = own->layers; l-- > 0;)
    layerBackwardInput(own->weights + l * layerSize(s), kept->pre + l * size(s), d, s->scratch, s->samples, s->hidden);
  if (previous)
    previous->kept[call->microbatch].dout = d;
  else if (!call->output)
    give(s, &d, size(s));
  return 0;
}

static int backwardWeight(PipecStage *s, const PipecCall *call, PipecError *error) {
  (void)error;
  Own *own = ownOf(s, call->stage);
  Kept *kept = &own->kept[call->microbatch];
  for (int64_t l = 0; l < own->layers; ++l)
    layerBackwardWeight(own->gradients + l * layerSize(s), kept->x + l * size(s), kept->pre + l * size(s), s->scratch,
                        s->samples, s->hidden);
  give(s, &kept->x, own->layers * size(s));
  give(s, &kept->pre, own->layers * size(s));
  return 0;
}

static int backward(PipecStage *s, const PipecCall *call, PipecError *error) {
  return backwardInput(s, call, error) || backwardWeight(s, call, error);
}

/* "step,stage,hash of the weights,loss (of the last stage)" in one write, as several processes share the file. */
static int writeLog(const PipecStage *s, const Own *own, const PipecCall *call, PipecError *error) {
  uint64_t hash = 0;
  for (int64_t i = 0; i < parameters(s, own); ++i) {
    uint32_t bits;
    memcpy(&bits, own->weights + i, sizeof bits);
    hash = mix(hash ^ bits) + (uint64_t)i;
  }
  char line[128], loss[32] = "";
  if (own->stage + 1 == s->stages)
    snprintf(loss, sizeof loss, "%.17g", s->loss / own->seen);
  snprintf(line, sizeof line, "%lld,%d,%016llx,%s\n", (long long)call->step, own->stage, (unsigned long long)hash,
           loss);
  FILE *file = fopen(s->log, "a");
  int bad = !file || fputs(line, file) < 0;
  if (file && fclose(file) != 0)
    bad = 1;
  return bad ? fail(error, "%s: cannot be written", s->log) : 0;
}

static int optimizerStep(PipecStage *s, const PipecCall *call, PipecError *error) {
  Own *own = ownOf(s, call->stage);
  float rate = (float)(s->rate / (own->seen > 0 ? own->seen : 1));
  for (int64_t i = 0; i < parameters(s, own); ++i)
    own->weights[i] -= rate * own->gradients[i];
  memset(own->gradients, 0, (size_t)parameters(s, own) * sizeof(float));
  int failed = s->log[0] && writeLog(s, own, call, error);
  own->seen = 0;
  if (own->stage + 1 == s->stages)
    s->loss = 0;
  return failed;
}

/* Here and now, or on the call's stream. */
static int compute(PipecStage *s, Work *work, const PipecCall *call, PipecError *error) {
  return s->stream ? enqueue(s->stream, work, call, error) : work(s, call, error);
}

int pipec_stage_forward(PipecStage *s, const PipecCall *call, PipecError *error) {
  return compute(s, forward, call, error);
}
int pipec_stage_backward_input(PipecStage *s, const PipecCall *call, PipecError *error) {
  return compute(s, backwardInput, call, error);
}
int pipec_stage_backward_weight(PipecStage *s, const PipecCall *call, PipecError *error) {
  return compute(s, backwardWeight, call, error);
}
int pipec_stage_backward(PipecStage *s, const PipecCall *call, PipecError *error) {
  return compute(s, backward, call, error);
}
int pipec_stage_optimizer_step(PipecStage *s, const PipecCall *call, PipecError *error) {
  return compute(s, optimizerStep, call, error);
}

/* Where a machine can run the two at once, this is the place; here one follows the other. */
int pipec_stage_forward_backward(PipecStage *s, const PipecCall *first, const PipecCall *second, PipecError *error) {
  return compute(s, forward, first, error) || compute(s, backward, second, error);
}

/* A saved layer: these numbers, then its weights; gradients are zero between steps, and the optimizer keeps nothing. A
 * saved state is the layers of all stages here, one after the other. */
typedef struct Header {
  char magic[8];
  int64_t steps, hidden, layer;
} Header;

static Header headerOf(const PipecStage *s, int64_t layer, int64_t steps) {
  Header header = {"MLPLAYER", steps, s->hidden, layer};
  return header;
}

/* Of a layer in `own`; 1: it could not be written, or is not what it should be. */
static int writeLayer(const PipecStage *s, const Own *own, int64_t layer, int64_t steps, FILE *file) {
  Header header = headerOf(s, layer, steps);
  size_t count = (size_t)layerSize(s);
  return fwrite(&header, sizeof header, 1, file) != 1 ||
         fwrite(own->weights + (layer - own->first) * layerSize(s), sizeof(float), count, file) != count;
}

static int readLayer(PipecStage *s, Own *own, int64_t layer, int64_t steps, FILE *file) {
  Header expected = headerOf(s, layer, steps), header;
  size_t count = (size_t)layerSize(s);
  return fread(&header, sizeof header, 1, file) != 1 || memcmp(&header, &expected, sizeof header) != 0 ||
         fread(own->weights + (layer - own->first) * layerSize(s), sizeof(float), count, file) != count;
}

static int ends(FILE *file) { return fgetc(file) == EOF; }

int pipec_stage_save(PipecStage *s, const char *path, int64_t steps, PipecError *error) {
  FILE *file = fopen(path, "wb");
  int bad = !file;
  for (Own *own = s->own; !bad && own < s->own + s->ownCount; ++own)
    for (int64_t l = 0; !bad && l < own->layers; ++l)
      bad = writeLayer(s, own, own->first + l, steps, file);
  if (file && fclose(file) != 0)
    bad = 1;
  return bad ? fail(error, "%s: cannot be written", path) : 0;
}

int pipec_stage_load(PipecStage *s, const char *path, int64_t steps, PipecError *error) {
  FILE *file = fopen(path, "rb");
  if (!file)
    return fail(error, "%s: cannot be read", path);
  int bad = 0;
  for (Own *own = s->own; !bad && own < s->own + s->ownCount; ++own)
    for (int64_t l = 0; !bad && l < own->layers; ++l)
      bad = readLayer(s, own, own->first + l, steps, file);
  bad = bad || !ends(file);
  fclose(file);
  return bad ? fail(error, "%s: is not the state of these stages after %lld steps", path, (long long)steps) : 0;
}

/* The stage here that holds a layer. */
static Own *holderOf(PipecStage *s, int32_t layer, PipecError *error) {
  for (Own *own = s->own; own < s->own + s->ownCount; ++own)
    if (layer >= own->first && layer - own->first < own->layers)
      return own;
  fail(error, "no stage here holds layer %d", layer);
  return NULL;
}

int pipec_stage_save_layer(PipecStage *s, int32_t layer, const char *path, int64_t steps, PipecError *error) {
  const Own *own = holderOf(s, layer, error);
  if (!own)
    return 1;
  FILE *file = fopen(path, "wb");
  int bad = !file || writeLayer(s, own, layer, steps, file);
  if (file && fclose(file) != 0)
    bad = 1;
  return bad ? fail(error, "%s: cannot be written", path) : 0;
}

int pipec_stage_load_layer(PipecStage *s, int32_t layer, const char *path, int64_t steps, PipecError *error) {
  Own *own = holderOf(s, layer, error);
  if (!own)
    return 1;
  FILE *file = fopen(path, "rb");
  if (!file)
    return fail(error, "%s: cannot be read", path);
  int bad = readLayer(s, own, layer, steps, file) || !ends(file);
  fclose(file);
  return bad ? fail(error, "%s: is not the state of layer %d after %lld steps", path, layer, (long long)steps) : 0;
}

void pipec_stage_memory(const PipecStage *s, PipecMemory *memory) {
  memory->fixed = 0;
  for (const Own *own = s->own; own < s->own + s->ownCount; ++own)
    memory->fixed += 2 * parameters(s, own) * (int64_t)sizeof(float);
  memory->live = s->live;
  memory->peak = s->peak;
}
