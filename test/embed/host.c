/* A program that runs a rank of a plan in its own process, with the functions of pipec_run.h alone. Its model is the
 * least that has a forward, both gradients, weights, and sums whose order shows: stage s multiplies its input, element
 * by element, by its weights; the loss is half the sum of the squares of what comes out. Doubles.
 *
 *   host PLAN --stages S --steps N [--width N] [--checkpoint DIR] [--every N] [--resume] [--overwrite] [--deadline S]
 *        [--idle S] [--swap STEP VARIANT] [--sleep STEP SECONDS] [--fail STEP] [--finish-at N] [--opens N]
 *        [--control PATH] [--trace PATH] [--clip NORM] [--device cuda] [--transport NAME]
 *        [--replicas N] [--abandon STEP] [--drain] [--report] [--fork STEP] [--stop STEP]
 *
 * On a GPU the same functions run on the instructions' streams, between copies from and to the slots (gpu.h). With
 * replicas rank r has stage r alone, of one layer.
 *
 * Prints a line of JSON for each step {"step", "loss", "epoch"}, at the end {"weights": …}, with --report what that
 * says; with --opens what the process has before and after. Exits with the code of the first call that failed.
 */
#include "runtime/embed/pipec_run.h"
#include "test/embed/gpu.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kStages = 64, kMicrobatches = 256, kJobs = 4096 };

static struct {
  const char *plan, *checkpoint, *control, *trace, *device, *transport, *variant;
  int stages, resume, overwrite, report, drain;
  long steps, width, every, swapAt, sleepAt, failAt, finishAt, abandonAt, forkAt, stopAt, opens, replicas;
  double deadline, idle, sleepFor, clip;
} options = {.width = 256,
             .replicas = 1,
             .swapAt = -1,
             .sleepAt = -1,
             .failAt = -1,
             .finishAt = -1,
             .abandonAt = -1,
             .forkAt = -1,
             .stopAt = -1};

static struct Stage {
  double *summed, *gathered; /* on a GPU with replicas, where these add up gradients and gather weights */
  int shared;                /* some of the weights were gathered */
  double *weights, *gradients, *input[kMicrobatches], *output[kMicrobatches], *back[kMicrobatches];
} stages[kStages];
static double factor = 1, loss;
static long microbatches;

static int onGpu(void) { return options.device && strcmp(options.device, "cuda") == 0; }

static size_t bytes(void) { return (size_t)options.width * sizeof(double); }

static double *numbers(void) { return calloc((size_t)options.width, sizeof(double)); }

static struct Stage *stageAt(int s) {
  struct Stage *stage = &stages[s];
  if (!stage->weights) {
    stage->weights = options.replicas > 1 && onGpu() ? gpuPinned(bytes()) : numbers();
    stage->gradients = options.replicas > 1 && onGpu() ? gpuPinned(bytes()) : numbers();
    for (long i = 0; i < options.width; ++i)
      stage->weights[i] = 1 + 0.001 * (double)((s * 31 + i * 7) % 97);
  }
  return stage;
}

static void forward(const PipecRunInstruction *i) {
  struct Stage *stage = stageAt(i->stage);
  double *in = numbers(), *out = numbers();
  if (i->input)
    memcpy(in, i->input, (size_t)i->input_bytes);
  else if (i->stage > 0)
    memcpy(in, stages[i->stage - 1].output[i->microbatch], bytes());
  else
    for (long k = 0; k < options.width; ++k)
      in[k] = 0.01 * (double)((i->step * 13 + (i->microbatch + i->replica * i->microbatches) * 5 + k) % 89);
  for (long k = 0; k < options.width; ++k)
    out[k] = in[k] * stage->weights[k];
  stage->input[i->microbatch] = in;
  stage->output[i->microbatch] = out;
  if (i->output)
    memcpy(i->output, out, (size_t)i->output_bytes);
  if (i->stage == options.stages - 1)
    for (long k = 0; k < options.width; ++k)
      loss += out[k] * out[k] / 2;
}

static void backwardInput(const PipecRunInstruction *i) {
  struct Stage *stage = stageAt(i->stage);
  double *given = numbers();
  if (i->input)
    memcpy(given, i->input, bytes());
  else if (i->stage == options.stages - 1)
    memcpy(given, stage->output[i->microbatch], bytes());
  else { /* of the next stage, which is on this rank */
    const struct Stage *next = &stages[i->stage + 1];
    for (long k = 0; k < options.width; ++k)
      given[k] = next->back[i->microbatch][k] * next->weights[k];
  }
  stage->back[i->microbatch] = given;
  if (i->output)
    for (long k = 0; k < options.width; ++k)
      ((double *)i->output)[k] = given[k] * stage->weights[k];
}

static void backwardWeight(const PipecRunInstruction *i) {
  struct Stage *stage = stageAt(i->stage);
  for (long k = 0; k < options.width; ++k)
    stage->gradients[k] += stage->back[i->microbatch][k] * stage->input[i->microbatch][k];
}

static double norm(void) {
  double sum = 0;
  for (int s = 0; s < options.stages; ++s)
    for (long k = 0; stages[s].weights && k < options.width; ++k)
      sum += stages[s].gradients[k] * stages[s].gradients[k];
  return sum;
}

static double rootOf(double square) {
  double root = square > 1 ? square : 1;
  for (int i = 0; i < 200; ++i)
    root = (root + square / root) / 2;
  return root;
}

static void update(int s) {
  struct Stage *stage = stageAt(s);
  for (long k = 0; k < options.width; ++k) {
    stage->weights[k] -= 1e-4 * factor * stage->gradients[k] / (double)(microbatches * options.replicas);
    stage->gradients[k] = 0;
  }
}

/* What of a step nothing needs any more. */
static void forget(void) {
  for (int s = 0; s < options.stages; ++s)
    for (int m = 0; m < kMicrobatches; ++m) {
      double **all[] = {&stages[s].input[m], &stages[s].output[m], &stages[s].back[m]};
      for (int k = 0; k < 3; ++k) {
        free(*all[k]);
        *all[k] = NULL;
      }
    }
}

static const char *keep(const PipecRunInstruction *i) {
  FILE *file = fopen(i->path, i->kind == PIPEC_RUN_SAVE ? "wb" : "rb");
  size_t wrong = !file;
  for (int s = 0; file && s < options.stages; ++s) {
    int there = stages[s].weights != NULL;
    if (i->kind == PIPEC_RUN_SAVE) {
      wrong += fwrite(&there, sizeof there, 1, file) != 1;
      wrong += there && fwrite(stages[s].weights, sizeof(double), (size_t)options.width, file) != (size_t)options.width;
    } else {
      wrong += fread(&there, sizeof there, 1, file) != 1;
      if (!wrong && there)
        wrong += fread(stageAt(s)->weights, sizeof(double), (size_t)options.width, file) != (size_t)options.width;
    }
  }
  wrong += file && fclose(file) != 0;
  return wrong ? "a file of the state is not as it should be" : NULL;
}

static int fail(int code, const char *what, const PipecRunError *error) {
  fprintf(stderr, "host: %s: %s\n", what, error->message);
  return code;
}

/* What the host does, wherever the slots are. */
static const char *work(const PipecRunInstruction *i, double *number) {
  switch (i->kind) {
  case PIPEC_RUN_F:
    forward(i);
    return NULL;
  case PIPEC_RUN_B:
    backwardInput(i);
    return NULL;
  case PIPEC_RUN_W:
    backwardWeight(i);
    return NULL;
  case PIPEC_RUN_BW:
    backwardInput(i);
    backwardWeight(i);
    return NULL;
  case PIPEC_RUN_OPTIMIZER:
    update(i->stage);
    return NULL;
  case PIPEC_RUN_NORM:
    *number = norm();
    return NULL;
  case PIPEC_RUN_CLIP: {
    const double root = rootOf(i->number) / (double)microbatches;
    factor = options.clip > 0 && root > options.clip ? options.clip / root : 1;
    return NULL;
  }
  case PIPEC_RUN_SAVE:
  case PIPEC_RUN_LOAD:
    return keep(i);
  default:
    return NULL;
  }
}

/* The instruction of a stream, whose slots are copied. */
static void workOnStream(const void *what, const void *in, void *out) {
  PipecRunInstruction i = *(const PipecRunInstruction *)what;
  double number = 0;
  i.input = in;
  i.output = out;
  if (i.kind == PIPEC_RUN_CLIP)
    memcpy(&i.number, in, sizeof i.number);
  work(&i, &number);
  if (i.kind == PIPEC_RUN_NORM)
    memcpy(out, &number, sizeof number);
}

static const char *enqueue(const PipecRunInstruction *i) {
  struct Stage *stage = options.replicas > 1 && i->stage >= 0 ? stageAt(i->stage) : NULL;
  const char *error = NULL;
  if (stage && i->kind == PIPEC_RUN_OPTIMIZER)
    error = gpuCopy(i->stream, stage->gradients, stage->summed, bytes());
  if (!error)
    error = gpuPut(i->stream, i->input, (size_t)i->input_bytes, i->output, (size_t)i->output_bytes, workOnStream, i,
                   sizeof *i);
  if (!error && stage && (i->kind == PIPEC_RUN_W || i->kind == PIPEC_RUN_BW || i->kind == PIPEC_RUN_OPTIMIZER))
    error = gpuCopy(i->stream, stage->summed, stage->gradients, bytes());
  if (!error && stage && i->kind == PIPEC_RUN_OPTIMIZER && i->sharded) {
    stage->shared = 1;
    error = gpuCopy(i->stream, stage->gathered, stage->weights, bytes());
  }
  return error;
}

static const char *perform(const PipecRunInstruction *i, double *number) {
  if (i->kind <= PIPEC_RUN_R)
    microbatches = i->microbatches;
  if (i->kind == PIPEC_RUN_F && options.sleepAt == i->step && i->microbatch == 0)
    usleep((useconds_t)(options.sleepFor * 1e6));
  if (i->kind == PIPEC_RUN_F && options.failAt == i->step)
    return "asked to fail";
  return onGpu() && i->kind <= PIPEC_RUN_CLIP ? enqueue(i) : work(i, number);
}

/* The plan has no instruction for it. */
static int optimizes;

static int endOfStep(PipecRun *run, const PipecRunInstruction *i, long *left, PipecRunError *error) {
  if (i->step > 0 && microbatches > 0) {
    for (int s = 0; !optimizes && s < options.stages; ++s)
      if (stages[s].weights) {
        const char *wrong = stages[s].summed ? gpuCopy(NULL, stages[s].gradients, stages[s].summed, bytes()) : NULL;
        if (wrong) {
          snprintf(error->message, sizeof error->message, "%s", wrong);
          return 4;
        }
        update(s);
      }
    printf("{\"step\": %ld, \"loss\": %.17g}\n", (long)i->step - 1, loss / (double)microbatches);
    fflush(stdout);
  }
  for (int s = 0; s < options.stages; ++s)
    if (stages[s].shared) {
      const char *wrong = gpuCopy(NULL, stages[s].weights, stages[s].gathered, bytes());
      if (wrong) {
        snprintf(error->message, sizeof error->message, "%s", wrong);
        return 4;
      }
    }
  loss = 0;
  forget();
  *left = options.steps - (long)i->step;
  if (options.swapAt == i->step) {
    int64_t from = 0;
    const int code = pipec_run_swap(run, options.variant, &from, error);
    if (code != 0)
      return code;
    printf("{\"swapped\": %ld}\n", (long)from);
  }
  if (options.stopAt == i->step)
    return pipec_run_stop(run, error);
  return 0;
}

/* A child to which the run is not: its calls are refused, it closes the run and ends as a program does. */
static const char *forkChild(PipecRun *run) {
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    PipecRunError error = {""};
    PipecRunInstruction i = {.size = sizeof i};
    const int next = pipec_run_next(run, &i, &error), done = pipec_run_done(run, NULL, NULL),
              finish = pipec_run_finish(run, NULL);
    alarm(300); /* a child that hangs is ended */
    fprintf(stderr, "child: %s\n", error.message);
    pipec_run_close(run, "a child's end");
    exit(next == 2 && done == 2 && finish == 2 ? 0 : 1);
  }
  int status = 1;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0 ? NULL : "its child did not end well";
}

static int once(void) {
  PipecRunError error = {""};
  PipecRun *run = NULL;
  PipecRunSetup setup = {.size = sizeof setup,
                         .plan = options.plan,
                         .device = options.device,
                         .transport = options.transport,
                         .deadline = options.deadline,
                         .idle = options.idle,
                         .checkpoint = options.checkpoint,
                         .every = options.every,
                         .resume = options.resume,
                         .overwrite = options.overwrite,
                         .control = options.control,
                         .trace = options.trace};
  PipecRunLayer layer = {.size = sizeof layer, .type = 2, .elements = options.width};
  if (options.replicas > 1) {
    const char *rank = getenv("RANK");
    layer.stage = rank ? atoi(rank) / (int)options.replicas : 0;
    struct Stage *stage = stageAt(layer.stage);
    if (onGpu() && !stage->summed) {
      stage->summed = gpuMemory(bytes());
      stage->gathered = gpuMemory(bytes());
    }
    layer.gradients = onGpu() ? stage->summed : stage->gradients;
    layer.weights = onGpu() ? stage->gathered : stage->weights;
    setup.layers = &layer;
    setup.layer_count = 1;
  }
  int code = pipec_run_open(&setup, &run, &error);
  if (code != 0)
    return fail(code, "open", &error);
  for (int64_t drained = 0;;) {
    PipecRunInstruction i = {.size = sizeof i};
    PipecRunResult result = {.size = sizeof result};
    long left = 1;
    code = pipec_run_next(run, &i, &error);
    if (code != 0 || i.kind == PIPEC_RUN_END)
      break;
    if (i.kind == PIPEC_RUN_NONE)
      continue;
    optimizes |= i.kind == PIPEC_RUN_OPTIMIZER;
    const int ends = i.kind == PIPEC_RUN_END_OF_STEP;
    const int drains = ends && options.drain && i.step > drained;
    if (drains)
      drained = i.step; /* its end comes again */
    else if (ends)
      code = endOfStep(run, &i, &left, &error);
    else
      result.error = perform(&i, &result.number);
    if (i.kind == PIPEC_RUN_F && options.forkAt == i.step && i.microbatch == 1)
      result.error = forkChild(run);
    if (code == 0 && i.kind == PIPEC_RUN_F && options.abandonAt == i.step && i.microbatch > 0) {
      pipec_run_close(run, "asked to leave");
      return 0;
    }
    if (code != 0)
      break;
    code = pipec_run_done(run, &result, &error);
    if (code == 0 && drains)
      code = pipec_run_drain(run, &error);
    else if (code == 0 && (left <= 0 || (ends && options.finishAt == i.step)))
      code = pipec_run_finish(run, &error);
    if (code != 0)
      break;
  }
  if (code == 0 && options.report) {
    const char *json = NULL;
    code = pipec_run_report(run, &json, &error);
    printf("%s\n", json);
  }
  pipec_run_close(run, code == 0 ? NULL : error.message);
  return code == 0 ? 0 : fail(code, "run", &error);
}

static long entriesOf(const char *path) {
  long count = 0;
  DIR *folder = opendir(path);
  for (struct dirent *entry; folder && (entry = readdir(folder));)
    count += entry->d_name[0] != '.';
  if (folder)
    closedir(folder);
  return count;
}

static long residentKilobytes(void) {
  char line[256];
  long kilobytes = 0;
  FILE *status = fopen("/proc/self/status", "r");
  while (status && fgets(line, sizeof line, status))
    sscanf(line, "VmRSS: %ld", &kilobytes);
  if (status)
    fclose(status);
  return kilobytes;
}

static void count(const char *when) {
  printf("{\"when\": \"%s\", \"threads\": %ld, \"descriptors\": %ld, \"kilobytes\": %ld}\n", when,
         entriesOf("/proc/self/task"), entriesOf("/proc/self/fd"), residentKilobytes());
  fflush(stdout);
}

static long numberAfter(int argc, char **argv, int *at) { return *at + 1 < argc ? atol(argv[++*at]) : 0; }
static double realAfter(int argc, char **argv, int *at) { return *at + 1 < argc ? atof(argv[++*at]) : 0; }
static const char *wordAfter(int argc, char **argv, int *at) { return *at + 1 < argc ? argv[++*at] : ""; }

int main(int argc, char **argv) {
  for (int a = 1; a < argc; ++a) {
    const char *word = argv[a];
#define IS(name) (strcmp(word, name) == 0)
    if (IS("--stages"))
      options.stages = (int)numberAfter(argc, argv, &a);
    else if (IS("--steps"))
      options.steps = numberAfter(argc, argv, &a);
    else if (IS("--width"))
      options.width = numberAfter(argc, argv, &a);
    else if (IS("--every"))
      options.every = numberAfter(argc, argv, &a);
    else if (IS("--opens"))
      options.opens = numberAfter(argc, argv, &a);
    else if (IS("--fail"))
      options.failAt = numberAfter(argc, argv, &a);
    else if (IS("--replicas"))
      options.replicas = numberAfter(argc, argv, &a);
    else if (IS("--abandon"))
      options.abandonAt = numberAfter(argc, argv, &a);
    else if (IS("--fork"))
      options.forkAt = numberAfter(argc, argv, &a);
    else if (IS("--stop"))
      options.stopAt = numberAfter(argc, argv, &a);
    else if (IS("--finish-at"))
      options.finishAt = numberAfter(argc, argv, &a);
    else if (IS("--swap")) {
      options.swapAt = numberAfter(argc, argv, &a);
      options.variant = wordAfter(argc, argv, &a);
    } else if (IS("--sleep")) {
      options.sleepAt = numberAfter(argc, argv, &a);
      options.sleepFor = realAfter(argc, argv, &a);
    } else if (IS("--deadline"))
      options.deadline = realAfter(argc, argv, &a);
    else if (IS("--idle"))
      options.idle = realAfter(argc, argv, &a);
    else if (IS("--clip"))
      options.clip = realAfter(argc, argv, &a);
    else if (IS("--checkpoint"))
      options.checkpoint = wordAfter(argc, argv, &a);
    else if (IS("--control"))
      options.control = wordAfter(argc, argv, &a);
    else if (IS("--trace"))
      options.trace = wordAfter(argc, argv, &a);
    else if (IS("--device"))
      options.device = wordAfter(argc, argv, &a);
    else if (IS("--transport"))
      options.transport = wordAfter(argc, argv, &a);
    else if (IS("--resume"))
      options.resume = 1;
    else if (IS("--overwrite"))
      options.overwrite = 1;
    else if (IS("--drain"))
      options.drain = 1;
    else if (IS("--report"))
      options.report = 1;
    else
      options.plan = word;
  }
  const char *local = getenv("LOCAL_RANK");
  const char *wrong = onGpu() ? gpuOpen(local ? atoi(local) : 0, kJobs, bytes()) : NULL;
  if (wrong) {
    fprintf(stderr, "host: %s\n", wrong);
    return 4;
  }
  int code = 0;
  for (long n = 0; code == 0 && n < (options.opens > 0 ? options.opens : 1); ++n) {
    if (options.opens > 0 && n == options.opens / 10)
      count("before");
    code = once();
  }
  if (options.opens > 0)
    count("after");
  if (code == 0) {
    printf("{\"weights\": {");
    const char *comma = "";
    for (int s = 0; s < options.stages; ++s)
      if (stages[s].weights) {
        printf("%s\"%d\": [", comma, s);
        for (long k = 0; k < options.width; ++k)
          printf("%s%.17g", k == 0 ? "" : ", ", stages[s].weights[k]);
        printf("]");
        comma = ", ";
      }
    printf("}}\n");
  }
  return code;
}
