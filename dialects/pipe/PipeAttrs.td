// Attributes: the problem of a pipeline and its links; orders, which are a solution of it; the rings of a program.

#ifndef PIPEC_DIALECTS_PIPE_ATTRS
#define PIPEC_DIALECTS_PIPE_ATTRS

include "dialects/pipe/PipeDialect.td"
include "mlir/IR/EnumAttr.td"

def Pipe_Payload : I32EnumAttr<"Payload", "what a transfer carries: an activation (F) or a gradient (B)", [
  I32EnumAttrCase<"Forward", 1, "F">,
  I32EnumAttrCase<"Backward", 2, "B">
]> {
  let cppNamespace = "::pipec::pipe";
}

def Pipe_Summand : I32EnumAttr<"Summand", "what a collective adds up", [
  I32EnumAttrCase<"Norm", 3, "norm">,
  I32EnumAttrCase<"Gradients", 4, "gradients">
]> {
  let cppNamespace = "::pipec::pipe";
}

def Pipe_Communicator : I32EnumAttr<"Communicator", "what shares a transfer queue", [
  I32EnumAttrCase<"PerEdge", 0, "per_edge">,
  I32EnumAttrCase<"PerPair", 1, "per_pair">,
  I32EnumAttrCase<"LaunchOrder", 2, "launch_order">,
  I32EnumAttrCase<"Shared", 3, "shared">
]> {
  let cppNamespace = "::pipec::pipe";
}

def Pipe_Weights : I32EnumAttr<"Weights", "when weight backwards run", [
  I32EnumAttrCase<"Ordered", 0, "ordered">,
  I32EnumAttrCase<"Fill", 1, "fill">
]> {
  let cppNamespace = "::pipec::pipe";
}

def Pipe_RingSizes : I32EnumAttr<"RingSizes", "for how many transfers there are buffers", [
  I32EnumAttrCase<"Predicted", 0, "predicted">,
  I32EnumAttrCase<"Any", 1, "any">
]> {
  let cppNamespace = "::pipec::pipe";
}

def Pipe_LinkAttr : AttrDef<Pipe_Dialect, "Link"> {
  let mnemonic = "link";
  let summary = "one directed pair of ranks: latency in picoseconds, bandwidth in bytes per second";
  let description = [{
    A link without a bandwidth (0) has an unlimited one. A link without ranks (-1) is the default of all pairs. Examples:

    ```mlir
    #pipe.link<0 to 1 latency 20000000 bandwidth 12500000000>
    #pipe.link<latency 20000000>
    ```
  }];
  let parameters = (ins "int32_t":$from, "int32_t":$to, "int64_t":$latency, "int64_t":$bandwidth);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool isDefault() const { return getFrom() == -1 && getTo() == -1; }
  }];
}

class Pipe_DefaultEnum<EnumAttrInfo which, string value> : EnumParameter<which> {
  let defaultValue = value;
}
class Pipe_Default<string type, string value, string what> : DefaultValuedParameter<type, value, what>;
class Pipe_OptionalInt<string type, string what> : OptionalParameter<"::std::optional<" # type # ">", what> {
  let parser = "::mlir::FieldParser<" # type # ">::parse($_parser)";
}
class Pipe_List<string what> : OptionalParameter<"::mlir::DenseI64ArrayAttr", what>;

def Pipe_ProblemAttr : AttrDef<Pipe_Dialect, "Problem"> {
  let mnemonic = "problem";
  let summary = "what is to be scheduled, but for the passes: placement, microbatches, links, memory, variants";
  let description = [{
    Costs and sizes of the passes stand on the ops of the pipeline's block; all else is here. The placement and the number of
    microbatches are always printed, the rest only where it differs from its default:

    ```mlir
    #pipe.problem<placement = [0, 1], microbatches = 4>
    #pipe.problem<placement = [0, 1, 1, 0], microbatches = 8, communicator = per_pair,
                  link = <latency 20000000 bandwidth 12500000000>, links = [#pipe.link<0 to 1 latency 5>],
                  optimizer = [7, 8, 8, 7], memory_limit = [1024, 2048]>
    ```

    The placement gives the rank of each stage. Stages are numbered by their place in it, ranks from 0 to the largest in it.
    `link` is the link of every directed pair of ranks that has none of its own in `links`. Without either a transfer takes
    no time.

    With `rings = any` the buffers of transfers are as many as any timing of the programs can fill, where the memory limit
    leaves room for more than the predicted run fills.

    With `weights = fill` the weight backwards run on a queue of their own, whenever the next instruction of the compute
    queue has to wait. With `copies = 2` the placement lists two copies of the stages, one after the other. Each copy is a
    pipeline by itself with its own microbatches. The ranks that hold the copies of a stage sum its `gradients` before the
    optimizer.
  }];
  let parameters = (ins
    AttrParameter<"::mlir::DenseI32ArrayAttr", "the rank of each stage">:$placement,
    AttrParameter<"int32_t", "how often the block is repeated (in each copy)">:$microbatches,
    Pipe_Default<"int32_t", "1", "copies of the stages, 1 or 2">:$copies,
    Pipe_Default<"int32_t", "1", "so many microbatches in a row are the slices of one sequence">:$slices,
    Pipe_OptionalInt<"int32_t", "backwards run in groups of so many microbatches, the last of a group first; none: of as many as there are slices">:$backward_group,
    Pipe_DefaultEnum<Pipe_Communicator, "Communicator::PerEdge">:$communicator,
    Pipe_DefaultEnum<Pipe_Weights, "Weights::Ordered">:$weights,
    Pipe_DefaultEnum<Pipe_RingSizes, "RingSizes::Predicted">:$rings,
    OptionalParameter<"::pipec::pipe::LinkAttr", "of all pairs of ranks; none: free">:$link,
    OptionalParameter<"::mlir::ArrayAttr", "pairs of ranks that have one of their own">:$links,
    Pipe_List<"by stage, picoseconds of its optimizer step; none: 0">:$optimizer,
    Pipe_List<"by stage, bytes of the gradients of its weights; none: 0">:$gradients,
    Pipe_List<"by stage, picoseconds of a backward that is not split; none: those of B and W, one after the other">:$whole,
    Pipe_List<"by stage, picoseconds of its forward together with a whole backward, -1 where the two never run at once; "
              "none: -1">:$overlapped,
    Pipe_List<"by rank, bytes that are always held; none: 0">:$static_bytes,
    Pipe_List<"by rank, bytes of workspace; none: 0">:$workspace,
    Pipe_List<"by rank, the bytes it may hold; none: no limit">:$memory_limit,
    Pipe_OptionalInt<"int64_t", "picoseconds of the all-reduce of a gradient norm, which starts when all ranks have done "
                     "their last backward and for which all optimizers wait; none: there is none">:$global_norm);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int32_t ranks() const;
    /// The stage before (after) a stage in its copy; -1: there is none.
    int32_t before(int32_t stage) const;
    int32_t after(int32_t stage) const;
  }];
}

def Pipe_RingAttr : AttrDef<Pipe_Dialect, "Ring"> {
  let mnemonic = "ring";
  let summary = "the transfer buffers of one direction with one peer: slots, and the bytes of one";
  let description = [{
    Example: `#pipe.ring<send 1 slots 2 bytes 16777216>`: the n-th send to rank 1 uses slot n mod 2. Of a ring that is
    `drained` the order of the data says that its transfers of a step are over before the next step takes a slot.
  }];
  let parameters = (ins "bool":$sends, "int32_t":$peer, "int32_t":$slots, "int64_t":$bytes, "bool":$drained);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}
def Pipe_RingArray : TypedArrayAttrBase<Pipe_RingAttr, "rings">;

def Pipe_OrderAttr : AttrDef<Pipe_Dialect, "Order"> {
  let mnemonic = "order";
  let summary = "what one rank does in a step, in order";
  let description = [{
    A solution as IR: the passes of one rank, each a letter and a stage. `F` is a forward, `B` a backward for the input, `W` one
    for the weights, `BW` both in one. A pass names no microbatch: those of one stage and letter take the microbatches in
    order, from 0; where backwards run in groups, those of a group from its last. The last rank of 1F1B with three
    microbatches, and a rank of two stages with split backwards:

    ```mlir
    #pipe.order<F3 BW3 F3 BW3 F3 BW3>
    #pipe.order<F0 F2 F0 B2 W2 F2 B0 B2 W0 W2 B0 W0>
    ```

    A forward and a backward in parentheses are a pair that runs at once: `(F0 BW3)`.

    An order may place the rank's transfers too, as PyTorch's `compute_comms` files do. `send(F0, 1)` sends what F of stage 0
    made of microbatch 1, and `recv(F1, 1)` receives that for F of stage 1. `send(B1, 1)` and `recv(B0, 1)` do the same for
    its gradient. A transfer waits for the pass before it in the order. Whatever stands behind `wait(F0, 1)` waits until
    `send(F0, 1)` has ended. Where no order of a pipeline has a transfer, `pipe-insert-communication` places them.

    ```mlir
    #pipe.order<F0 send(F0, 0) F0 send(F0, 1) recv(B0, 0) BW0 wait(F0, 1) recv(B0, 1) BW0>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"::pipec::pipe::Action">:$actions);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Whether this order places transfers or waits for one.
    bool hasTransfers() const;
  }];
}
def Pipe_OrderArray : TypedArrayAttrBase<Pipe_OrderAttr, "an order for each rank">;

#endif
