/* Measures a stage library, for the spec's `costs:`. Linked with the library's sources:
 *     profile PROVIDER STAGES BOUNDARY_BYTES [MICROBATCHES]
 * One process a stage, all at once, as they will run: they share the machine's memory and clock. Prints the median of
 * each kind of call, as processor time, so that what else the machine does counts little; a library with threads of its
 * own would have to be measured by the clock. */
#define _GNU_SOURCE
#include "pipec_stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kForward, kInput, kWeight, kOptimizer, kKinds };
enum { kSteps = 30, kWarmUp = 2 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, ascending);
  return values[count / 2];
}

/* Medians of one stage, in microseconds; 1 on an error, which it prints. */
static int measure(const char *provider, int stages, int stage, int64_t boundary, int microbatches, double *medians) {
  PipecStageFacts facts = {.size = sizeof facts, .stage = stage};
  facts.input_bytes = stage > 0 ? boundary : 0;
  facts.output_bytes = stage + 1 < stages ? boundary : 0;
  facts.input_gradient_bytes = facts.input_bytes;
  facts.output_gradient_bytes = facts.output_bytes;
  PipecSetup setup = {.size = sizeof setup, .rank = stage, .ranks = stages, .world_rank = stage, .world = stages};
  setup.stages = stages;
  setup.own_count = 1;
  setup.own = &facts;
  setup.microbatches = microbatches;
  setup.provider = provider;
  setup.device = -1;
  PipecError error = {""};
  PipecStage *object = NULL;
  void *in = calloc(1, (size_t)boundary), *out = calloc(1, (size_t)boundary);
  double *times[kKinds];
  int counts[kKinds] = {0};
  for (int k = 0; k < kKinds; ++k)
    times[k] = malloc(sizeof(double) * (size_t)(kSteps * microbatches));
  int failed = pipec_stage_create(&setup, &object, &error);
  for (int64_t step = 0; !failed && step < kWarmUp + kSteps; ++step) {
    PipecCall rest = {.size = sizeof rest, .stage = stage, .step = step}, forward = rest, backward = rest;
    forward.input = stage > 0 ? in : NULL;
    forward.input_bytes = backward.output_bytes = facts.input_bytes;
    forward.output = facts.output_bytes ? out : NULL;
    forward.output_bytes = backward.input_bytes = facts.output_bytes;
    backward.input = facts.output_bytes ? in : NULL;
    backward.output = stage > 0 ? out : NULL;
    for (int m = 0; !failed && m <= microbatches; ++m) {
      double t[4] = {now()};
      forward.microbatch = backward.microbatch = rest.microbatch = m;
      if (m == microbatches) {
        rest.microbatch = 0;
        failed = pipec_stage_optimizer_step(object, &rest, &error);
        if (step >= kWarmUp)
          times[kOptimizer][counts[kOptimizer]++] = now() - t[0];
        break;
      }
      failed = pipec_stage_forward(object, &forward, &error);
      t[1] = now();
      failed = failed || pipec_stage_backward_input(object, &backward, &error);
      t[2] = now();
      failed = failed || pipec_stage_backward_weight(object, &rest, &error);
      t[3] = now();
      for (int k = kForward; step >= kWarmUp && k <= kWeight; ++k)
        times[k][counts[k]++] = t[k + 1] - t[k];
    }
  }
  if (failed) {
    fprintf(stderr, "stage %d: %s\n", stage, error.message);
    return 1;
  }
  for (int k = 0; k < kKinds; ++k)
    medians[k] = median(times[k], counts[k]);
  return 0;
}

int main(int argc, char **argv) {
  int stages = argc > 2 ? atoi(argv[2]) : 0, microbatches = argc > 4 ? atoi(argv[4]) : 8;
  int64_t boundary = argc > 3 ? atoll(argv[3]) : 0;
  if (stages < 1 || stages > 64 || boundary < 1 || microbatches < 1) {
    fprintf(stderr, "usage: profile PROVIDER STAGES BOUNDARY_BYTES [MICROBATCHES]\n");
    return 2;
  }
  double medians[64][kKinds];
  int ends[64][2], failed = 0;
  for (int s = 0; s < stages; ++s) {
    if (pipe(ends[s]) != 0 || fflush(stdout) != 0)
      return 1;
    if (fork() == 0) {
      int bad = measure(argv[1], stages, s, boundary, microbatches, medians[s]) ||
                write(ends[s][1], medians[s], sizeof medians[s]) != sizeof medians[s];
      _exit(bad);
    }
    close(ends[s][1]);
  }
  for (int s = 0; s < stages; ++s)
    failed |= read(ends[s][0], medians[s], sizeof medians[s]) != sizeof medians[s];
  while (wait(NULL) > 0)
    ;
  if (failed)
    return 1;
  const char *names[kKinds] = {"forward", "backward_input", "backward_weight", "optimizer"};
  printf("costs:\n");
  for (int k = 0; k < kKinds; ++k) {
    printf("  %s: [", names[k]);
    for (int s = 0; s < stages; ++s)
      printf("%s%.1fus", s > 0 ? ", " : "", medians[s][k]);
    printf("]\n");
  }
  return 0;
}
