// The passes, in the order of the pipeline. What each does, needs and leaves stands here; the reference is generated from it.

#ifndef PIPEC_COMPILER_PASSES
#define PIPEC_COMPILER_PASSES

include "mlir/Pass/PassBase.td"

def BuildSchedule : Pass<"pipe-build-schedule", "::mlir::ModuleOp"> {
  let summary = "one straight-line program a rank, from the building block, orders or the catalogue";
  let description = [{
    Repeats the block of the module's `pipe.pipeline` every interval, once a microbatch, and leaves out the gaps: each rank's
    passes in the order of their start slots become a `pipe.program`, followed by its collectives and the optimizer step of
    each of its stages. Where the pipeline has `replicas`, their collectives and updates are those of its `exchange`; without one, each
    layer gets an all-reduce as soon as its gradients are complete, and an update behind that. The passes at the step's ends are
    cut into layers, which wait for just that. If the block has no interval, the passes come from the pipeline's `orders`, or from the schedule of the
    pipeline's name in the catalogue. A forward and a backward that run at once stand together in a `pipe.overlapped`.

    Needs: one `pipe.pipeline`, no `pipe.program`. Leaves: the pipeline and one program a rank; values flow between stages of
    one rank, nothing yet between ranks. Fails where two passes of a rank start in one slot modulo the interval.

    Before, with one stage and two microbatches:
    ```mlir
    pipe.block interval 3 {
      %0:2 = pipe.forward stage 0 at 0 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>)
      pipe.backward(%0#0, %0#1) stage 0 at 1 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> ()
    }
    ```
    After:
    ```mlir
    pipe.program @rank0 rank 0 communicator per_edge enter {} step {
      %0:2 = pipe.forward stage 0 microbatch 0 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>)
      pipe.backward(%0#0, %0#1) stage 0 microbatch 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> ()
      %1:2 = pipe.forward stage 0 microbatch 1 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>)
      pipe.backward(%1#0, %1#1) stage 0 microbatch 1 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> ()
      pipe.optimizer_step stage 0 cost 0
    } leave {}
    ```
  }];
  let dependentDialects = ["::pipec::pipe::PipeDialect"];
}

def DecoupleAllReduce : Pass<"pipe-decouple-all-reduce", "::mlir::ModuleOp"> {
  let summary = "replaces all-reduces of replicas by their halves";
  let description = [{
    An all-reduce becomes a `pipe.reduce_scatter`, the update and a `pipe.all_gather`, so that the next step's forward, which
    waits for the gather alone, can run meanwhile. Where the replicas `may_shard`, each updates its share of the layers between
    the two; else all are updated behind the gather. What stands in a rank's queue is ordered by when its data are ready and by
    what the next forward needs first.

    The simulator has the last word: all are decoupled if the time per step does not get longer by that, else each of them of
    which that holds by itself. Otherwise nothing changes.

    Needs: programs as `pipe-build-schedule` leaves them, and the pipeline. Leaves: the same passes, cut where the new
    collectives begin; nothing flows between ranks yet. Without `replicas` it changes nothing.

    Before:
    ```mlir
    %2 = pipe.all_reduce gradients(%1 : !pipe.token) replicas 4 stage 0 layers 0 to 1 bytes 0 to 8 cost 4 : !pipe.token
    %3 = pipe.optimizer_step(%2 : !pipe.token) stage 0 layers 0 to 1 cost 4 : !pipe.token
    ```
    After:
    ```mlir
    %2 = pipe.reduce_scatter gradients(%1 : !pipe.token) replicas 4 stage 0 layers 0 to 1 bytes 0 to 8 cost 2 : !pipe.token
    %3 = pipe.optimizer_step(%2 : !pipe.token) stage 0 layers 0 to 1 cost 1 : !pipe.token
    %4 = pipe.all_gather gradients(%3 : !pipe.token) replicas 4 stage 0 layers 0 to 1 bytes 0 to 8 cost 2 : !pipe.token
    ```
  }];
  let dependentDialects = ["::pipec::pipe::PipeDialect"];
}

def FuseCollectives : Pass<"pipe-fuse-collectives", "::mlir::ModuleOp"> {
  let summary = "joins collectives of layers next to each other";
  let description = [{
    Two collectives of one kind and stage whose layers lie side by side become one, which has one start. All-reduces,
    reduce-scatters and all-gathers are joined each for themselves, so that sums and gathers of the same layers may be bundled
    differently. One takes part of its bundle's data later than it did, so that joining has its price.

    The simulator has the last word: two are joined if that makes the time per step shorter, from the first layers on, until
    no more are.

    Needs: programs as `pipe-build-schedule` or `pipe-decouple-all-reduce` leaves them, and the pipeline. Leaves: the same
    passes, cut where the new collectives begin; nothing flows between ranks yet. Without `replicas` it changes nothing.

    Before:
    ```mlir
    %2 = pipe.all_reduce gradients(%1 : !pipe.token) replicas 4 stage 0 layers 1 to 2 bytes 8 to 16 cost 4 : !pipe.token
    %4 = pipe.all_reduce gradients(%3 : !pipe.token) replicas 4 stage 0 layers 0 to 1 bytes 0 to 8 cost 4 : !pipe.token
    ```
    After:
    ```mlir
    %2 = pipe.all_reduce gradients(%1 : !pipe.token) replicas 4 stage 0 layers 0 to 2 bytes 0 to 16 cost 5 : !pipe.token
    ```
  }];
  let dependentDialects = ["::pipec::pipe::PipeDialect"];
}

def InsertCommunication : Pass<"pipe-insert-communication", "::mlir::ModuleOp"> {
  let summary = "sends and receives what flows between stages on different ranks";
  let description = [{
    Adds a `pipe.send` on one rank and a `pipe.recv` on the other for each tensor that a stage on another rank consumes. The
    passes of all ranks and the transfers get one common order, and each rank's program is its part of it; so ranks cannot
    wait for each other in a cycle, even where a send completes only while its receive runs. The common order sorts by level
    (the longest path to a pass or transfer, counted in passes), never by time, so that regular programs stay regular. An
    overlapped pair is one element of it: what its two passes take stands before the pair, what they yield behind.

    Where the pipeline's orders place transfers, the transfers stay there. Each then waits for the pass before it in its
    program, as it does when PyTorch runs an order file.

    Needs: programs as `pipe-build-schedule` leaves them, and the pipeline, whose links give wire time and latency. Leaves:
    programs in issue order, in which every tensor has its consumer. Fails where the programs wait for each other in a cycle.

    Before, on rank 0 and rank 1:
    ```mlir
    %0:3 = pipe.forward stage 0 microbatch 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    // rank 1
    %0:2 = pipe.forward stage 1 microbatch 0 cost 10 : () -> (!pipe.activation<4>, !pipe.context<2>)
    ```
    After:
    ```mlir
    %0:3 = pipe.forward stage 0 microbatch 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
    %1 = pipe.send(%0#0) F stage 0 microbatch 0 to 1 cost 0 latency 5 : (!pipe.tensor<8>) -> !pipe.token
    // rank 1
    %0 = pipe.recv F stage 1 microbatch 0 from 0 cost 0 latency 5 : () -> !pipe.tensor<8>
    %1:3 = pipe.forward(%0) stage 1 microbatch 0 cost 10 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>, !pipe.token)
    ```
  }];
  let dependentDialects = ["::pipec::pipe::PipeDialect"];
}

def OverlapCommunication : Pass<"pipe-overlap-communication", "::mlir::ModuleOp"> {
  let summary = "orders transfers that share a queue so that none holds up another needlessly";
  let description = [{
    A transfer placed too early blocks those behind it in its queue; with the communicators `per_pair` and `shared` these are
    also transfers of other directions and ranks. One placed too late makes its rank wait. The pass tries several orders of
    transfers: by levels, as `pipe-insert-communication` makes them, with transfers that last from no level to half a forward;
    PyTorch's; and served by time, the most urgent first.

    It takes the order with the least price: 10 times the makespan plus the makespan with transfers ten times as long, as if
    the network were that slow in one step of eleven. An order whose makespan is longer than with PyTorch's is not taken. An
    order that knows no times repeats most, which makes small plans; so one served by time must save a hundredth. Then
    receives move behind passes that their rank can run meanwhile, where that shortens PyTorch's dry run of the order by more
    than a 64th.

    The simulator has the last word: if the programs had a lower price before, or only they run to their end, nothing moves.
    With `per_edge` nothing moves either, since transfers in the order of their producers hold up none.

    Needs: programs with communication. Leaves: the same ops; only their order changes, and it stays free of cycles.
  }];
}

def HoistRecompute : Pass<"pipe-hoist-recompute", "::mlir::ModuleOp"> {
  let summary = "runs forwards again while their rank waits";
  let description = [{
    A `pipe.recompute` stands right before its backward, where it needs least memory: from then on its rank holds an
    activation. It needs nothing of a neighbour. So one that its backward waits for moves up, to the first wait behind its
    forward that is as long as it, on the simulator's clock, and during which the rank has the memory: what its limit leaves
    beside the rings that the predicted run gets.

    The simulator has the last word: what does not shorten the step, once rings are allocated, does not move, unless it makes
    the step fit into memory. Nothing moves where W fill the waits.

    Needs: programs with communication and without slots. Leaves: the same ops; only the place of `pipe.recompute` changes.
  }];
}

def AllocateSlots : Pass<"pipe-allocate-slots", "::mlir::ModuleOp"> {
  let summary = "gives each transfer a slot of its ring";
  let description = [{
    Each directed pair of ranks has a ring of buffers (slots) at either end. The n-th transfer of a step uses slot n modulo the
    ring's size. A ring is as large as the predicted run with unlimited buffers needs at once, or, where that breaks the memory
    limit, as large as fits. With `rings = any` in the problem it grows from there to the size with which it delays nothing in
    any timing, as far as the limit leaves room: the ring with the smallest part of that first. A send's slot is held from its
    producer's start to the send's end, a receive's from the start of the transfer to its consumer's end. Reuse of a slot
    becomes an operand: the token of the slot's last user, or, with `rings = any`, of a later one that is known to be over by
    then anyway.

    A receive that a token holds up moves down in its program; all programs stay parts of one common order. Where the order of
    a queue forbids that, as it may with rings that the memory limit made small, only the transfers of each directed pair keep
    their order.

    Needs: programs with communication and without slots. Leaves: `slot` on each transfer, `rings` on each program.
  }];
  let dependentDialects = ["::pipec::pipe::PipeDialect"];
}

def CheckLength : Pass<"pipe-check-length", "::mlir::ModuleOp"> {
  let summary = "proves that a step takes no longer than can be counted";
  let description = [{
    An error, at the costs in the spec, if a step of the predicted run takes longer than 10^18 ps (about 11 days). In that run
    transfers also wait for those before them in their queues.

    Needs: programs with slots. Changes nothing.
  }];
}

def CheckMemory : Pass<"pipe-check-memory", "::mlir::ModuleOp"> {
  let summary = "proves that no rank needs more memory than the limit";
  let description = [{
    Adds up, at every instruction of every rank, live activations and contexts, rings as allocated, workspace and static
    memory. Over the limit it is an error that says on which rank and op, what is live there, and the least limit that would
    do.

    Needs: programs with slots. Changes nothing.
  }];
}

def CheckDeadlock : Pass<"pipe-check-deadlock", "::mlir::ModuleOp"> {
  let summary = "proves that the programs end";
  let description = [{
    One walk in virtual time under rendezvous, in which a send completes only while its receive runs. Nothing in a program
    chooses, so a walk that ends proves that every run ends; one that stops holds the cycle, which is printed. Transfers
    between two ranks must match in order on their queue, and every use must wait for its definition: the same rules that
    the loader of a plan applies.

    Needs: programs with slots. Changes nothing.
  }];
}

def OpenWindows : Pass<"pipe-open-windows", "::mlir::ModuleOp"> {
  let summary = "says which waits pieces of background jobs may fill, and how long a piece is";
  let description = [{
    A rank runs the first of the pipeline's `jobs` that may run on it and fits its memory. Of all thresholds of a wait's length
    and all numbers of atoms of a piece, those are taken that fill most time and, in any timing, make a step no more than
    `slow_down` longer. A wait gets a `window` where it is as long as the threshold and a piece in every predicted step; where
    jobs are not to fill what is beside a collective of the rank, that is the longest part of it without one.

    An error if no job fits any rank, or if no piece of one keeps the promise, with what would do; a warning where a rank or a
    job stays without. Without `jobs` it changes nothing. A compile of several variants asks for a job that fits them all.

    Needs: programs that the checks have passed, and the pipeline. Leaves: `job` and `piece` on each program that has one, and
    `window` on its ops.

    Before:
    ```mlir
    %1:2 = pipe.forward(%0) stage 1 microbatch 0 cost 10 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    ```
    After:
    ```mlir
    %1:2 = pipe.forward(%0) stage 1 microbatch 0 cost 10 window 15 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    ```
  }];
  let dependentDialects = ["::pipec::pipe::PipeDialect"];
}

#endif
