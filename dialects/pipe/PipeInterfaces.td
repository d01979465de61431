// Interfaces: what every instruction of a rank can be asked, so that nobody lists the ops.

#ifndef PIPEC_DIALECTS_PIPE_INTERFACES
#define PIPEC_DIALECTS_PIPE_INTERFACES

include "mlir/IR/OpBase.td"

def Pipe_InstructionOpInterface : OpInterface<"InstructionOpInterface"> {
  let description = [{
    What a rank does: a pass of a stage, a transfer, a collective, an optimizer step. What all instructions of a kind have in
    common stands in the kind's row of `runtime/plan/Kinds.h`; here is what differs between them.
  }];
  let cppNamespace = "::pipec::pipe";
  let methods = [
    StaticInterfaceMethod<"Its row of the table of kinds.", "::pipec::plan::Kind", "kind">,
    InterfaceMethod<"Picoseconds.", "int64_t", "duration">,
    InterfaceMethod<"Its stage; for a transfer, the one on its rank. -1: it has none.", "int32_t", "stage", (ins), "",
                    "return -1;">,
    InterfaceMethod<"Its microbatch. None: it has none, or stands in a block.", "::std::optional<int32_t>", "microbatch",
                    (ins), "", "return ::std::nullopt;">,
    InterfaceMethod<"What a pass makes for its neighbour, or a transfer or a collective carries.", "::pipec::plan::Payload",
                    "payload", (ins), "", "return ::pipec::plan::rowOf($_op.kind()).gives;">,
    InterfaceMethod<"The other rank of a transfer. -1: there is none.", "int32_t", "peerRank", (ins), "", "return -1;">,
    InterfaceMethod<"The ranks that take part in a collective, ascending. Empty: all.", "::llvm::ArrayRef<int32_t>", "group",
                    (ins), "", "return {};">,
    InterfaceMethod<"For a transfer: picoseconds from the end of its cost to the arrival of the data. Else 0.", "int64_t",
                    "latency", (ins), "", "return 0;">,
    InterfaceMethod<"Bytes that a transfer carries, or that a rank adds to a collective. Else 0.", "int64_t", "carried", (ins),
                    "", "return 0;">,
    InterfaceMethod<"How long pieces of a job may fill its wait. Null: they may not.", "::pipec::pipe::WindowAttr",
                    "windowOfWait", (ins), "", "return {};">,
    InterfaceMethod<"The layers of its stage that it is about, where these are not all. Null: it is about all.",
                    "::pipec::pipe::LayersAttr", "layersOfStage", (ins), "", "return {};">,
    InterfaceMethod<"For a collective of replicas: how many take part. Else 0.", "int32_t", "replicaCount", (ins), "",
                    "return 0;">,
    InterfaceMethod<"For a collective of replicas: where its bytes begin in all those of the stage. Else 0.", "int64_t",
                    "firstByte", (ins), "", "return 0;">
  ];
}

#endif
