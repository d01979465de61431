// Types: what flows between passes. Sizes in bytes stand in the type.

#ifndef PIPEC_DIALECTS_PIPE_TYPES
#define PIPEC_DIALECTS_PIPE_TYPES

include "dialects/pipe/PipeDialect.td"

class Pipe_SizedType<string cppName, string typeMnemonic, string what> : TypeDef<Pipe_Dialect, cppName> {
  let mnemonic = typeMnemonic;
  let summary = what;
  let parameters = (ins "int64_t":$bytes);
  let assemblyFormat = "`<` $bytes `>`";
  let genVerifyDecl = 1;
}

def Pipe_Buffer : Pipe_SizedType<"Buffer", "tensor", "what a stage sends on: a boundary activation or its gradient"> {
  let description = [{Example: `!pipe.tensor<16777216>` is a tensor of 16 MiB at the boundary between two stages.}];
}
def Pipe_Activation : Pipe_SizedType<"Activation", "activation", "what F keeps until the backward for the input ends"> {
  let description = [{Held from the start of F (or of R) to the end of B (or of the fused backward). Example: `!pipe.activation<1024>`.}];
}
def Pipe_Context : Pipe_SizedType<"Context", "context", "what F keeps until the backward for the weights ends"> {
  let description = [{Held from the start of F (or of R) to the end of W (or of the fused backward). Example: `!pipe.context<1024>`.}];
}
def Pipe_Input : Pipe_SizedType<"Input", "input", "what F keeps, where it is done again, until that begins"> {
  let description = [{Held from the start of F to the start of R, in whose activation or context it is then. Example:
    `!pipe.input<1024>`.}];
}

def Pipe_Token : TypeDef<Pipe_Dialect, "Token"> {
  let mnemonic = "token";
  let summary = "a transfer buffer is free again";
  let description = [{A wait that carries no data: what takes a token starts after what yields it has ended. For a transfer
    buffer, the last user yields it (a send, or the pass that consumes what was received), and the next user of the same slot
    takes it. Weight backwards on a queue of their own, collectives and updates of layers yield tokens too. What takes a token
    before it is yielded takes that of the step before.}];
}

def Pipe_Value : AnyTypeOf<[Pipe_Buffer, Pipe_Activation, Pipe_Context, Pipe_Input, Pipe_Token]>;

#endif
