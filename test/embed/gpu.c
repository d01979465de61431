/* The driver's functions are looked up by name, as the runtime does. */
#include "test/embed/gpu.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { kWhat = 256 };

typedef unsigned long long Address;
static struct {
  int (*cuInit)(unsigned);
  int (*cuDeviceGetCount)(int *);
  int (*cuDeviceGet)(int *, int);
  int (*cuDevicePrimaryCtxRetain)(void **, int);
  int (*cuCtxSetCurrent)(void *);
  int (*cuMemAlloc_v2)(Address *, size_t);
  int (*cuMemsetD8_v2)(Address, unsigned char, size_t);
  int (*cuMemHostAlloc)(void **, size_t, unsigned);
  int (*cuMemcpyDtoH_v2)(void *, Address, size_t);
  int (*cuMemcpyAsync)(Address, Address, size_t, void *);
  int (*cuLaunchHostFunc)(void *, void (*)(void *), void *);
} cuda;

static struct Job {
  GpuFunction function;
  void *in, *out; /* NULL where there is nothing to copy */
  char what[kWhat];
} *jobs;
static char *staging;
static size_t most, each, used;
static void *context;

static Address addressOf(const void *memory) { return (Address)(uintptr_t)memory; }

static const char *wrong(const char *call, int error) {
  static char text[100];
  snprintf(text, sizeof text, "%s returned %d", call, error);
  return text;
}
#define TRY(call, ...)                                                                                                 \
  do {                                                                                                                 \
    const int error = cuda.call(__VA_ARGS__);                                                                          \
    if (error != 0)                                                                                                    \
      return wrong(#call, error);                                                                                      \
  } while (0)

const char *gpuOpen(int device, size_t count, size_t bytes) {
  const char *names[] = {"cuInit",          "cuDeviceGetCount", "cuDeviceGet",     "cuDevicePrimaryCtxRetain",
                         "cuCtxSetCurrent", "cuMemAlloc_v2",    "cuMemsetD8_v2",   "cuMemHostAlloc",
                         "cuMemcpyDtoH_v2", "cuMemcpyAsync",    "cuLaunchHostFunc"};
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  for (size_t n = 0; n < sizeof names / sizeof names[0]; ++n) {
    void *found = library ? dlsym(library, names[n]) : NULL;
    if (!found)
      return library ? names[n] : "no libcuda.so.1";
    memcpy((char *)&cuda + n * sizeof found, &found, sizeof found);
  }
  int devices = 0;
  TRY(cuInit, 0);
  TRY(cuDeviceGetCount, &devices);
  if (devices == 0)
    return "no GPU";
  TRY(cuDeviceGet, &device, device % devices);
  TRY(cuDevicePrimaryCtxRetain, &context, device);
  most = count;
  each = bytes;
  jobs = gpuPinned(count * sizeof *jobs);
  staging = gpuPinned(2 * count * bytes);
  return jobs && staging ? NULL : "no memory";
}

/* In the context, which the thread then has no more. */
static void *leave(void *memory, int error) {
  error |= cuda.cuCtxSetCurrent(NULL);
  return error == 0 ? memory : NULL;
}

void *gpuPinned(size_t bytes) {
  void *memory = NULL;
  int error = cuda.cuCtxSetCurrent(context);
  error = error == 0 ? cuda.cuMemHostAlloc(&memory, bytes, 0) : error;
  if (error == 0)
    memset(memory, 0, bytes);
  return leave(memory, error);
}

void *gpuMemory(size_t bytes) {
  Address memory = 0;
  int error = cuda.cuCtxSetCurrent(context);
  error = error == 0 ? cuda.cuMemAlloc_v2(&memory, bytes) : error;
  error = error == 0 ? cuda.cuMemsetD8_v2(memory, 0, bytes) : error;
  return leave((void *)(uintptr_t)memory, error);
}

static void run(void *data) {
  const struct Job *job = data;
  job->function(job->what, job->in, job->out);
}

const char *gpuPut(void *stream, const void *in, size_t inBytes, void *out, size_t outBytes, GpuFunction function,
                   const void *what, size_t whatBytes) {
  if (inBytes > each || outBytes > each || whatBytes > kWhat)
    return "more at a time than there is memory for";
  struct Job *job = &jobs[used];
  char *place = staging + 2 * each * used;
  used = (used + 1) % most;
  job->function = function;
  job->in = in ? place : NULL;
  job->out = out ? place + each : NULL;
  memcpy(job->what, what, whatBytes);
  if (in)
    TRY(cuMemcpyAsync, addressOf(job->in), addressOf(in), inBytes, stream);
  TRY(cuLaunchHostFunc, stream, run, job);
  if (out)
    TRY(cuMemcpyAsync, addressOf(out), addressOf(job->out), outBytes, stream);
  return NULL;
}

const char *gpuCopy(void *stream, void *to, const void *from, size_t bytes) {
  if (stream)
    TRY(cuMemcpyAsync, addressOf(to), addressOf(from), bytes, stream);
  else
    TRY(cuMemcpyDtoH_v2, to, addressOf(from), bytes);
  return NULL;
}
