/* Measures tensor.c here, for the spec's `layers:`. Linked with it:
 *     profile PROVIDER LAYERS
 * One object at a time, as one of two shards whose sums cost nothing. What a layer's splits take comes from portions of
 * none and half of their units; what the first and last layer take beside the others from a stage of each end. Prints
 * medians of processor time, so that what else the machine does counts little. */
#define _GNU_SOURCE
#include "pipec_stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kForward, kInput, kWeight, kOptimizer, kKinds };
enum { kLayers = 2, kSteps = 40, kWarmUp = 2, kHeads = 8 };

typedef struct Times {
  double us[kKinds];
} Times;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static int sum(PipecGroup *group, void *values, int64_t count, int32_t type, PipecError *error) {
  (void)group, (void)values, (void)count, (void)type, (void)error;
  return 0;
}

static int64_t valueOf(const char *provider, const char *key, int64_t otherwise) {
  char quoted[32];
  snprintf(quoted, sizeof quoted, "\"%s\":", key);
  const char *at = strstr(provider, quoted);
  return at ? atoll(at + strlen(quoted)) : otherwise;
}

/* The first shard has so many heads and columns, the second one the rest. */
static int divide(PipecStage *object, int32_t stage, int64_t heads, int64_t columns, int64_t all, PipecError *error) {
  PipecPortion portions[4];
  PipecUnits units[4];
  memset(portions, 0, sizeof portions);
  for (int i = 0; i < 4; ++i) {
    int64_t split = i < 2 ? kHeads : all, first = i < 2 ? heads : columns;
    units[i].first = i % 2 == 0 ? 0 : first;
    units[i].count = i % 2 == 0 ? first : split - first;
    portions[i].size = sizeof *portions;
    portions[i].stage = stage;
    portions[i].shard = i % 2;
    portions[i].split = i < 2 ? "heads" : "columns";
    portions[i].units = split;
    portions[i].owned = portions[i].worked = &units[i];
    portions[i].owned_count = portions[i].worked_count = units[i].count > 0;
    portions[i].kept = units[i].count;
    portions[i].balance = "{\"name\": \"auto\"}";
    portions[i].layers = kLayers;
  }
  return pipec_stage_portions(object, portions, 4, error);
}

static int runSteps(PipecStage *object, int32_t stage, char *in, char *out, Times *medians, PipecError *error) {
  double times[kKinds][kSteps];
  for (int64_t step = 0; step < kWarmUp + kSteps; ++step) {
    PipecCall call = {.size = sizeof call, .stage = stage, .step = step}, forward = call, backward = call;
    forward.input = stage > 0 ? in : NULL;
    forward.output = stage < 2 ? out : NULL;
    backward.input = stage < 2 ? in : NULL;
    backward.output = stage > 0 ? out : NULL;
    double t[kKinds + 1] = {now()};
    int failed = pipec_stage_forward(object, &forward, error);
    t[1] = now();
    failed = failed || pipec_stage_backward_input(object, &backward, error);
    t[2] = now();
    failed = failed || pipec_stage_backward_weight(object, &call, error);
    t[3] = now();
    if (failed || pipec_stage_optimizer_step(object, &call, error))
      return 1;
    t[4] = now();
    for (int k = 0; k < kKinds && step >= kWarmUp; ++k)
      times[k][step - kWarmUp] = t[k + 1] - t[k];
  }
  for (int k = 0; k < kKinds; ++k) {
    qsort(times[k], kSteps, sizeof(double), ascending);
    medians->us[k] = times[k][kSteps / 2];
  }
  return 0;
}

/* Of one of three stages, whose layers have so many units here. */
static Times measure(const char *provider, int32_t stage, int64_t heads, int64_t columns) {
  int64_t patch = valueOf(provider, "patch", 5), width = valueOf(provider, "width", 64);
  int64_t boundary = width * valueOf(provider, "samples", 32) * (20 / patch) * (20 / patch) * (int64_t)sizeof(float);
  PipecStageFacts facts = {.size = sizeof facts, .stage = stage, .first_layer = kLayers * stage, .layers = kLayers};
  PipecGroup group = {.size = sizeof group, .shards = 2, .sum = sum};
  PipecSetup setup = {.size = sizeof setup, .rank = stage, .ranks = 3, .world = 6, .stages = 3, .layers = 3 * kLayers};
  facts.input_bytes = stage > 0 ? boundary : 0;
  facts.output_bytes = stage < 2 ? boundary : 0;
  facts.input_gradient_bytes = facts.input_bytes;
  facts.output_gradient_bytes = facts.output_bytes;
  setup.own_count = 1;
  setup.own = &facts;
  setup.microbatches = 1;
  setup.provider = provider;
  setup.device = -1;
  setup.replicas = 1;
  setup.shards = 2;
  setup.group = &group;
  Times medians;
  PipecError error = {""};
  PipecStage *object = NULL;
  char *in = malloc((size_t)boundary), *out = malloc((size_t)boundary);
  for (int64_t i = 0; i < boundary / (int64_t)sizeof(float); ++i) /* numbers as activations and gradients may be */
    ((float *)(void *)in)[i] = (float)(i * 7919 % 1000 - 500) * 1e-4f;
  if (pipec_stage_create(&setup, &object, &error) ||
      divide(object, stage, heads, columns, valueOf(provider, "columns", 448), &error) ||
      runSteps(object, stage, in, out, &medians, &error)) {
    fprintf(stderr, "profile: %s\n", error.message);
    exit(1);
  }
  pipec_stage_destroy(object);
  free(in);
  free(out);
  return medians;
}

static const char *const kNames[kKinds] = {"forward", "backward_input", "backward_weight", "optimizer"};

static void printTimes(const char *indent, const Times *times) {
  for (int k = 0; k < kKinds; ++k)
    printf("%s%s: %.1fus\n", indent, kNames[k], times->us[k] > 0 ? times->us[k] : 0);
}

/* Splits are written once: `splits` NULL names those of the first layer. */
static void printLayer(const char *name, int count, const Times *own, const Times *splits) {
  printf("- name: %s\n", name);
  if (count > 1)
    printf("  count: %d\n", count);
  printTimes("  ", own);
  printf("  splits: %s\n", splits ? "&splits" : "*splits");
  for (int i = 0; splits && i < 2; ++i) {
    printf("  - name: %s\n", i == 0 ? "heads" : "columns");
    printTimes("    ", &splits[i]);
  }
}

int main(int argc, char **argv) {
  int layers = argc > 2 ? atoi(argv[2]) : 0;
  if (layers < 2) {
    fprintf(stderr, "usage: profile PROVIDER LAYERS, of which there are two at least\n");
    return 2;
  }
  int64_t columns = valueOf(argv[1], "columns", 448);
  Times own = measure(argv[1], 1, 0, 0);
  Times splits[2] = {measure(argv[1], 1, kHeads / 2, 0), measure(argv[1], 1, 0, columns / 2)};
  Times first = measure(argv[1], 0, 0, 0), last = measure(argv[1], 2, 0, 0);
  for (int k = 0; k < kKinds; ++k) {
    first.us[k] -= own.us[k] * (kLayers - 1) / kLayers;
    last.us[k] -= own.us[k] * (kLayers - 1) / kLayers;
    for (int i = 0; i < 2; ++i)
      splits[i].us[k] = 2 * (splits[i].us[k] - own.us[k]) / kLayers;
    own.us[k] /= kLayers;
  }
  printf("layers:\n");
  printLayer("first", 1, &first, splits);
  if (layers > 2)
    printLayer("middle", layers - 2, &own, NULL);
  printLayer("last", 1, &last, NULL);
  return 0;
}
