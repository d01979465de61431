/* A job library, complete and small: a residual network of fully connected layers, trained by gradient descent in the
 * background of other training.
 *
 * Layer:  x' = x + relu(x W + b), on rows of `hidden` numbers (../../stages/mlp/layer.h).
 * Data:   made here, the same on every machine: x uniform in [-1, 1), to be turned into y_j = relu(x_(j+1)).
 * Loss:   mean of (x_last - y)^2 over an iteration.
 * Atom:   forward and backward of its share of the iteration's samples, as many as any other's; the last one updates
 *         the weights besides.
 * Gradients and the loss are added up atom by atom, in order, so weights are the same to the last bit however many
 * atoms a piece has. All memory is taken when the job is made. */
#include "pipec_job.h"

typedef PipecJobError MlpError;

#include "../../stages/mlp/layer.h"
#include "../../stages/mlp/provider.h"

#include <math.h>

struct PipecJob {
  int64_t hidden, layers, seed;
  int64_t data; /* samples that there are; iterations take them in turn, over and over */
  double rate;
  char report[256];       /* a file that gets a line after each iteration; empty: none */
  int64_t samples, atoms; /* of an iteration */
  int64_t rows;           /* samples of an atom */
  int64_t padded;         /* rows in memory: a multiple of 4, as the arithmetic wants it; those beyond `rows` stay 0 */
  int64_t done;           /* atoms, in all */
  double loss;            /* summed over the samples of this iteration */
  int64_t bytes;          /* of all that follows, which is one piece of memory */
  float *weights;         /* of each layer: hidden x hidden, then hidden biases */
  float *gradients;       /* likewise; this iteration's, so far */
  float *x;               /* the input of each layer, and the output of the last: each padded x hidden */
  float *pre;             /* of each layer before the relu, then its gradient: likewise */
  float *d;               /* gradient of a layer's output, then of its input: padded x hidden */
  float *scratch;         /* hidden x the larger of hidden and padded */
};

uint32_t pipec_job_version(void) { return PIPEC_JOB_VERSION; }

void pipec_job_destroy(PipecJob *j) {
  free(j->weights);
  free(j);
}

/* How many numbers: of a layer's parameters, of all of them, of one activation. */
static int64_t layerSize(const PipecJob *j) { return (j->hidden + 1) * j->hidden; }
static int64_t parameters(const PipecJob *j) { return j->layers * layerSize(j); }
static int64_t size(const PipecJob *j) { return j->padded * j->hidden; }

static int takeMemory(PipecJob *j, int64_t planned, PipecJobError *error) {
  int64_t wide = j->hidden > j->padded ? j->hidden : j->padded;
  int64_t counts[] = {parameters(j),       parameters(j), (j->layers + 1) * size(j),
                      j->layers * size(j), size(j),       j->hidden * wide};
  float **parts[] = {&j->weights, &j->gradients, &j->x, &j->pre, &j->d, &j->scratch};
  int64_t count = 0;
  for (int i = 0; i < 6; ++i)
    count += counts[i];
  j->bytes = count * (int64_t)sizeof(float);
  if (j->bytes > planned)
    return fail(error, "takes %lld bytes, the plan's memory for it is %lld", (long long)j->bytes, (long long)planned);
  float *at = calloc((size_t)count, sizeof(float));
  if (!at)
    return fail(error, "not enough memory");
  for (int i = 0; i < 6; ++i) {
    *parts[i] = at;
    at += counts[i];
  }
  return 0;
}

int pipec_job_create(const PipecJobSetup *setup, PipecJob **job, PipecJobError *error) {
  if (setup->device >= 0)
    return fail(error, "computes on the host alone");
  PipecJob *j = calloc(1, sizeof *j);
  if (!j)
    return fail(error, "not enough memory");
  const char *json = setup->provider;
  int failed = integer(json, "hidden", 65536, &j->hidden, error) || integer(json, "layers", 1024, &j->layers, error) ||
               integer(json, "samples", 1e9, &j->data, error) || integer(json, "seed", 1e15, &j->seed, error) ||
               number(json, "rate", 0, 1e30, &j->rate, error);
  text(json, "report", j->report, sizeof j->report);
  j->samples = setup->samples;
  j->atoms = setup->atoms;
  j->rows = j->samples / j->atoms;
  j->padded = (j->rows + 3) / 4 * 4;
  if (!failed && j->hidden % 4 != 0)
    failed = fail(error, "provider: hidden is %lld, expected a multiple of 4", (long long)j->hidden);
  if (!failed && (j->samples % j->atoms != 0 || j->rows < 1 || j->rows > 65536))
    failed = fail(error, "an iteration has %lld samples in %lld atoms, expected 1 to 65536 in each, in all the same",
                  (long long)j->samples, (long long)j->atoms);
  if (failed || takeMemory(j, setup->memory, error)) {
    pipec_job_destroy(j);
    return 1;
  }
  float scale = (float)sqrt(1.0 / (double)(j->hidden * j->layers));
  for (int64_t l = 0; l < j->layers; ++l) {
    float *weights = j->weights + l * layerSize(j);
    draw(weights, layerSize(j), mix((uint64_t)j->seed) ^ (uint64_t)l);
    for (int64_t i = 0; i < layerSize(j); ++i)
      weights[i] = i < j->hidden * j->hidden ? weights[i] * scale : 0; /* biases begin at 0 */
  }
  *job = j;
  return 0;
}

/* The samples of the next atom into the input of the first layer. */
static void drawInput(PipecJob *j) {
  int64_t n = j->hidden, iteration = j->done / j->atoms % j->data;
  int64_t first = iteration * (j->samples % j->data) + j->done % j->atoms * j->rows;
  for (int64_t r = 0; r < j->rows; ++r)
    draw(j->x + r * n, n, mix(mix((uint64_t)j->seed + 1) ^ (uint64_t)((first + r) % j->data)));
}

/* The loss of the atom's samples, and its gradient into d. */
static double lossOf(PipecJob *j) {
  const float *out = j->x + j->layers * size(j);
  int64_t n = j->hidden;
  double sum = 0;
  for (int64_t i = 0; i < j->rows * n; ++i) {
    float x = j->x[i - i % n + (i + 1) % n];
    float off = out[i] - (x > 0 ? x : 0);
    sum += (double)off * off;
    j->d[i] = 2 * off / (float)j->samples;
  }
  return sum;
}

/* One line, in one write: several processes may share the file. */
static int report(const PipecJob *j, int64_t iteration, double loss, PipecJobError *error) {
  FILE *file = fopen(j->report, "a");
  int bad = !file || fprintf(file, "%lld %.17g\n", (long long)iteration, loss) < 0;
  if (file && fclose(file) != 0)
    bad = 1;
  return bad ? fail(error, "%s: cannot be written", j->report) : 0;
}

static int endIteration(PipecJob *j, int64_t iteration, PipecJobError *error) {
  double loss = j->loss / (double)(j->samples * j->hidden);
  for (int64_t i = 0; i < parameters(j); ++i)
    j->weights[i] -= (float)j->rate * j->gradients[i];
  memset(j->gradients, 0, (size_t)parameters(j) * sizeof(float));
  j->loss = 0;
  return j->report[0] ? report(j, iteration, loss, error) : 0;
}

static int runAtom(PipecJob *j, PipecJobError *error) {
  int64_t iteration = j->done / j->atoms;
  drawInput(j);
  for (int64_t l = 0; l < j->layers; ++l)
    layerForward(j->weights + l * layerSize(j), j->x + l * size(j), j->pre + l * size(j), j->x + (l + 1) * size(j),
                 j->rows, j->hidden);
  double loss = lossOf(j);
  if (!isfinite(loss))
    return fail(error, "the loss is not finite in iteration %lld; lower the provider's rate, which is %g",
                (long long)iteration, j->rate);
  j->loss += loss;
  for (int64_t l = j->layers; l-- > 0;) {
    float *pre = j->pre + l * size(j);
    layerBackwardInput(j->weights + l * layerSize(j), pre, j->d, j->scratch, j->rows, j->hidden);
    layerBackwardWeight(j->gradients + l * layerSize(j), j->x + l * size(j), pre, j->scratch, j->padded, j->hidden);
  }
  return ++j->done % j->atoms == 0 ? endIteration(j, iteration, error) : 0;
}

int pipec_job_run(PipecJob *j, const PipecPiece *piece, PipecJobError *error) {
  if (piece->first != j->done)
    return fail(error, "the piece begins at atom %lld, expected %lld", (long long)piece->first, (long long)j->done);
  for (int64_t a = 0; a < piece->count; ++a)
    if (runAtom(j, error))
      return 1;
  return 0;
}

/* A saved state: these numbers, the loss so far, weights, gradients. */
typedef struct Header {
  char magic[8];
  int64_t done, hidden, layers, seed, data, samples, atoms;
} Header;

static Header headerOf(const PipecJob *j, int64_t done) {
  Header header = {"MLPJOB1", done, j->hidden, j->layers, j->seed, j->data, j->samples, j->atoms};
  return header;
}

int pipec_job_save(PipecJob *j, const char *path, int64_t atoms, PipecJobError *error) {
  if (atoms != j->done)
    return fail(error, "%lld atoms have run, expected %lld", (long long)j->done, (long long)atoms);
  Header header = headerOf(j, atoms);
  size_t count = 2 * (size_t)parameters(j); /* gradients follow weights */
  FILE *file = fopen(path, "wb");
  int bad = !file || fwrite(&header, sizeof header, 1, file) != 1 || fwrite(&j->loss, sizeof j->loss, 1, file) != 1 ||
            fwrite(j->weights, sizeof(float), count, file) != count;
  if (file && fclose(file) != 0)
    bad = 1;
  return bad ? fail(error, "%s: cannot be written", path) : 0;
}

int pipec_job_load(PipecJob *j, const char *path, int64_t atoms, PipecJobError *error) {
  Header expected = headerOf(j, atoms), header;
  size_t count = 2 * (size_t)parameters(j);
  FILE *file = fopen(path, "rb");
  if (!file)
    return fail(error, "%s: cannot be read", path);
  int bad = fread(&header, sizeof header, 1, file) != 1 || memcmp(&header, &expected, sizeof header) != 0 ||
            fread(&j->loss, sizeof j->loss, 1, file) != 1 || fread(j->weights, sizeof(float), count, file) != count ||
            fgetc(file) != EOF;
  fclose(file);
  if (bad)
    return fail(error, "%s: is not the state of this job after %lld atoms", path, (long long)atoms);
  j->done = atoms;
  return 0;
}

void pipec_job_memory(const PipecJob *j, PipecJobMemory *memory) {
  memory->held = j->bytes;
  memory->peak = j->bytes;
}
