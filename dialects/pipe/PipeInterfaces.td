// Interfaces: what every instruction of a rank can be asked, so that nobody lists the ops.

#ifndef PIPEC_DIALECTS_PIPE_INTERFACES
#define PIPEC_DIALECTS_PIPE_INTERFACES

include "mlir/IR/OpBase.td"

def Pipe_InstructionOpInterface : OpInterface<"InstructionOpInterface"> {
  let description = [{
    What a rank does: a pass of a stage, a transfer, a collective, an optimizer step. Its kind is a row of
    `runtime/plan/Kinds.h`, which says all that a kind is; what differs from one instruction of a kind to the next is here.
  }];
  let cppNamespace = "::pipec::pipe";
  let methods = [
    StaticInterfaceMethod<"Its row of the table of kinds.", "::pipec::plan::Kind", "kind">,
    InterfaceMethod<"Picoseconds.", "int64_t", "duration">,
    InterfaceMethod<"Its stage; of a transfer, the one on its rank. -1: it is of none.", "int32_t", "stage", (ins), "",
                    "return -1;">,
    InterfaceMethod<"Its microbatch. None: it is of none, or stands in a block.", "::std::optional<int32_t>", "microbatch",
                    (ins), "", "return ::std::nullopt;">,
    InterfaceMethod<"What a pass gives, or a transfer or a collective carries.", "::pipec::plan::Payload", "payload",
                    (ins), "", "return ::pipec::plan::rowOf($_op.kind()).gives;">,
    InterfaceMethod<"The other rank of a transfer. -1: there is none.", "int32_t", "peerRank", (ins), "", "return -1;">,
    InterfaceMethod<"The ranks that take part in a collective, ascending. Empty: all.", "::llvm::ArrayRef<int32_t>", "group",
                    (ins), "", "return {};">,
    InterfaceMethod<"Picoseconds from the end of its cost to the arrival of the data: of a transfer.", "int64_t", "latency",
                    (ins), "", "return 0;">,
    InterfaceMethod<"Bytes that it carries: of a transfer, or a rank's part in a collective.", "int64_t", "carried", (ins),
                    "", "return 0;">
  ];
}

#endif
