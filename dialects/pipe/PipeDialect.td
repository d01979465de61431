// The dialect and the classes that its definitions share.

#ifndef PIPEC_DIALECTS_PIPE_DIALECT
#define PIPEC_DIALECTS_PIPE_DIALECT

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"

def Pipe_Dialect : Dialect {
  let name = "pipe";
  let summary = "Pipeline-parallel training schedules as programs";
  let description = [{
    A schedule at two levels.

    At the *design level* a `pipe.pipeline` has a problem and one `pipe.block`: the passes of one microbatch on all stages,
    with their costs and sizes. Where the schedule is a building block (Controllable Memory, arXiv 2405.15362, section 3),
    each pass has a start slot. Where a search or an order file has found a solution, the pipeline has an order for each rank:

    ```mlir
    pipe.pipeline @found problem <placement = [0, 1], microbatches = 2> orders [
        #pipe.order<F0 F0 BW0 BW0>,
        #pipe.order<F1 BW1 F1 BW1>] {
      pipe.block {
        %0:3 = pipe.forward stage 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
        %1:2 = pipe.forward(%0#0) stage 1 cost 10 : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
        %2 = pipe.backward(%1#0, %1#1) stage 1 cost 20 : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
        pipe.backward(%0#1, %0#2, %2) stage 0 cost 20 : (!pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>) -> ()
      }
    }
    ```

    At the *program level* there is a `pipe.program` for each rank: straight-line ops in issue order. Activations, weight
    contexts and transferred tensors are SSA values. So a lifespan is a live range, and a wait is a use whose definition runs
    on another queue. `pipe-build-schedule` and `pipe-insert-communication` make of the above, for rank 1, a program that
    begins like this:

    ```mlir
    pipe.program @rank1 rank 1 communicator per_edge attributes {stages = array<i32: 1>} enter {
    } step {
      %0 = pipe.recv F stage 1 microbatch 0 from 0 cost 0 latency 0 : () -> !pipe.tensor<8>
      %1:3 = pipe.forward(%0) stage 1 microbatch 0 cost 10
          : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>, !pipe.token)
      %2 = pipe.recv F stage 1 microbatch 1 from 0 cost 0 latency 0 : () -> !pipe.tensor<8>
      %3 = pipe.backward(%1#0, %1#1) stage 1 microbatch 0 cost 20
          : (!pipe.activation<4>, !pipe.context<2>) -> !pipe.tensor<8>
      %4 = pipe.send(%3) B stage 1 microbatch 0 to 0 cost 0 latency 0 : (!pipe.tensor<8>) -> !pipe.token
      ...
    ```

    Costs are picoseconds and stand on the ops; sizes are bytes and stand in the types. Locations point into the spec.
  }];
  let cppNamespace = "::pipec::pipe";
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

class Pipe_Op<string mnemonic, list<Trait> traits = []> : Op<Pipe_Dialect, mnemonic, traits> {
  let hasVerifier = 1;
}

#endif
