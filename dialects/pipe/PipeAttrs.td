// Attributes: directions, communicators, links, rings, orders.

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

def Pipe_Communicator : I32EnumAttr<"Communicator", "what shares a transfer queue", [
  I32EnumAttrCase<"PerEdge", 0, "per_edge">,
  I32EnumAttrCase<"PerPair", 1, "per_pair">,
  I32EnumAttrCase<"Shared", 2, "shared">
]> {
  let cppNamespace = "::pipec::pipe";
}

def Pipe_Letter : I32EnumAttr<"Letter", "a kind of pass of a stage, as an order names it", [
  I32EnumAttrCase<"F", 0>,
  I32EnumAttrCase<"B", 1>,
  I32EnumAttrCase<"W", 2>,
  I32EnumAttrCase<"BW", 3>
]> {
  let cppNamespace = "::pipec::pipe";
  let genSpecializedAttr = 0;
}

def Pipe_LinkAttr : AttrDef<Pipe_Dialect, "Link"> {
  let mnemonic = "link";
  let summary = "one directed pair of ranks: latency in picoseconds, bandwidth in bytes per second (0: unlimited)";
  let description = [{Example: `#pipe.link<0 to 1 latency 20000000 bandwidth 12500000000>`. From and to are -1 in a default.}];
  let parameters = (ins "int32_t":$from, "int32_t":$to, "int64_t":$latency, "int64_t":$bandwidth);
  let assemblyFormat = "`<` $from `to` $to `latency` $latency `bandwidth` $bandwidth `>`";
  let genVerifyDecl = 1;
}

def Pipe_RingAttr : AttrDef<Pipe_Dialect, "Ring"> {
  let mnemonic = "ring";
  let summary = "the transfer buffers of one direction with one peer: slots, and the bytes of one";
  let description = [{Example: `#pipe.ring<send 1 slots 2 bytes 16777216>`: the n-th send to rank 1 uses slot n mod 2.}];
  let parameters = (ins "bool":$sends, "int32_t":$peer, "int32_t":$slots, "int64_t":$bytes);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}
def Pipe_RingArray : TypedArrayAttrBase<Pipe_RingAttr, "rings">;

def Pipe_OrderAttr : AttrDef<Pipe_Dialect, "Order"> {
  let mnemonic = "order";
  let summary = "what one rank does in a step, in order";
  let description = [{
    A solution as IR: the passes of one rank, each a letter and a stage. `F` is a forward, `B` a backward for the input, `W` one
    for the weights, `BW` both in one. An order names no microbatches: those of one stage and letter are taken in order, from 0
    (backwards of a group from its last). The last rank of 1F1B with three microbatches, and a rank of two stages with split
    backwards:

    ```mlir
    #pipe.order<F3 BW3 F3 BW3 F3 BW3>
    #pipe.order<F0 F2 F0 B2 W2 F2 B0 B2 W0 W2 B0 W0>
    ```

    A forward and a backward in parentheses are a pair that runs at once: `(F0 BW3)`.

    An order may place the rank's transfers too, as PyTorch's `compute_comms` files do: `send(F0, 1)` sends on what F of stage 0
    gave of microbatch 1, `recv(F1, 1)` receives it for F of stage 1; `send(B1, 1)` and `recv(B0, 1)` do the same for its
    gradient. A transfer waits for the pass before it in the order. What stands behind `wait(F0, 1)` waits until `send(F0, 1)`
    has ended. Where no order of a pipeline has a transfer, `pipe-insert-communication` places them.

    ```mlir
    #pipe.order<F0 send(F0, 0) F0 send(F0, 1) recv(B0, 0) BW0 wait(F0, 1) recv(B0, 1) BW0>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"::pipec::pipe::Action">:$actions);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Whether it places transfers, or waits for one.
    bool hasTransfers() const;
  }];
}
def Pipe_OrderArray : TypedArrayAttrBase<Pipe_OrderAttr, "an order for each rank">;
def Pipe_LinkArray : TypedArrayAttrBase<Pipe_LinkAttr, "links">;

#endif
