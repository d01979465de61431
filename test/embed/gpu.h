/* What a host puts on a GPU: functions of the host's, between copies from and to memory of the device. By CUDA's driver
 * alone, of the library that the runtime loads (test/standin where there is no GPU). Texts are errors; NULL: none. */
#ifndef PIPEC_TEST_EMBED_GPU_H
#define PIPEC_TEST_EMBED_GPU_H

#include <stddef.h>

/* Memory for so much work at a time, of at most so many bytes each way. The calling thread has no context afterwards:
 * the runtime is to see to it. */
const char *gpuOpen(int device, size_t jobs, size_t bytes);

/* Memory of the host that the device reaches, and the device's own; zeroed. Before gpuOpen returns NULL. */
void *gpuPinned(size_t bytes);
void *gpuMemory(size_t bytes);

/* Puts on a stream: a copy of `in`, which the function reads, the function, and a copy to `out` of what it has written.
 * A NULL is left out. So much work is
 * never under way at a time that its memory were taken again. */
typedef void (*GpuFunction)(const void *what, const void *in, void *out);
const char *gpuPut(void *stream, const void *in, size_t inBytes, void *out, size_t outBytes, GpuFunction function,
                   const void *what, size_t whatBytes);

/* On a stream; at rest with NULL, when it waits. */
const char *gpuCopy(void *stream, void *to, const void *from, size_t bytes);

#endif
