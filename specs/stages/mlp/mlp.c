/* A stage library, complete and small: a residual network of fully connected layers, trained by gradient descent.
 *
 * Layer:  x' = x + relu(x W + b), on `samples` rows of `hidden` numbers; a stage has those that the plan says, or
 *         `layers` of them.
 * Data:   made here, the same on every machine: x uniform in [-1, 1), to be turned into y_j = relu(x_(j+1)).
 * Loss:   mean of (x_last - y)^2.
 * What is computed depends on the layer, the microbatch and the step alone, and sums run over microbatches in the order
 * of the calls: training on many ranks, cut anywhere, gives bit for bit the weights of training on one. */
#include "saving.h"
#include "stage.h"

#include <math.h>

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
    free(own->seen);
  }
  free(s->own);
  free(s->scratch);
  free(s);
}

static int makeStage(PipecStage *s, Own *own, const PipecStageFacts *facts, PipecError *error) {
  int64_t n = s->hidden;
  int32_t shared = PIPEC_STAGE_HAS(facts, batch) && facts->batch > 0;
  own->each = shared ? s->samples / facts->batch : s->samples;
  own->rows = shared ? own->each * facts->samples : s->samples;
  own->width = shared ? facts->width : 1;
  own->member = shared ? facts->member : 0;
  s->batch = shared ? facts->batch : 0;
  if (own->each % 4 != 0 || (shared && s->samples % facts->batch != 0))
    return fail(error, "provider: samples is %lld, expected a multiple of 4%s", (long long)s->samples,
                shared ? " x the plan's batch" : "");
  int64_t boundary = size(s, own) * (int64_t)sizeof(Real), said[4] = {facts->input_bytes, facts->output_bytes};
  int backs = PIPEC_STAGE_HAS(facts, output_gradient_bytes);
  said[2] = backs && facts->input_gradient_bytes != facts->input_bytes ? facts->input_gradient_bytes : boundary;
  said[3] = backs && facts->output_gradient_bytes != facts->output_bytes ? facts->output_gradient_bytes : boundary;
  for (int i = 0; i < 4; ++i)
    if ((i > 1 || said[i] != 0) && said[i] != boundary)
      return fail(error, "the plan's %s is %lld bytes, samples x hidden x %d is %lld",
                  i > 1 ? "boundary_gradient" : "boundary", (long long)said[i], (int)sizeof(Real), (long long)boundary);
  own->stage = facts->stage;
  own->layers = facts->layers > 0 ? facts->layers : (int32_t)s->perStage;
  own->first = facts->layers > 0 ? facts->first_layer : facts->stage * own->layers;
  own->weights = malloc((size_t)parameters(s, own) * sizeof(Real));
  own->gradients = calloc((size_t)parameters(s, own), sizeof(Real));
  own->kept = calloc((size_t)s->microbatches, sizeof(Kept));
  own->seen = calloc((size_t)own->layers, sizeof *own->seen);
  if (!own->weights || !own->gradients || !own->kept || !own->seen)
    return fail(error, "stage %d: not enough memory", facts->stage);
  for (int64_t l = 0; l < own->layers; ++l)
    draw(own->weights + l * layerSize(s), layerSize(s), mix((uint64_t)s->seed) ^ (uint64_t)(own->first + l));
  Real scale = (Real)sqrt(1.0 / (double)(n * s->model));
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
  if (!failed && find(json, "clip"))
    failed = number(json, "clip", 0, 1e30, &s->clip, error);
  s->scale = 1;
  text(json, "log", s->log, sizeof s->log);
  s->stages = setup->stages;
  s->model = setup->layers > 0 ? setup->layers : s->perStage * s->stages;
  s->microbatches = setup->microbatches;
  s->replicas = PIPEC_STAGE_HAS(setup, replicas) ? setup->replicas : 1;
  s->replica = PIPEC_STAGE_HAS(setup, replicas) ? setup->replica : 0;
  if (!failed && s->replicas > 1 && setup->device >= 0)
    failed = fail(error, "computes on the host, and replicas need gradients in the memory of their GPU");
  if (!failed && s->hidden % 4 != 0)
    failed = fail(error, "provider: hidden is %lld, expected a multiple of 4", (long long)s->hidden);
  if (!failed) {
    s->own = calloc((size_t)setup->own_count, sizeof *s->own);
    s->scratch = malloc((size_t)(s->hidden * (s->hidden > s->samples ? s->hidden : s->samples)) * sizeof(Real));
    if (!s->own || !s->scratch)
      failed = fail(error, "not enough memory");
  }
  for (; !failed && s->ownCount < setup->own_count; ++s->ownCount)
    failed = makeStage(s, &s->own[s->ownCount], PIPEC_STAGE_FACTS(setup, s->ownCount), error);
  /* At most three steps are under way at once, each of three calls a microbatch and stage, the optimizers, and the two
   * of the norm. */
  if (!failed && setup->device >= 0) {
    s->stream = openStream(s, 3 * (s->ownCount * (3 * s->microbatches + 1) + 2),
                           s->samples * s->hidden * (int64_t)sizeof(Real), error);
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

static int append(const PipecStage *s, const char *line, PipecError *error) {
  FILE *file = fopen(s->log, "a");
  int bad = !file || fputs(line, file) < 0;
  if (file && fclose(file) != 0)
    bad = 1;
  return bad ? fail(error, "%s: cannot be written", s->log) : 0;
}

/* The last stage's end: the loss, and its gradient into kept->dout. */
static int finish(PipecStage *s, const Own *own, Kept *kept, const Real *out, const PipecCall *call,
                  PipecError *error) {
  int64_t n = s->hidden;
  double sum = 0;
  kept->dout = take(s, size(s, own));
  Real *input = malloc((size_t)size(s, own) * sizeof(Real));
  if (!kept->dout || !input) {
    free(input);
    return fail(error, "not enough memory");
  }
  drawInput(s, own, input, call->step, call->microbatch);
  for (int64_t i = 0; i < size(s, own); ++i) {
    Real x = input[i - i % n + (i + 1) % n];
    Real off = out[i] - (x > 0 ? x : 0);
    sum += (double)off * off;
    kept->dout[i] = 2 * off / (Real)s->samples;
  }
  free(input);
  s->loss += sum / (double)(s->samples * n); /* of a member, its part of the mean */
  if (!isfinite(sum))
    return fail(error, "the loss is not finite in step %lld; lower the provider's rate, which is %g",
                (long long)call->step, s->rate);
  return 0;
}

static int forward(PipecStage *s, const PipecCall *call, PipecError *error) {
  Own *own = ownOf(s, call->stage), *next = ownOf(s, call->stage + 1), *previous = ownOf(s, call->stage - 1);
  Kept *kept = &own->kept[call->microbatch];
  size_t bytes = (size_t)size(s, own) * sizeof(Real);
  int32_t first = firstOf(call), end = endOf(own, call);
  if (first == 0) {
    release(s, own, kept); /* of the last step, in a plan without backwards */
    kept->x = take(s, own->layers * size(s, own));
    kept->pre = take(s, own->layers * size(s, own));
  }
  Real *out = call->output ? call->output : end == own->layers ? take(s, size(s, own)) : kept->x;
  if (!kept->x || !kept->pre || !out)
    return fail(error, "not enough memory for another microbatch");
  if (first > 0) {
    /* the part before has left its output in x */
  } else if (call->stage == 0) {
    drawInput(s, own, kept->x, call->step, call->microbatch);
  } else if (call->input) {
    memcpy(kept->x, call->input, bytes);
  } else {
    memcpy(kept->x, previous->kept[call->microbatch].out, bytes);
    give(s, &previous->kept[call->microbatch].out, size(s, own));
  }
  for (int64_t l = first; l < end; ++l) {
    Real *to = l + 1 < own->layers ? kept->x + (l + 1) * size(s, own) : out;
    layerForward(own->weights + l * layerSize(s), kept->x + l * size(s, own), kept->pre + l * size(s, own), to,
                 own->rows, s->hidden);
    ++own->seen[l];
  }
  if (end < own->layers)
    return 0;
  int failed = call->stage + 1 == s->stages && finish(s, own, kept, out, call, error);
  if (next && !call->output)
    kept->out = out;
  else if (!call->output)
    give(s, &out, size(s, own));
  return failed;
}

/* The forward of a batch of its own, the same in every evaluation, of which only what the next stage on this rank takes
 * is kept. The first replica's last stage logs "evaluation,step,microbatch,loss". */
static int evaluate(PipecStage *s, const PipecCall *call, PipecError *error) {
  Own *own = ownOf(s, call->stage);
  Kept *kept = &own->kept[call->microbatch];
  PipecCall like = *call;
  double training = s->loss;
  like.step = -1; /* of the data */
  s->loss = 0;
  int failed = forward(s, &like, error);
  double loss = s->loss;
  s->loss = training;
  for (int32_t l = firstOf(call); l < endOf(own, call); ++l)
    --own->seen[l];
  if (failed || endOf(own, call) < own->layers)
    return failed;
  give(s, &kept->x, own->layers * size(s, own));
  give(s, &kept->pre, own->layers * size(s, own));
  give(s, &kept->dout, size(s, own));
  if (own->stage + 1 < s->stages || s->replica > 0 || !s->log[0])
    return 0;
  char line[96];
  snprintf(line, sizeof line, "evaluation,%lld,%lld,%.17g\n", (long long)call->step, (long long)call->microbatch, loss);
  return append(s, line, error);
}

static int backwardInput(PipecStage *s, const PipecCall *call, PipecError *error) {
  Own *own = ownOf(s, call->stage), *previous = ownOf(s, call->stage - 1);
  Kept *kept = &own->kept[call->microbatch];
  int32_t first = firstOf(call), end = endOf(own, call);
  Real *d = call->output ? call->output : take(s, size(s, own));
  if (!d)
    return fail(error, "not enough memory");
  const Real *from = end < own->layers ? kept->d : call->input ? call->input : kept->dout;
  memcpy(d, from, (size_t)size(s, own) * sizeof(Real));
  give(s, end < own->layers ? &kept->d : &kept->dout, size(s, own));
  for (int64_t l = end; l-- > first;)
    layerBackwardInput(own->weights + l * layerSize(s), kept->pre + l * size(s, own), d, s->scratch, own->rows,
                       s->hidden);
  if (first > 0)
    kept->d = d;
  else if (previous && !call->output)
    previous->kept[call->microbatch].dout = d;
  else if (!call->output)
    give(s, &d, size(s, own));
  return 0;
}

static int backwardWeight(PipecStage *s, const PipecCall *call, PipecError *error) {
  (void)error;
  Own *own = ownOf(s, call->stage);
  Kept *kept = &own->kept[call->microbatch];
  int32_t first = firstOf(call), end = endOf(own, call);
  for (int64_t l = first; l < end; ++l)
    layerBackwardWeight(own->gradients + l * layerSize(s), kept->x + l * size(s, own), kept->pre + l * size(s, own),
                        s->scratch, own->rows, s->hidden);
  kept->weighted += end - first;
  if (kept->weighted < own->layers)
    return 0;
  kept->weighted = 0;
  give(s, &kept->x, own->layers * size(s, own));
  give(s, &kept->pre, own->layers * size(s, own));
  return 0;
}

static int backward(PipecStage *s, const PipecCall *call, PipecError *error) {
  return backwardInput(s, call, error) || backwardWeight(s, call, error);
}

/* "step,stage,hash of the weights,loss (of the last stage)" in one write, as several processes share the file. Of
 * replicas the first writes it, with its own loss; a hash of 0 where weights are to be gathered yet. Where stages are
 * on several ranks, each member does, with ",member" behind it and its part of the loss, which is their sum. */
static int writeLog(const PipecStage *s, const Own *own, const PipecCall *call, int32_t seen, PipecError *error) {
  uint64_t hash = 0;
  int sharded = PIPEC_STAGE_HAS(call, sharded) && call->sharded;
  for (int64_t i = 0; i < parameters(s, own) && !sharded; ++i) {
    uint64_t bits = 0;
    memcpy(&bits, own->weights + i, sizeof(Real));
    hash = mix(hash ^ bits) + (uint64_t)i;
  }
  char line[128], loss[32] = "", member[16] = "";
  if (own->stage + 1 == s->stages)
    snprintf(loss, sizeof loss, "%.17g", s->loss / seen);
  if (s->batch > 0)
    snprintf(member, sizeof member, ",%d", own->member);
  snprintf(line, sizeof line, "%lld,%d,%016llx,%s%s\n", (long long)call->step, own->stage, (unsigned long long)hash,
           loss, member);
  return append(s, line, error);
}

static int optimizerStep(PipecStage *s, const PipecCall *call, PipecError *error) {
  Own *own = ownOf(s, call->stage);
  int32_t first = firstOf(call), end = endOf(own, call), seen = own->seen[first];
  int sharded = PIPEC_STAGE_HAS(call, sharded) && call->sharded;
  int64_t begin = sharded ? shareOf(s, own, 0) : 0, behind = sharded ? shareOf(s, own, 1) : layerSize(s);
  for (int64_t l = first; l < end; ++l) {
    Real rate = s->scale * (Real)(s->rate / (own->seen[l] > 0 ? own->seen[l] * s->replicas : 1));
    Real *weights = own->weights + l * layerSize(s), *gradients = own->gradients + l * layerSize(s);
    for (int64_t i = begin; i < behind; ++i)
      weights[i] -= rate * gradients[i];
    memset(gradients, 0, (size_t)layerSize(s) * sizeof(Real));
    own->seen[l] = 0;
  }
  own->updated += end - first;
  if (own->updated < own->layers)
    return 0;
  own->updated = 0;
  int failed = s->log[0] && s->replica == 0 && writeLog(s, own, call, seen, error);
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
int pipec_stage_evaluate(PipecStage *s, const PipecCall *call, PipecError *error) {
  return compute(s, evaluate, call, error);
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

int pipec_stage_layer(PipecStage *s, int32_t stage, int32_t layer, PipecLayer *found, PipecError *error) {
  Own *own = ownOf(s, stage);
  if (!own || layer < 0 || layer >= own->layers)
    return fail(error, "stage %d has no layer %d", stage, layer);
  found->type = sizeof(Real) == sizeof(double) ? PIPEC_FLOAT64 : PIPEC_FLOAT32;
  found->gradients = own->gradients + layer * layerSize(s);
  found->weights = own->weights + layer * layerSize(s);
  found->elements = layerSize(s);
  return 0;
}

/* The squares of this replica's, or member's, share of all gradients, as the optimizer takes them. */
static int gradientNorm(PipecStage *s, const PipecCall *call, PipecError *error) {
  (void)error;
  double sum = 0;
  for (const Own *own = s->own; own < s->own + s->ownCount; ++own)
    for (int64_t l = 0; l < own->layers; ++l)
      for (int64_t i = shareOf(s, own, 0); i < shareOf(s, own, 1); ++i) {
        double g = own->gradients[l * layerSize(s) + i] / (double)(own->seen[l] > 0 ? own->seen[l] * s->replicas : 1);
        sum += g * g;
      }
  memcpy(call->output, &sum, sizeof sum);
  return 0;
}

static int setGlobalNorm(PipecStage *s, const PipecCall *call, PipecError *error) {
  (void)error;
  double squares = 0;
  memcpy(&squares, call->input, sizeof squares);
  s->scale = s->clip > 0 && squares > s->clip * s->clip ? (Real)(s->clip / sqrt(squares)) : 1;
  return 0;
}

int pipec_stage_gradient_norm(PipecStage *s, const PipecCall *call, PipecError *error) {
  return compute(s, gradientNorm, call, error);
}
int pipec_stage_set_global_norm(PipecStage *s, const PipecCall *call, PipecError *error) {
  return compute(s, setGlobalNorm, call, error);
}

void pipec_stage_memory(const PipecStage *s, PipecMemory *memory) {
  memory->fixed = 0;
  for (const Own *own = s->own; own < s->own + s->ownCount; ++own)
    memory->fixed += 2 * parameters(s, own) * (int64_t)sizeof(Real);
  memory->live = s->live;
  memory->peak = s->peak;
}
