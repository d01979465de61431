/* pipec's stages as a shared library of your own: what `piperun PLAN --stage=./mine.so` calls to compute.
 *
 * C99, self-contained: copy it or include it. Define the functions at the end, build a shared library, done:
 *     cc -O2 -fPIC -shared -I<pipec> mine.c -o mine.so
 * specs/stages/mlp is a complete example.
 *
 * Object.    One object in each process holds all stages of its rank. A process may make several, one after the other:
 *            for a new cut of the model into stages, between two steps, every layer is saved (pipec_stage_save_layer),
 *            the object destroyed, one of the new stages made, and each of its layers loaded.
 * Shapes.    A microbatch's activation crosses from stage s to stage s + 1, and its gradient back, with the number of
 *            bytes that the plan says (`tensors: boundary`, `boundary_gradient`). They are contiguous. The layout is
 *            yours, as your library is on both sides.
 * Ownership. Weights, activations and weight contexts are yours. `input` and `output` are the runtime's buffers, valid
 *            during the call only, aligned to 64 bytes; read input, fill output, never write input nor keep either.
 *            Where the neighbour stage is on the same rank, or there is none, they are NULL with 0 bytes: keep the data
 *            for the neighbour yourself.
 * Order.     What a call needs has been computed; otherwise calls of different stages, kinds and microbatches come in
 *            any order that the plan says. pipec's own schedules call each kind of a stage in the order of
 *            microbatches, so that sums come out bit for bit the same under all of them; only looped-bfs and slices go
 *            back in the opposite order, and an order file may do as it likes. A rank ends one step (optimizer_step of
 *            each stage) before it begins the next. The two of an overlapped pair (`costs: overlapped`) come in one
 *            call where you define pipec_stage_forward_backward, else one after the other, the forward first. A swap of
 *            schedules between two steps changes the order, and the number and size of microbatches where variants
 *            differ in them, nothing else.
 * Replicas.  With data parallelism each rank is several processes, which see different microbatches: of n replicas, m
 *            microbatches a step, microbatch j of replica r is number r * m + j of the step. pipec adds up the
 *            replicas' gradients of a layer, in place, once all calls that add to them have returned, and calls
 *            optimizer_step then; sums are plain, so scale by 1 / (m * n) yourself. It needs pipec_stage_layer. Replica
 *            i's share of a layer of e elements is e * i / n up to e * (i + 1) / n, both rounded down. Where a call is
 *            sharded, gradients hold sums in the share alone: update the weights in the share, and pipec gathers the
 *            others'. A pass may come in parts, a call for some layers of the stage: forward from the first layers up,
 *            backward from the last down, backward_weight in any order. The part with the first (last) layer alone has
 *            what goes to or comes from the stage before (behind). A layer's next forward may come before another's
 *            update.
 * Members.   A stage may be on several ranks (facts: width, member, samples, batch), each with some samples of the one
 *            microbatch, which lie one behind the other in inputs and outputs: the k-th is sample member + k * width of
 *            the batch. pipec moves samples where neighbours are on unlike numbers of ranks, and adds up the members'
 *            gradients of a layer, in place, before optimizer_step: scale by 1 / batch. It needs pipec_stage_layer.
 * Threads.   Calls on an object never overlap, but need not come from one thread. Start threads of your own as you
 *            like.
 * Time.      A call returns when its work is done: its time is the instruction's.
 * GPUs.      With `piperun --device=cuda` a call enqueues its work on call->stream and returns, without waiting for any
 *            of it, and without allocating after the first step: buffers are device pointers, valid for work on that
 *            stream up to the end of what the call has enqueued (join streams of your own before you return). All calls
 *            come from one thread, in the order in which they are issued; setup->context is current on it. What goes
 *            wrong later the next call says. A library that computes on the host alone refuses setup->device >= 0.
 * Errors.    0 is success. Anything else ends the run on all ranks (exit code 4) with error->message, which should say
 *            what went wrong in one line. Do not exit, and let no C++ exception out.
 * Sizes.     Structs that are passed begin with their size in bytes, which pipec fills in. A later header may end them
 *            with more fields: read and write only what the size covers (PIPEC_STAGE_HAS), and go through `own` with
 *            PIPEC_STAGE_FACTS.
 * Versions.  PIPEC_STAGE_VERSION changes when a library written for another one would no longer do. More fields and
 *            more functions that may be left out do not change it. From 1 to 2: sizes, layers, GPUs, and what the
 *            functions of the norm are given. A library of version 1 runs on the host as it did; with --device=cuda it
 *            is refused, as one of any other version is.
 */
#ifndef PIPEC_STAGE_H
#define PIPEC_STAGE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PIPEC_STAGE_VERSION 2

/* Whether the struct at `pointer` is large enough to have `field`. */
#define PIPEC_STAGE_HAS(pointer, field)                                                                                \
  ((const char *)(&(pointer)->field + 1) <= (const char *)(pointer) + (pointer)->size)
/* The facts of the index-th of own_count stages. */
#define PIPEC_STAGE_FACTS(setup, index)                                                                                \
  ((const PipecStageFacts *)(const void *)((const char *)(setup)->own + (size_t)(index) * (setup)->own->size))

/* Yours: define struct PipecStage as you need it. */
typedef struct PipecStage PipecStage;

/* One line, ended by 0. It has no size: it stays as it is. */
typedef struct PipecError {
  char message[512];
} PipecError;

/* What the plan knows of one stage. Times in picoseconds, of one microbatch; 0 where the plan has no such work. Sizes
 * in bytes, the largest of all variants. */
typedef struct PipecStageFacts {
  uint32_t size;            /* of this struct, and from each to the next */
  int32_t stage;            /* 0 .. stages - 1 */
  int32_t first_layer;      /* of the model, from 0 */
  int32_t layers;           /* how many the stage holds; 0, and first_layer too: the plan does not say */
  int64_t input_bytes;      /* from another rank, of one microbatch; 0: none, or from a stage on this rank */
  int64_t output_bytes;     /* to another rank */
  int64_t activation_bytes; /* what the plan counts for a microbatch between forward and backward */
  int64_t context_bytes;    /* what the plan counts for a microbatch until backward_weight */
  int64_t forward_time;
  int64_t backward_input_time;
  int64_t backward_weight_time;
  int64_t backward_time;
  int64_t optimizer_time;        /* of a step */
  int32_t width;                 /* ranks that the stage is on, each with its samples of the batch; 1: on one */
  int32_t member;                /* of these, from 0: sample i of the batch is on member i mod width */
  int64_t samples;               /* of the batch, on this one; 0: the plan does not say */
  int64_t batch;                 /* samples of a step, where stages are on several ranks; else 0 */
  int64_t input_gradient_bytes;  /* what goes back for the input: input_bytes, unless the plan says otherwise */
  int64_t output_gradient_bytes; /* what comes back for the output */
} PipecStageFacts;

/* The shards of a rank. Its functions are called from within a call of this object (a pass, an optimizer step,
 * portions; not from create, save or load) and by the thread that is in it; all shards call the same ones in the same
 * order, with equal types and counts: the k-th of a call meets the k-th of the same call on the others, and where they
 * differ the run ends. Each returns when its result is there: 0, or another number with a message, which the call
 * returns too. Buffers are the host's. Results do not depend on timing: what is added up is added in the order of
 * shards, in the type of the values. */
typedef struct PipecGroup PipecGroup;
struct PipecGroup {
  uint32_t size;
  int32_t shard;
  int32_t shards;
  void *own; /* the runtime's */
  /* Sums `count` values (PIPEC_FLOAT32 or PIPEC_FLOAT64) over all shards; leaves the sums in `values` on each. */
  int (*sum)(PipecGroup *group, void *values, int64_t count, int32_t type, PipecError *error);
  /* Of shards x count values, leaves in `share` this shard's count of the sums: the first shard's are the first. */
  int (*scatter)(PipecGroup *group, const void *values, int64_t count, int32_t type, void *share, PipecError *error);
  /* Leaves the shares of all shards in `values` on each of them, one behind the other. */
  int (*gather)(PipecGroup *group, const void *share, int64_t count, int32_t type, void *values, PipecError *error);
  /* Each shard sends bytes to each: sent[i] are in `out`, after those for the shards before i, and received[i] are
   * stored in `in` in the same way. received[i] here is sent[this shard] there. */
  int (*exchange)(PipecGroup *group, const void *out, const int64_t *sent, void *in, const int64_t *received,
                  PipecError *error);
};

typedef struct PipecSetup {
  uint32_t size;
  int32_t rank;               /* place in the pipeline, from 0 */
  int32_t ranks;              /* of the pipeline */
  int32_t world_rank;         /* of the process, from 0 */
  int32_t world;              /* all processes; equal to ranks without data parallelism */
  int32_t stages;             /* of the whole pipeline */
  int32_t layers;             /* of the whole model; 0: the plan does not say */
  int32_t own_count;          /* stages on this rank */
  const PipecStageFacts *own; /* these, ascending: PIPEC_STAGE_FACTS */
  int64_t microbatches;       /* of a step; the most of all variants */
  const char *provider;       /* the spec's `provider:` as JSON text; "null" without one */
  int32_t device;             /* of CUDA; -1: the host */
  void *context;              /* CUDA's of the device; NULL on the host */
  int32_t replica;            /* of this rank, from 0: the microbatches of a step are those of all replicas */
  int32_t replicas;           /* of each rank; 1 without data parallelism */
  int32_t shard;              /* of this rank, from 0: the processes that share its matrices */
  int32_t shards;             /* of each rank; 1 without tensor parallelism */
  PipecGroup *group;          /* these shards, for the whole run; NULL for one */
} PipecSetup;

/* One call: the work of one stage on one microbatch (from 0, in its step) in one step (from 0). */
typedef struct PipecCall {
  uint32_t size;
  int32_t stage;
  int64_t microbatch;
  int64_t step;
  const void *input; /* forward: the activation from stage - 1; backward: the gradient from stage + 1 */
  int64_t input_bytes;
  void *output; /* forward: the activation for stage + 1; backward: the gradient for stage - 1 */
  int64_t output_bytes;
  void *stream;        /* of CUDA, on which the buffers are valid; NULL on the host */
  int32_t first_layer; /* of the stage, from 0: the call is about these layers alone */
  int32_t layers;      /* how many; a whole pass: 0 and all (0 where the plan does not say how many there are) */
  int32_t sharded;     /* optimizer_step: 1 where it updates this replica's share of each layer, else 0 */
} PipecCall;

/* A replicated layer of a stage. */
typedef struct PipecLayer {
  uint32_t size;
  int32_t type;     /* PIPEC_FLOAT32 or PIPEC_FLOAT64 */
  void *gradients;  /* `elements` elements in a row; the pointers are valid for the whole run */
  void *weights;    /* as gradients */
  int64_t elements; /* number of elements in gradients, and in weights */
} PipecLayer;

#define PIPEC_FLOAT32 1
#define PIPEC_FLOAT64 2

typedef struct PipecMemory {
  uint32_t size; /* filled in by the caller */
  int64_t fixed; /* bytes of weights, gradients, optimizer state */
  int64_t live;  /* of activations and weight contexts, now */
  int64_t peak;  /* the most that live has been */
} PipecMemory;

#if defined(__GNUC__)
#define PIPEC_STAGE_EXPORT __attribute__((visibility("default")))
#else
#define PIPEC_STAGE_EXPORT
#endif

/* return PIPEC_STAGE_VERSION; */
PIPEC_STAGE_EXPORT uint32_t pipec_stage_version(void);

/* Makes the object, weights included; `setup` and what it points to last during the call only. Ranks must agree on
 * everything without talking to each other: derive seeds from provider values, and from the stage or its layers, never
 * from rank or time. */
PIPEC_STAGE_EXPORT int pipec_stage_create(const PipecSetup *setup, PipecStage **stage, PipecError *error);

/* At the end of a run that ended well, and before the object of a new cut is made. After a failure the process just
 * ends. */
PIPEC_STAGE_EXPORT void pipec_stage_destroy(PipecStage *stage);

PIPEC_STAGE_EXPORT int pipec_stage_forward(PipecStage *stage, const PipecCall *call, PipecError *error);

/* Plans with a split backward (B and W) call the first two, plans with a fused one the third; leave out what your plans
 * do not use. backward_input computes the gradient of the stage's input and ends the activation; backward_weight adds
 * to the gradient of the weights and ends the context (its call has no input and no output); backward does both. */
PIPEC_STAGE_EXPORT int pipec_stage_backward_input(PipecStage *stage, const PipecCall *call, PipecError *error);
PIPEC_STAGE_EXPORT int pipec_stage_backward_weight(PipecStage *stage, const PipecCall *call, PipecError *error);
PIPEC_STAGE_EXPORT int pipec_stage_backward(PipecStage *stage, const PipecCall *call, PipecError *error);

/* May be left out: a forward and a backward of another microbatch or stage at once, as a plan with overlapped pairs has
 * them. Neither needs what the other makes. Both inputs are there and both outputs are free when it begins, and both
 * outputs are due when it returns; its time is the pair's. */
PIPEC_STAGE_EXPORT int pipec_stage_forward_backward(PipecStage *stage, const PipecCall *forward,
                                                    const PipecCall *backward, PipecError *error);

/* May be left out: a forward of an evaluation, with the weights as they are. No backward follows, so keep nothing of it
 * but what a neighbour stage of this object takes, and nothing in it may change what training computes. Between two
 * steps, each stage is called once a microbatch; call->step is the training step that comes next. What a stage behind
 * the last would take, a loss for example, is yours to say or to write: one object has seen all of its microbatches
 * when the next call is of another function or step. `piperun --evaluate-every N` calls it behind each multiple of N
 * steps. */
PIPEC_STAGE_EXPORT int pipec_stage_evaluate(PipecStage *stage, const PipecCall *call, PipecError *error);

/* Both or neither may be left out. Plans with a global norm (`optimizer: {time: …, global_norm: true}`), for clipping
 * by the norm of all gradients or for a loss scale, call each once a step on every rank, after the last backward of its
 * stages and before their optimizer_step; they are of all stages of the rank, so call->stage is -1, the microbatch 0.
 * gradient_norm: a double into `output`, the sum of the squares of all gradients that this object holds; without the
 * function 0; of replicas each says that of its share. set_global_norm: a double in `input`, the sum of what all ranks
 * said, the same on all, added up in the order of ranks. Replicas' gradients may be on their way to each other while
 * the two run: they change none, which optimizer_step does. While they run the process hears nobody, so they should
 * not take long. */
PIPEC_STAGE_EXPORT int pipec_stage_gradient_norm(PipecStage *stage, const PipecCall *call, PipecError *error);
PIPEC_STAGE_EXPORT int pipec_stage_set_global_norm(PipecStage *stage, const PipecCall *call, PipecError *error);

/* Once a layer and step, after its last backward: updates the weights (of the share, where it is sharded), sets all
 * gradients of its layers to zero. No input, no output, microbatch 0. */
PIPEC_STAGE_EXPORT int pipec_stage_optimizer_step(PipecStage *stage, const PipecCall *call, PipecError *error);

/* Between steps: writes to a new file at `path` whatever training needs to go on after `steps` steps, of this rank's
 * stages; the runtime makes the file durable and renames it. load is the opposite, before the first step: refuse a file
 * that is not of `steps` steps or not of these stages. */
PIPEC_STAGE_EXPORT int pipec_stage_save(PipecStage *stage, const char *path, int64_t steps, PipecError *error);
PIPEC_STAGE_EXPORT int pipec_stage_load(PipecStage *stage, const char *path, int64_t steps, PipecError *error);

/* Both or neither may be left out; without them a run keeps its cut of the model into stages. The same of one layer of
 * the model, numbered as first_layer is, that a stage of this object holds: weights, optimizer state, and whatever else
 * has to follow the layer to another stage, rank and process. load comes before the object's first step, once for each
 * layer; refuse a file that is not of `steps` steps or not of this layer, and a layer that no stage here holds. */
PIPEC_STAGE_EXPORT int pipec_stage_save_layer(PipecStage *stage, int32_t layer, const char *path, int64_t steps,
                                              PipecError *error);
PIPEC_STAGE_EXPORT int pipec_stage_load_layer(PipecStage *stage, int32_t layer, const char *path, int64_t steps,
                                              PipecError *error);

/* What plans with replicas, and with passes in parts, need: where the gradients and weights of a layer (from 0, in its
 * stage) are. An error beyond the last. On a GPU they are in its memory. */
PIPEC_STAGE_EXPORT int pipec_stage_layer(PipecStage *stage, int32_t s, int32_t layer, PipecLayer *found,
                                         PipecError *error);

/* A range of units of a split. */
typedef struct PipecUnits {
  int64_t first;
  int64_t count;
} PipecUnits;

/* What one shard has of a split (`splits` of the spec's layers) in some layers of a stage: of each of them the same. */
typedef struct PipecPortion {
  uint32_t size; /* of this struct, and from each to the next */
  int32_t stage;
  int32_t shard;
  const char *split;       /* its name */
  int64_t units;           /* number of units of the split, over all shards */
  const PipecUnits *owned; /* it has their weights and optimizer state; ascending, disjoint */
  int64_t owned_count;
  const PipecUnits *worked; /* it computes their part; ascending, disjoint */
  int64_t worked_count;
  int64_t kept; /* how many of the worked ones take part in a pass; the others are left out, with balance's ways */
  const char *balance; /* what chose it, as JSON text: {"name": "auto", …} */
  int32_t first_layer; /* of the stage, from 0 */
  int32_t layers;      /* how many */
} PipecPortion;

/* What plans with shards need: which units are whose, of all stages here and all shards of this rank. Comes before the
 * first step and, between two steps, where the schedule that follows has others: on all shards at once, so it may use
 * the group. From then on the object works by it; what it now owns and had not before it fetches, with weights and
 * optimizer state, from the shards that had it. `portions` lasts during the call only. Where a run is resumed it comes
 * twice: with what was owned when the checkpoint was written, before load, and with what is to be, behind it. */
PIPEC_STAGE_EXPORT int pipec_stage_portions(PipecStage *stage, const PipecPortion *portions, int32_t count,
                                            PipecError *error);

/* Between steps: what the object holds. */
PIPEC_STAGE_EXPORT void pipec_stage_memory(const PipecStage *stage, PipecMemory *memory);

#ifdef __cplusplus
}
#endif

#endif
