/* pipec's background jobs as a shared library of your own: what a process runs while its rank waits for others.
 *
 * C99, self-contained: copy it or include it. Define the functions at the end, build a shared library, done:
 *     cc -O2 -fPIC -shared -I<pipec> mine.c -o mine.so
 * specs/jobs/mlp is a complete example.
 *
 * Object.    One object in each process that runs the job; what the objects of several processes do has nothing to do
 *            with each other.
 * Atoms.     A job works in iterations of a fixed number of atoms (`jobs: work: atoms`). An atom is a short and bounded
 *            piece of computing: at most as long as the plan says (`atom`), for nothing ends it early. An iteration
 *            advances by `samples` samples; which atom does what is yours.
 * Order.     pipec_job_run is called for piece after piece: the atoms of a piece follow those of the one before, none
 *            is left out, none runs twice. How many atoms a piece has changes as the waits of the rank do, so what is
 *            computed must not depend on it. A piece may end one iteration and begin the next. Between two pieces
 *            any time may pass. After an error nothing but pipec_job_destroy is called.
 * Threads.   Calls on an object never overlap, but need not come from one thread. On the host the call computes: start
 *            no threads and leave nothing behind that goes on when it has returned, as it would take its time from the
 *            training.
 * Time.      A call returns when its atoms are done: its time is the piece's, and the training waits for its end.
 *            A job whose atoms take longer than the plan says rests from then on.
 * GPUs.      With `piperun --device=cuda` a call enqueues its work on piece->stream, which has the lowest priority, and
 *            returns, without waiting for any of it, and without allocating after the first iteration. All calls come
 *            from one thread; setup->context is current on it. What goes wrong later the next call says. A library
 *            that computes on the host alone refuses setup->device >= 0.
 * Errors.    0 is success. Anything else ends the job in this process, never the training beside it, and
 *            error->message is shown, which should say what went wrong in one line. Do not exit, and let no C++
 *            exception out: what ends the process ends the training.
 * Sizes.     Structs that are passed begin with their size in bytes, which pipec fills in. A later header may end them
 *            with more fields: read and write only what the size covers (PIPEC_JOB_HAS).
 * Versions.  PIPEC_JOB_VERSION changes when a library written for another one would no longer do. More fields and more
 *            functions that may be left out do not change it. A library of any other version is refused.
 */
#ifndef PIPEC_JOB_H
#define PIPEC_JOB_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PIPEC_JOB_VERSION 1

/* Whether the struct at `pointer` is large enough to have `field`. */
#define PIPEC_JOB_HAS(pointer, field)                                                                                  \
  ((const char *)(&(pointer)->field + 1) <= (const char *)(pointer) + (pointer)->size)

/* Yours: define struct PipecJob as you need it. */
typedef struct PipecJob PipecJob;

/* One line, ended by 0. It has no size: it stays as it is. */
typedef struct PipecJobError {
  char message[512];
} PipecJobError;

typedef struct PipecJobSetup {
  uint32_t size;
  int32_t rank;         /* place in the pipeline, from 0 */
  int32_t world_rank;   /* of the process, from 0 */
  int32_t world;        /* all processes of the training, whether they run the job or not */
  const char *name;     /* of the job, in the spec */
  int64_t samples;      /* of an iteration */
  int64_t atoms;        /* of an iteration, at least 1 */
  int64_t memory;       /* bytes that the plan counts for the job in each process; 0: none */
  const char *provider; /* the job's `provider:` as JSON text; "null" without one */
  int32_t device;       /* of CUDA; -1: the host */
  void *context;        /* CUDA's of the device; NULL on the host */
} PipecJobSetup;

/* Some atoms, one after the other. Atoms are counted from the job's beginning, those before a load included: atom a is
 * number a % atoms of iteration a / atoms. */
typedef struct PipecPiece {
  uint32_t size;
  int64_t first; /* number of atoms that have run before */
  int64_t count; /* at least 1 */
  void *stream;  /* of CUDA; NULL on the host */
} PipecPiece;

typedef struct PipecJobMemory {
  uint32_t size; /* filled in by the caller */
  int64_t held;  /* bytes, now */
  int64_t peak;  /* the most that held has been */
} PipecJobMemory;

#if defined(__GNUC__)
#define PIPEC_JOB_EXPORT __attribute__((visibility("default")))
#else
#define PIPEC_JOB_EXPORT
#endif

/* return PIPEC_JOB_VERSION; */
PIPEC_JOB_EXPORT uint32_t pipec_job_version(void);

/* Makes the object, before the training begins; `setup` and what it points to last during the call only. Take the
 * memory that you need here: what the job holds must not be more than setup->memory, which the plan has found to be
 * free beside the training. */
PIPEC_JOB_EXPORT int pipec_job_create(const PipecJobSetup *setup, PipecJob **job, PipecJobError *error);

/* After an error too; where the training fails the process just ends. */
PIPEC_JOB_EXPORT void pipec_job_destroy(PipecJob *job);

PIPEC_JOB_EXPORT int pipec_job_run(PipecJob *job, const PipecPiece *piece, PipecJobError *error);

/* Both or neither may be left out; without them a run that is resumed begins the job anew. Between pieces, so perhaps
 * within an iteration: writes to a new file at `path` whatever the job needs to go on after `atoms` atoms in all; the
 * runtime makes the file durable and renames it. load is the opposite, before the first piece: refuse a file that is
 * not of `atoms` atoms or not of this job. */
PIPEC_JOB_EXPORT int pipec_job_save(PipecJob *job, const char *path, int64_t atoms, PipecJobError *error);
PIPEC_JOB_EXPORT int pipec_job_load(PipecJob *job, const char *path, int64_t atoms, PipecJobError *error);

/* Between pieces: what the object holds. */
PIPEC_JOB_EXPORT void pipec_job_memory(const PipecJob *job, PipecJobMemory *memory);

#ifdef __cplusplus
}
#endif

#endif
