/* The same stage on a GPU's streams, without a kernel: what a call reads is copied to pinned memory, a host function on
 * the stream computes, and what it fills is copied back. That is no way to train fast, but a complete example of the
 * rules (pipec_stage.h, GPUs): nothing waits, nothing is allocated after the beginning, buffers last until their work
 * has run. Host functions of different streams may run at once, so one lock is around what they do.
 *
 * CUDA's driver is in the process already; its functions are found by name, so that no header of CUDA's is needed. */
#ifndef MLP_STREAM_H
#define MLP_STREAM_H

#include "pipec_stage.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Work(PipecStage *stage, const PipecCall *call, PipecError *error);

struct Stream;
typedef struct Job {
  struct Stream *of;
  Work *work;
  PipecCall call; /* its buffers are the next two, where it has any */
  char *input, *output;
} Job;

typedef struct Stream {
  PipecStage *stage;
  int (*copy)(unsigned long long to, unsigned long long from, size_t bytes, void *stream); /* cuMemcpyAsync */
  int (*launch)(void *stream, void (*function)(void *), void *data);                       /* cuLaunchHostFunc */
  int (*freeHost)(void *memory);                                                           /* cuMemFreeHost */
  char *pinned;
  Job *jobs; /* a ring: of as many steps as can be under way at once */
  int64_t count, next;
  pthread_mutex_t lock;
  int failed;
  PipecError error; /* the first of a host function */
} Stream;

static void closeStream(Stream *s) {
  if (!s)
    return;
  if (s->pinned)
    s->freeHost(s->pinned);
  free(s->jobs);
  free(s);
}

/* For so many calls at once, of buffers of at most `bytes`. */
static Stream *openStream(PipecStage *stage, int64_t calls, int64_t bytes, PipecError *error) {
  Stream *s = calloc(1, sizeof *s);
  void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  int (*allocate)(void **memory, size_t size, unsigned flags) = NULL;
  if (s && library) {
    *(void **)&s->copy = dlsym(library, "cuMemcpyAsync");
    *(void **)&s->launch = dlsym(library, "cuLaunchHostFunc");
    *(void **)&s->freeHost = dlsym(library, "cuMemFreeHost");
    *(void **)&allocate = dlsym(library, "cuMemHostAlloc");
    s->jobs = calloc((size_t)calls, sizeof *s->jobs);
  }
  if (!s || !s->jobs || !s->copy || !s->launch || !s->freeHost || !allocate ||
      allocate((void **)&s->pinned, (size_t)(2 * calls * bytes), 0) != 0) {
    snprintf(error->message, sizeof error->message, "no pinned memory for %lld calls of %lld bytes", (long long)calls,
             (long long)bytes);
    closeStream(s);
    return NULL;
  }
  s->stage = stage;
  s->count = calls;
  pthread_mutex_init(&s->lock, NULL);
  for (int64_t j = 0; j < calls; ++j) {
    s->jobs[j].of = s;
    s->jobs[j].input = s->pinned + 2 * j * bytes;
    s->jobs[j].output = s->jobs[j].input + bytes;
  }
  return s;
}

static void runJob(void *data) {
  Job *job = data;
  Stream *s = job->of;
  pthread_mutex_lock(&s->lock);
  if (!s->failed)
    s->failed = job->work(s->stage, &job->call, &s->error);
  pthread_mutex_unlock(&s->lock);
}

/* Puts a call's work on its stream. */
static int enqueue(Stream *s, Work *work, const PipecCall *call, PipecError *error) {
  Job *job = &s->jobs[s->next++ % s->count];
  pthread_mutex_lock(&s->lock);
  int failed = s->failed;
  if (failed)
    *error = s->error;
  pthread_mutex_unlock(&s->lock);
  if (failed)
    return 1;
  job->work = work;
  job->call = *call;
  job->call.input = call->input ? job->input : NULL;
  job->call.output = call->output ? job->output : NULL;
  if ((call->input &&
       s->copy((uintptr_t)job->input, (uintptr_t)call->input, (size_t)call->input_bytes, call->stream)) ||
      s->launch(call->stream, runJob, job) ||
      (call->output &&
       s->copy((uintptr_t)call->output, (uintptr_t)job->output, (size_t)call->output_bytes, call->stream))) {
    snprintf(error->message, sizeof error->message, "CUDA took no more work");
    return 1;
  }
  return 0;
}

#endif
