// Attributes: directions, communicators, links, rings.

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
def Pipe_WordArray : TypedArrayAttrBase<DenseI32ArrayAttr, "a word for each rank">;
def Pipe_LinkArray : TypedArrayAttrBase<Pipe_LinkAttr, "links">;

#endif
