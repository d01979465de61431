/* pipec's runtime inside a program of your own (a host): it runs one rank of a plan in this process.
 *
 * C99, self-contained. Link with libpipec.so, or open it.
 *
 * Threads. The host's thread asks for its rank's next instruction (pipec_run_next), does it and says so
 * (pipec_run_done): it takes the place of the device's thread. One thread at a time calls the functions of a run. The
 * library never calls the host, handles no signal and forks nothing. What it starts are threads, which pipec_run_close
 * ends. No call but pipec_run_swap, and pipec_run_close of a run that failed, waits for longer than 0.1 s, so that a
 * host can look after signals.
 *
 * Processes. One for each rank (rank x replica) of the plan, started by torchrun, Slurm or Open MPI, whose variables
 * say which one this is; a plan for one process needs none. All open the same runs in the same order: a process's n-th
 * run meets the others' n-th. A run is of the process that opened it. In a child that was forked since, pipec_run_close
 * does nothing, every other call with the run is an error of usage, and the child's end changes nothing of the run.
 *
 * Steps. next gives PIPEC_RUN_END_OF_STEP when all of a step is done that this rank does, and at first when all have
 * met and a state was loaded. Where the plan has updates go on beside the next step (data_parallel) it waits for
 * passes alone; pipec_run_drain is for the rest. The next question begins a step; a state that is due is saved
 * before. After pipec_run_finish, which all ranks must call behind the same step, it gives a last PIPEC_RUN_SAVE
 * where the run has a checkpoint, and PIPEC_RUN_END once all have finished.
 *
 * Checkpoints. A state is a file of the rank, and the library writes a manifest once all ranks have saved. With
 * `folders` a state is a folder that all ranks have in common, CHECKPOINT/step-STEP, and the host writes the manifest.
 * The ranks write to CHECKPOINT/step-STEP.partial; one rank renames that folder when all ranks have written. A run
 * resumes from the folder of the highest step, in any cut and with any number of ranks that the host can read.
 *
 * Order. Instructions come one at a time, each once all that it needs has been computed and its slots are free; of
 * several that could run the one of the highest priority. An overlapped pair comes as its forward and then its
 * backward. On a GPU they come in the order in which the plan issues them, up to a step ahead of their work.
 *
 * Shapes. A microbatch's activation crosses from stage s to s + 1, and its gradient back, with the bytes that the plan
 * says (`tensors: boundary`, `boundary_gradient`). Slots are the runtime's, valid until pipec_run_done (on a GPU until
 * the instruction's work has run), aligned to 64 bytes: read input, fill output. Where the neighbour stage is on this
 * rank, or there is none, they are NULL with 0 bytes.
 *
 * GPUs. With the device "cuda" slots are device memory, and the host puts an instruction's work on its stream: what it
 * waits for is on the stream already, and what waits for it is put there after pipec_run_done, which may come before
 * any of it has run. What is put on the stream after that is not the instruction's. NORM writes a double to its output,
 * CLIP finds the sum of all in its input. The GPU is the one of LOCAL_RANK, modulo those that are visible, in its
 * primary context, which is current on the host's thread when next returns an instruction. At END_OF_STEP what
 * it waits for has run, at SAVE and END all that came before. Runs on GPUs do not adapt yet, and their replicas need
 * the transport "nccl".
 *
 * Time. An instruction's time is from next to done, on a GPU that of its work. `deadline` is how long an instruction of
 * a rank may last while others wait for the instruction. `idle` is how long an instruction of the first step may last,
 * a SAVE, a LOAD, and the time between two steps. Before the run ends because something lasts too long, the ranks ask
 * each other what they do, and the error names the rank that takes too long.
 *
 * Errors. 0 is success. Anything else is an exit code of piperun's (1: bad input, 2: usage, 3: a plan that cannot run
 * so, 4: the run), with error->message. Once a run has failed every call says so; close it.
 *
 * Sizes. Structs begin with their size in bytes, which the caller fills in. A later header may end them with more
 * fields; 0 and NULL are what they were before.
 */
#ifndef PIPEC_RUN_H
#define PIPEC_RUN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PIPEC_RUN_VERSION 1

typedef struct PipecRun PipecRun;

/* One line per known cause, ended by 0. */
typedef struct PipecRunError {
  char message[4096];
} PipecRunError;

/* Where the host keeps a replicated layer, or a weight that several ranks share. The replicas or ranks sum its
 * gradients, and gather its weights, in place. With the device "cuda" it is memory of the GPU, where all that
 * instructions have put on their streams counts. */
typedef struct PipecRunLayer {
  uint32_t size;
  int32_t type;     /* 1: float, 2: double */
  int32_t stage;    /* of the plan; -1: a weight that several ranks share */
  int32_t layer;    /* of the stage, from 0; of a shared weight its number in `shared` of pipec_run_facts */
  void *gradients;  /* `elements` elements in a row; until pipec_run_close */
  void *weights;    /* as gradients */
  int64_t elements; /* number of elements in gradients, and in weights */
} PipecRunLayer;

/* All of it is copied, but for the memory of layers. */
typedef struct PipecRunSetup {
  uint32_t size;
  int32_t resume;         /* 1: goes on from the folder's checkpoint, if it has one */
  const char *plan;       /* the path of its file */
  const char *device;     /* "host" (NULL) or "cuda" */
  const char *transport;  /* of GPUs: "ipc" or "nccl"; NULL: as piperun chooses */
  double deadline;        /* seconds; 0: a minute, or twice the plan's step where that is longer */
  double idle;            /* seconds; 0: ten minutes */
  double rendezvous;      /* seconds until all must have met; 0: five minutes */
  const char *checkpoint; /* a folder; NULL: none */
  int64_t every;          /* steps from one checkpoint to the next; 0: only one at the end */
  const char *control;    /* rank 0 listens there for `piperun --control`; NULL: nowhere */
  const char *trace;      /* this rank's trace goes there, as trace.RANK.json for trace.json; NULL: nowhere */
  const char *adapt;      /* "on", "observe", "profile"; NULL: the run does not adapt */
  const char *secret; /* of the job; NULL: PIPEC_SECRET's value; "": none, any process that reaches the port may join */
  int32_t overwrite;  /* 1: a checkpoint that is there is removed */
  int32_t layer_count;
  const PipecRunLayer *layers; /* of all that this rank sums with others; one behind the other, by their size */
  const char *refused;         /* why this rank cannot run, for the other ranks; NULL: it can */
  int32_t folders;             /* 1: a checkpoint is a folder of all ranks, which the host makes */
  const char *host;            /* name or address of process 0's machine; NULL: what follows is as the launcher says */
  int32_t port;                /* the first port of process 0 to try */
  int32_t process;             /* this one's number among all of the run, from 0 */
  int32_t processes;           /* of the run */
  int32_t local;               /* this one's number among the run's on its machine */
  int32_t spread;              /* 1: they are on several machines */
  const char *job;             /* tells this run from others; the same text in all its processes */
} PipecRunSetup;

enum {
  PIPEC_RUN_NONE = 0, /* nothing can run yet: ask again. Nothing to say done to */
  PIPEC_RUN_F = 1,
  PIPEC_RUN_B = 2,            /* the gradient of the stage's input */
  PIPEC_RUN_W = 3,            /* of its weights */
  PIPEC_RUN_BW = 4,           /* both */
  PIPEC_RUN_R = 5,            /* the forward again, of a stage whose F kept only its input */
  PIPEC_RUN_OPTIMIZER = 6,    /* of a stage, or of some of its layers; then their gradients are zero */
  PIPEC_RUN_NORM = 7,         /* result->number: the sum of the squares of all gradients of this rank, of replicas those
                               * of its share; the other shares may be on their way, so it changes none */
  PIPEC_RUN_CLIP = 8,         /* number: the same of all ranks; what follows for the gradients comes with OPTIMIZER */
  PIPEC_RUN_SAVE = 9,         /* the rank's state after `step` steps, to a new file (or a folder) at `path` */
  PIPEC_RUN_LOAD = 10,        /* the opposite, before the first step */
  PIPEC_RUN_END_OF_STEP = 11, /* `step` steps are done */
  PIPEC_RUN_END = 12          /* nothing more comes; pipec_run_report says how it was */
};

typedef struct PipecRunInstruction {
  uint32_t size;
  int32_t kind;
  int32_t stage;        /* -1: of all stages of the rank, or of none */
  int32_t first_layer;  /* of the stage, from 0: it is about these layers alone */
  int32_t layers;       /* how many; 0: all */
  int32_t replica;      /* of the rank */
  int32_t recomputed;   /* F: 1 where an R follows, so that only the input is kept */
  int32_t sharded;      /* OPTIMIZER: 1 where it updates this replica's share of each layer */
  int64_t microbatch;   /* from 0, in its step */
  int64_t microbatches; /* of the step */
  int64_t step;         /* from 0 */
  int64_t epoch;        /* counts up where another schedule begins */
  const void *input;    /* F: the activation from stage - 1; B and BW: the gradient from stage + 1; CLIP on a GPU */
  int64_t input_bytes;
  void *output; /* F: the activation for stage + 1; B and BW: the gradient for stage - 1; NORM on a GPU: a double */
  int64_t output_bytes;
  void *stream; /* a CUstream for work and sums; NULL on the host */
  double number;
  const char *path;   /* valid until done */
  int64_t evaluation; /* F: its round, from 1, of an evaluation before `step`: nothing is kept of it; else 0 */
} PipecRunInstruction;

typedef struct PipecRunResult {
  uint32_t size;
  double number;     /* NORM's */
  const char *error; /* what went wrong, in one line: the run ends on all ranks; NULL: nothing */
} PipecRunResult;

#if defined(__GNUC__)
#define PIPEC_RUN_EXPORT __attribute__((visibility("default")))
#else
#define PIPEC_RUN_EXPORT
#endif

/* PIPEC_RUN_VERSION of the library. */
PIPEC_RUN_EXPORT uint32_t pipec_run_version(void);

/* What a host must know about a plan, as JSON: {ranks, degree, shards, stage_count, microbatches, cut, shared:
 * [{layers, stages, ranks, gradients}] (weights that several layers hold; several ranks sum), stages: [of each rank
 * [{stage, first_layer, layers, input_bytes, output_bytes, input_gradient_bytes, output_gradient_bytes (what goes back
 * for the input, and comes back for the output), gradients: [bytes of each replicated layer], sharded: [of each,
 * whether replicas update shares of it]}]], split (whether there are B and W), updates (OPTIMIZER), parts (whether
 * passes come in parts), shards_updates (whether any layer is sharded), overlaps (whether updates go on beside the next
 * step), global_norm, variants: [{name, schedule, microbatches, span_ms, step_ms, bubble_rate, peak_bytes and
 * peak_activation_bytes: of each rank}], refused: why a host cannot run it, or null, no_evaluation: why
 * it cannot evaluate, or null}. Valid until the thread's next call of it. */
PIPEC_RUN_EXPORT int pipec_run_facts(const char *plan, const char **json, PipecRunError *error);

/* Begins to meet the others; what goes wrong later the next call says. So it does of what this rank alone may have
 * wrong, its layers, rank 0's folder and control socket, `refused`: once the other ranks have been told of it or ten
 * seconds are over. What is wrong on all ranks alike it says itself: then there is nothing to close. */
PIPEC_RUN_EXPORT int pipec_run_open(const PipecRunSetup *setup, PipecRun **run, PipecRunError *error);

PIPEC_RUN_EXPORT int pipec_run_next(PipecRun *run, PipecRunInstruction *instruction, PipecRunError *error);

/* Ends the instruction that next returned last. */
PIPEC_RUN_EXPORT int pipec_run_done(PipecRun *run, const PipecRunResult *result, PipecRunError *error);

/* Between two steps: there are no more. Ask on until PIPEC_RUN_END. */
PIPEC_RUN_EXPORT int pipec_run_finish(PipecRun *run, PipecRunError *error);

/* Between two steps: what is left of the last one comes now, then PIPEC_RUN_END_OF_STEP again. Weights and sums that
 * replicas share are whole then. */
PIPEC_RUN_EXPORT int pipec_run_drain(PipecRun *run, PipecRunError *error);

/* Between two steps, on all ranks of a replica alike: what is left of the last one comes now, then the forwards of so
 * many rounds, each of as many microbatches as a step of the variant that ran last (as one of the plan's first before
 * the first step), then PIPEC_RUN_END_OF_STEP again. No backward follows. What stages hand on in a round goes through
 * the same slots as in a step; a host with fewer microbatches leaves those at the last round's end out. */
PIPEC_RUN_EXPORT int pipec_run_evaluate(PipecRun *run, int64_t rounds, PipecRunError *error);

/* Goes over to another variant of the plan (its name or number) between two steps, and waits until all ranks agree. One
 * rank calls it, or all alike. `from`: the step from which on it holds; called before step n, by n + 1. One that does
 * not hold yet gives way to a later one. */
PIPEC_RUN_EXPORT int pipec_run_swap(PipecRun *run, const char *variant, int64_t *from, PipecRunError *error);

/* Ends the run on all ranks in order, behind a step that all do, as `piperun --control PATH stop` does. It may come
 * between any two calls, once the ranks have met. */
PIPEC_RUN_EXPORT int pipec_run_stop(PipecRun *run, PipecRunError *error);

/* A short text (at most 64 KiB) for all ranks, under a key; a later one takes its place. */
PIPEC_RUN_EXPORT int pipec_run_put(PipecRun *run, const char *key, const char *text, PipecRunError *error);

/* The text that some rank has put; NULL: none has come within 0.1 s. It is valid until the next call of get. */
PIPEC_RUN_EXPORT int pipec_run_get(PipecRun *run, const char *key, const char **text, PipecRunError *error);

/* After PIPEC_RUN_END: what `piperun --json` prints, the same on all ranks. Valid until close. */
PIPEC_RUN_EXPORT int pipec_run_report(PipecRun *run, const char **json, PipecRunError *error);

/* Ends all threads of the run and frees it. Before PIPEC_RUN_END it ends the run on all ranks with `why` (NULL: it was
 * closed). */
PIPEC_RUN_EXPORT void pipec_run_close(PipecRun *run, const char *why);

#ifdef __cplusplus
}
#endif

#endif
