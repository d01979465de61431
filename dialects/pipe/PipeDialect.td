// The dialect and the classes that its definitions share.

#ifndef PIPEC_DIALECTS_PIPE_DIALECT
#define PIPEC_DIALECTS_PIPE_DIALECT

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"

def Pipe_Dialect : Dialect {
  let name = "pipe";
  let summary = "Pipeline-parallel training schedules as programs";
  let description = [{
    A schedule at two levels. At the *design level* `pipe.pipeline` holds one `pipe.block`: the passes of one microbatch on
    all stages, each at a start slot (the building block of Controllable Memory, arXiv 2405.15362, section 3). At the
    *program level* there is a `pipe.program` for each rank: straight-line ops in issue order, whose activations, weight
    contexts and transferred tensors are SSA values, so that a lifespan is a live range and a wait is a use whose definition
    runs on another queue.

    Costs are picoseconds and sizes bytes throughout, and stand on the ops and in the types. Locations point into the spec.
  }];
  let cppNamespace = "::pipec::pipe";
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

class Pipe_Op<string mnemonic, list<Trait> traits = []> : Op<Pipe_Dialect, mnemonic, traits> {
  let hasVerifier = 1;
}

#endif
