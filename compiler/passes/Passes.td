// The passes, in the order of the pipeline. What each does, needs and leaves stands here; the reference is generated from it.

#ifndef PIPEC_COMPILER_PASSES
#define PIPEC_COMPILER_PASSES

include "mlir/Pass/PassBase.td"

def BuildSchedule : Pass<"pipe-build-schedule", "::mlir::ModuleOp"> {
  let summary = "one straight-line program a rank, from the building block, orders or the catalogue";
  let description = [{
    Repeats the block of the module's `pipe.pipeline` every interval, once a microbatch, and squeezes it: each rank's passes in
    the order of their start slots become a `pipe.program`, followed by the optimizer step of each of its stages. A block
    without an interval takes the pipeline's `orders`, or those of the catalogue's schedule of the pipeline's name. An F that
    runs overlapped with the backward behind it stands with it in a `pipe.overlapped`.

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

def InsertCommunication : Pass<"pipe-insert-communication", "::mlir::ModuleOp"> {
  let summary = "sends and receives what flows between stages on different ranks";
  let description = [{
    For each tensor that a stage on another rank consumes, a `pipe.send` on one side and a `pipe.recv` on the other. All
    ranks' orders become projections of one order of all transfers: the passes of all ranks and the transfers are sorted by
    their level (the longest path to them, in passes), never by time, so that regular words stay regular. An order with that
    property cannot stop under rendezvous. An overlapped pair is one in that order: what either of its two takes stands before
    it, what they yield behind it.

    Where the pipeline's orders place transfers, they stay where these say, and each waits for the pass before it in its program, as
    PyTorch issues what it reads from a file.

    Needs: programs as `pipe-build-schedule` leaves them, and the pipeline, whose links give wire time and latency. Leaves:
    programs in issue order, every tensor with its consumer. Fails where the programs wait for each other in a cycle.

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
    A transfer placed too early blocks those behind it in its queue (communicator `per_pair` or `shared`: also those of other
    directions and ranks), one placed too late exposes its time. Tries several orders: by levels, as
    `pipe-insert-communication` makes them, with transfers that last from none to half a forward; PyTorch's; and served by
    time, the most urgent first. The best has the least price: 10 times the makespan plus the makespan with transfers ten
    times as long, as if in one step of eleven the network were that slow; none is longer than PyTorch's. What knows no times
    repeats most, so of the others only what saves a hundredth is taken. Where it is notably shorter, receives then stand
    behind the passes that their rank has time for. The simulator has the last word: at a higher price than before, or where
    only the old order runs, nothing moves. Nor with `per_edge`, where transfers in the order of their producers hold up none.

    Needs: programs with communication. Leaves: the same ops; only their order changes, and it stays free of cycles.
  }];
}

def AllocateSlots : Pass<"pipe-allocate-slots", "::mlir::ModuleOp"> {
  let summary = "gives each transfer a slot of its ring";
  let description = [{
    Each directed pair of ranks has a ring of buffers at either end; the n-th transfer of a step uses slot n modulo the ring's
    size, which is what the predicted run with unlimited buffers holds at once, or, where that breaks the memory limit, the
    most that fits. A send's slot is held from its producer's start to the send's end, a receive's from the transfer's start
    to its consumer's end. Reuse becomes an operand: the token of the slot's last user. Receives that a token holds up move
    down, all ranks' orders staying projections of one order; where a queue's order forbids that (rings that the memory limit
    made small), only the order of each directed pair is kept.

    Needs: programs with communication and without slots. Leaves: `slot` on each transfer, `rings` on each program.
  }];
  let dependentDialects = ["::pipec::pipe::PipeDialect"];
}

def CheckLength : Pass<"pipe-check-length", "::mlir::ModuleOp"> {
  let summary = "proves that a step takes no longer than can be counted";
  let description = [{
    Of the predicted run, in which transfers also wait for those before them in their queues: over 10^18 ps (about 11 days) it is an
    error at the spec's costs.

    Needs: programs with slots. Changes nothing.
  }];
}

def CheckMemory : Pass<"pipe-check-memory", "::mlir::ModuleOp"> {
  let summary = "proves that no rank needs more memory than the limit";
  let description = [{
    Counts, at every instruction of every rank, live activations and contexts, rings as allocated, workspace and static memory.
    Over the limit it is an error that says on which rank and op, what is live there, and the least limit that would do.

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

#endif
