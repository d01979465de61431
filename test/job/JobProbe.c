/* A job library that goes wrong in the way it is built for (CMakeLists.txt), or as its provider says. */
#include "runtime/job/pipec_job.h"
#if defined(PROBE_BESIDE)
#include "runtime/stage/pipec_stage.h"

uint32_t pipec_stage_version(void) { return PIPEC_STAGE_VERSION; }
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(PROBE_CRASHES)
__attribute__((constructor)) static void atLoad(void) { abort(); }
#endif

#if defined(PROBE_UNDEFINED)
extern int nobodyDefinesThis(void);
#endif

struct PipecJob {
  int64_t atoms;
};

#if !defined(PROBE_NO_VERSION)
uint32_t pipec_job_version(void) {
#if defined(PROBE_VERSION)
  return PIPEC_JOB_VERSION + 1;
#else
  return PIPEC_JOB_VERSION;
#endif
}
#endif

/* The provider says what to do: {"at": "told" | "nothing" | "create" | "run" | "silent" | "save" | "load"}. */
static char what[4096];

static int at(const char *place, PipecJobError *error) {
  if (!strstr(what, place))
    return 0;
  snprintf(error->message, sizeof error->message, "wrong\tat %s\n", place);
  return 1;
}

int pipec_job_create(const PipecJobSetup *setup, PipecJob **job, PipecJobError *error) {
  snprintf(what, sizeof what, "%s", setup->provider);
  if (strstr(what, "\"told\"")) {
    snprintf(error->message, sizeof error->message,
             "size %d, %s on rank %d, process %d of %d, %d samples in %d atoms, %d bytes, device %d, %d",
             setup->size == sizeof *setup, setup->name, (int)setup->rank, (int)setup->world_rank, (int)setup->world,
             (int)setup->samples, (int)setup->atoms, (int)setup->memory, (int)setup->device, setup->context == NULL);
    return 1;
  }
  *job = NULL;
  if (strstr(what, "\"nothing\""))
    return 0;
  if (at("\"create\"", error))
    return 1;
  *job = calloc(1, sizeof **job);
  return *job == NULL;
}

void pipec_job_destroy(PipecJob *job) { free(job); }

#if !defined(PROBE_NO_RUN)
int pipec_job_run(PipecJob *job, const PipecPiece *piece, PipecJobError *error) {
#if defined(PROBE_UNDEFINED)
  return nobodyDefinesThis();
#endif
  if (strstr(what, "\"silent\""))
    return 7;
  if (piece->size != sizeof *piece || piece->first != job->atoms || piece->stream) {
    snprintf(error->message, sizeof error->message, "is told something else");
    return 1;
  }
  job->atoms += piece->count;
  return at("\"run\"", error);
}
#endif

#if defined(PROBE_SAVES) || defined(PROBE_SAVES_ALONE)
int pipec_job_save(PipecJob *job, const char *path, int64_t atoms, PipecJobError *error) {
  (void)job, (void)path, (void)atoms;
  return at("\"save\"", error);
}
#endif
#if defined(PROBE_SAVES) || defined(PROBE_LOADS_ALONE)
int pipec_job_load(PipecJob *job, const char *path, int64_t atoms, PipecJobError *error) {
  (void)path;
  job->atoms = atoms;
  return at("\"load\"", error);
}
#endif

void pipec_job_memory(const PipecJob *job, PipecJobMemory *memory) {
  memory->held = job->atoms;
  memory->peak = PIPEC_JOB_HAS(memory, peak) ? 100 : -1;
}
