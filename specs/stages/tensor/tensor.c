/* A stage library whose ranks may be several processes: a small vision transformer, trained by AdamW on glyphs that it
 * draws itself. README.md says how to build it and what its provider values mean.
 *
 * Layer:  x' = x + attention(LayerNorm(x)), x'' = x' + mlp(LayerNorm(x')), on patches of 20 x 20 glyphs.
 * Splits: `heads`, 8 of them, each with its rows of the matrices before and behind attention; `columns`, the MLP's
 *         hidden numbers, each with its row of both matrices. Any shard may compute any unit.
 * Bits:   a unit's part of a sum is rounded to a quantum (2^-30 forward, 2^-44 backward), and multiples of that are
 * added in float64, exactly: neither order nor owner changes a bit. What is in no split every shard computes alike. So
 * training on any number of ranks and shards, whatever the portions, gives bit for bit the weights of one process,
 * unless portions leave out units. Headers: kernels, attention and glyphs are plain arithmetic; stage: what there is;
 * resize: which units take part; split, network: passes; portions: whose is what; update, saving: the end of a step and
 * of a run. */
#define _POSIX_C_SOURCE 200112L
#include "saving.h"

uint32_t pipec_stage_version(void) { return PIPEC_STAGE_VERSION; }

static void destroySplit(PipecStage *s, Split *p) {
  forget(p);
  for (int32_t u = 0; p->unit && u < p->units; ++u)
    drop(s, &p->unit[u], sizeOf(s, p->kind));
  free(p->unit);
  free(p->owner);
  free(p->chosen);
}

static void destroyOwn(PipecStage *s, Own *own) {
  for (int64_t m = 0; own->kept && m < s->microbatches; ++m) {
    release(s, own, &own->kept[m]);
    free(own->kept[m].split);
  }
  for (int32_t l = 0; own->layer && l < own->layers; ++l) {
    drop(s, &own->layer[l].norms, 0);
    for (int32_t kind = 0; kind < kSplits; ++kind)
      destroySplit(s, &own->layer[l].split[kind]);
  }
  drop(s, &own->embedding, 0);
  drop(s, &own->classifier, 0);
  free(own->kept);
  free(own->layer);
}

void pipec_stage_destroy(PipecStage *s) {
  for (int32_t i = 0; s->own && i < s->ownCount; ++i)
    destroyOwn(s, &s->own[i]);
  float **room[] = {&s->x,        &s->dx,     &s->dnormal, &s->image, &s->dact, &s->turned,
                    &s->products, &s->scores, &s->spare,   &s->zeros, &s->spill};
  for (size_t i = 0; i < sizeof room / sizeof *room; ++i)
    give(s, room[i]);
  float *sum = (float *)s->sum;
  give(s, &sum);
  freeSpares(s);
  free(s->wide);
  free(s->all);
  free(s->rows.from);
  free(s->rows.to);
  free(s->train);
  free(s->test);
  free(s->order);
  free(s->glyph);
  free(s->own);
  free(s);
}

static int readProvider(PipecStage *s, const PipecSetup *setup, PipecError *error) {
  const char *json = setup->provider;
  s->width = 64, s->columns = 448, s->patch = 5, s->samples = 32, s->seed = 1, s->perStage = 4;
  s->steps = 1536, s->warmup = 32;
  s->rate = 4e-3, s->decay = 0.05;
  text(json, "log", s->log, sizeof s->log);
  if (integer(json, "width", 16, 4096, &s->width, error) || integer(json, "columns", 1, 65536, &s->columns, error) ||
      integer(json, "patch", 1, kSide, &s->patch, error) || integer(json, "samples", 16, 4096, &s->samples, error) ||
      integer(json, "seed", 0, 1e15, &s->seed, error) || integer(json, "layers", 1, 1024, &s->perStage, error) ||
      integer(json, "steps", 1, 1e9, &s->steps, error) || integer(json, "warmup", 0, 1e9, &s->warmup, error) ||
      integer(json, "full_epochs", 0, 1e9, &s->fullEpochs, error) || number(json, "rate", 0, 1e30, &s->rate, error) ||
      number(json, "decay", 0, 1, &s->decay, error) || number(json, "smoothing", 0, 1, &s->smoothing, error))
    return 1;
  if (s->width % kLanes != 0 || s->samples % kLanes != 0)
    return fail(error, "provider: width is %lld, samples is %lld, expected multiples of %d", (long long)s->width,
                (long long)s->samples, kLanes);
  if (kSide % s->patch != 0)
    return fail(error, "provider: patch is %lld, expected a divisor of %d", (long long)s->patch, kSide);
  s->tokens = kSide / s->patch * (kSide / s->patch);
  s->pixels = s->patch * s->patch;
  return 0;
}

/* Rows begin an odd number of cache lines apart, so that those of a matrix do not fall on the same ones. */
static int64_t strideOf(int64_t columns) { return columns + (columns / kLanes % 2 == 0 ? kLanes : 0); }

static int makeRoom(PipecStage *s, PipecError *error) {
  int64_t depth = s->width / kHeads, stride = strideOf(rowCount(s)), width = s->width;
  int64_t rows = (s->columns > 3 * width ? s->columns : 3 * width) + kClasses + kBlock;
  int64_t list = stride > width ? stride : width, wide = width + wholeLanes(s->pixels);
  Shape shape = {s->tokens, s->samples, stride, depth};
  s->shape = shape;
  list = list > s->pixels ? list : s->pixels;
  s->x = take(s, width * stride);
  s->dx = take(s, width * stride);
  s->dnormal = take(s, width * stride);
  s->image = take(s, s->pixels * stride);
  s->dact = take(s, rows * stride);
  s->turned = take(s, wide * stride);
  s->products = take(s, rows * wide);
  s->scores = take(s, s->tokens * s->tokens * s->samples);
  s->spare = take(s, 3 * depth * stride);
  s->zeros = take(s, list);
  s->spill = take(s, list);
  s->sum = (double *)(void *)take(s, 2 * width * stride);
  s->wide = malloc((size_t)(rows * width) * sizeof(double));
  s->all = malloc((size_t)list * sizeof *s->all);
  s->rows.from = malloc((size_t)rows * sizeof *s->rows.from);
  s->rows.to = malloc((size_t)rows * sizeof *s->rows.to);
  s->order = malloc(kTrain * sizeof *s->order);
  s->glyph = malloc((size_t)s->samples * sizeof *s->glyph);
  s->epoch = -1;
  for (int32_t i = 0; s->all && i < list; ++i)
    s->all[i] = i;
  return s->x && s->dx && s->dnormal && s->image && s->dact && s->turned && s->products && s->scores && s->spare &&
                 s->zeros && s->spill && s->sum && s->wide && s->all && s->rows.from && s->rows.to && s->order &&
                 s->glyph
             ? 0
             : fail(error, "not enough memory");
}

static int makeSplit(PipecStage *s, Split *p, int32_t kind, PipecError *error) {
  p->kind = kind;
  p->units = kind == kHeadsSplit ? kHeads : (int32_t)s->columns;
  p->in = kind == kHeadsSplit ? 3 * (int32_t)s->width / kHeads : 1;
  p->out = kind == kHeadsSplit ? (int32_t)s->width / kHeads : 1;
  p->step = -1;
  p->unit = calloc((size_t)p->units, sizeof *p->unit);
  size_t numbers = (size_t)p->units + (size_t)s->width;
  p->chosen = malloc(numbers * sizeof(int32_t) + (size_t)p->units);
  if (!p->unit || !p->chosen)
    return fail(error, "not enough memory for units");
  p->input = p->chosen + p->units;
  p->outputs = (uint8_t *)(p->chosen + numbers);
  return 0;
}

/* What all shards hold alike. */
static int makeShared(PipecStage *s, Unit *unit, int64_t layer, int32_t kind, PipecError *error) {
  if (hold(s, unit, sizeOf(s, kind), 1, error))
    return 1;
  drawWeights(s, unit, layer, kind, 0);
  return 0;
}

static int makeStage(PipecStage *s, Own *own, const PipecStageFacts *facts, PipecError *error) {
  int64_t boundary = s->width * rowCount(s) * (int64_t)sizeof(float);
  int64_t said[4] = {facts->input_bytes, facts->output_bytes};
  int backs = PIPEC_STAGE_HAS(facts, output_gradient_bytes);
  said[2] = backs && facts->input_gradient_bytes != facts->input_bytes ? facts->input_gradient_bytes : boundary;
  said[3] = backs && facts->output_gradient_bytes != facts->output_bytes ? facts->output_gradient_bytes : boundary;
  for (int i = 0; i < 4; ++i)
    if ((i > 1 || said[i] != 0) && said[i] != boundary)
      return fail(error, "the plan's %s is %lld bytes, samples x tokens x width x 4 is %lld",
                  i > 1 ? "boundary_gradient" : "boundary", (long long)said[i], (long long)boundary);
  own->stage = facts->stage;
  own->layers = facts->layers > 0 ? facts->layers : (int32_t)s->perStage;
  own->first = facts->layers > 0 ? facts->first_layer : facts->stage * own->layers;
  own->layer = calloc((size_t)own->layers, sizeof *own->layer);
  own->kept = calloc((size_t)s->microbatches, sizeof *own->kept);
  if (!own->layer || !own->kept)
    return fail(error, "stage %d: not enough memory", facts->stage);
  for (int64_t m = 0; m < s->microbatches; ++m)
    if (!(own->kept[m].split = calloc((size_t)(kSplits * own->layers), sizeof(SplitKept))))
      return fail(error, "stage %d: not enough memory", facts->stage);
  for (int32_t l = 0; l < own->layers; ++l) {
    own->layer[l].number = own->first + l;
    own->layer[l].index = s->held++;
    for (int32_t kind = 0; kind < kSplits; ++kind)
      if (makeSplit(s, &own->layer[l].split[kind], kind, error))
        return 1;
    if (makeShared(s, &own->layer[l].norms, own->first + l, kNorms, error))
      return 1;
  }
  return (own->stage == 0 && makeShared(s, &own->embedding, 0, kEmbedding, error)) ||
         (own->stage + 1 == s->stages && makeShared(s, &own->classifier, 0, kClassifier, error));
}

/* One process has all units without being told. */
static int ownAll(PipecStage *s, PipecError *error) {
  Map *maps = newMaps(s, kSplits * s->held);
  if (!maps)
    return fail(error, "not enough memory for portions");
  for (int32_t i = 0; i < s->ownCount; ++i)
    for (int32_t l = 0; l < s->own[i].layers; ++l)
      for (int32_t kind = 0; kind < kSplits; ++kind) {
        Map *map = maps + kSplits * s->own[i].layer[l].index + kind;
        int32_t units = s->own[i].layer[l].split[kind].units;
        memset(map->owner, 0, (size_t)units * sizeof(int32_t));
        memset(map->worker, 0, (size_t)units * sizeof(int32_t));
        map->kept[0] = units;
        strcpy(map->balance.name, "even");
      }
  int failed = portionsOf(s, maps, error);
  freeMaps(maps, kSplits * s->held);
  return failed;
}

static int make(PipecStage *s, const PipecSetup *setup, PipecError *error) {
  s->stages = setup->stages;
  s->microbatches = setup->microbatches;
  s->shard = PIPEC_STAGE_HAS(setup, group) ? setup->shard : 0;
  s->shards = PIPEC_STAGE_HAS(setup, group) ? setup->shards : 1;
  s->group = PIPEC_STAGE_HAS(setup, group) ? setup->group : NULL;
  if (setup->device >= 0)
    return fail(error, "computes on the host alone");
  if (PIPEC_STAGE_HAS(setup, replicas) && setup->replicas > 1)
    return fail(error, "has shards, but no replicas");
  if (s->shards > 1 && !s->group)
    return fail(error, "has %d shards and no group of them", s->shards);
  if (readProvider(s, setup, error) || makeRoom(s, error))
    return 1;
  s->model = setup->layers > 0 ? setup->layers : s->perStage * s->stages;
  s->own = calloc((size_t)setup->own_count, sizeof *s->own);
  if (!s->own)
    return fail(error, "not enough memory");
  for (int32_t i = 0; i < setup->own_count; ++i) {
    ++s->ownCount; /* destroyed too where it gets half made */
    if (makeStage(s, &s->own[i], PIPEC_STAGE_FACTS(setup, i), error))
      return 1;
  }
  if (ownOf(s, 0) && !(s->train = drawGlyphs(1, kTrain)))
    return fail(error, "not enough memory for glyphs");
  return s->shards == 1 ? ownAll(s, error) : 0;
}

int pipec_stage_create(const PipecSetup *setup, PipecStage **stage, PipecError *error) {
  PipecStage *s = calloc(1, sizeof *s);
  if (!s)
    return fail(error, "not enough memory");
  if (make(s, setup, error)) {
    pipec_stage_destroy(s);
    return 1;
  }
  s->room = s->peak = s->live;
  *stage = s;
  return 0;
}

int pipec_stage_forward(PipecStage *s, const PipecCall *call, PipecError *error) {
  return stageForward(s, call, error);
}
int pipec_stage_backward_input(PipecStage *s, const PipecCall *call, PipecError *error) {
  return stageBackward(s, call, 0, error);
}
int pipec_stage_backward_weight(PipecStage *s, const PipecCall *call, PipecError *error) {
  (void)error;
  stageWeights(s, call);
  return 0;
}
int pipec_stage_backward(PipecStage *s, const PipecCall *call, PipecError *error) {
  return stageBackward(s, call, 1, error);
}
int pipec_stage_optimizer_step(PipecStage *s, const PipecCall *call, PipecError *error) {
  return optimizerStep(s, call, error);
}

int pipec_stage_portions(PipecStage *s, const PipecPortion *portions, int32_t count, PipecError *error) {
  Map *maps = newMaps(s, kSplits * s->held);
  if (!maps)
    return fail(error, "not enough memory for portions");
  int failed = 0;
  for (int32_t i = 0; i < count && !failed; ++i)
    failed = readPortion(s, (const PipecPortion *)(const void *)((const char *)portions + (size_t)i * portions->size),
                         maps, error);
  for (int32_t i = 0; i < s->ownCount && !failed; ++i)
    failed = complete(s, &s->own[i], maps, error);
  failed = failed || portionsOf(s, maps, error);
  freeMaps(maps, kSplits * s->held);
  return failed;
}

void pipec_stage_memory(const PipecStage *s, PipecMemory *memory) {
  memory->fixed = s->fixed;
  memory->live = s->live - s->room;
  memory->peak = s->peak - s->room;
}
