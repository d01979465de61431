// Ops of both levels. The passes of a stage (forward, backward, backward_input, backward_weight) stand at both: in a
// block of the design level, where they may have a slot (`at`), and in a program, where they have a microbatch.

#ifndef PIPEC_DIALECTS_PIPE_OPS
#define PIPEC_DIALECTS_PIPE_OPS

include "dialects/pipe/PipeAttrs.td"
include "dialects/pipe/PipeInterfaces.td"
include "dialects/pipe/PipeTypes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/RegionKindInterface.td"

//===----------------------------------------------------------------------===//
// Design level
//===----------------------------------------------------------------------===//

def Pipe_PipelineOp : Pipe_Op<"pipeline", [Symbol, IsolatedFromAbove, NoTerminator, SingleBlock, NoRegionArguments]> {
  let summary = "a problem, the building block that is repeated, and the solution where there is one";
  let description = [{
    The name of the op is the schedule's. The block holds the passes of one microbatch with their costs and sizes. `problem`
    says the rest: which rank holds which stage, how many microbatches there are, links, memory.

    What the ranks do comes from one of three:
    * the block's slots, where it has an interval: `pipe-build-schedule` repeats it for each microbatch;
    * `orders`, one `#pipe.order` a rank: a solution of the problem, as a search or an order file has it;
    * the catalogue, for schedules that are no block at one interval: its entry of the pipeline's name, with the pipeline's
      `parameters`.

    ```mlir
    pipe.pipeline @"1f1b" problem <placement = [0, 1], microbatches = 4, link = <latency 1000>> {
      pipe.block interval 3 { ... }
    }
    pipe.pipeline @found problem <placement = [0, 1], microbatches = 2> orders [
        #pipe.order<F0 F0 BW0 BW0>,
        #pipe.order<F1 BW1 F1 BW1>] {
      pipe.block { ... }
    }
    pipe.pipeline @kfkb problem <placement = [0, 1], microbatches = 8> parameters {k = 2 : i64} {
      pipe.block { ... }
    }
    ```

    With `replicas` each rank is so many processes, which sum their gradients once a step: as `exchange` says, or else by one
    all-reduce a layer. With `shards` each rank is so many processes, which share its matrices and sum their parts within
    its passes; costs and sizes of the block are then those of the shard that takes or has most. With `jobs` ranks run pieces of
    them while they wait.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Pipe_ProblemAttr:$problem, OptionalAttr<Pipe_OrderArray>:$orders,
                       OptionalAttr<DictionaryAttr>:$parameters, OptionalAttr<Pipe_ReplicasAttr>:$replicas,
                       OptionalAttr<Pipe_ExchangeAttr>:$exchange,
                       OptionalAttr<Pipe_ShardsAttr>:$shards, OptionalAttr<Pipe_JobsAttr>:$jobs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `problem` $problem (`orders` custom<Orders>($orders)^)? (`parameters` $parameters^)?
    (`replicas` $replicas^)? (`exchange` $exchange^)? (`shards` $shards^)? (`jobs` $jobs^)?
    attr-dict-with-keyword $body
  }];
  let builders = [OpBuilder<(ins "::mlir::StringAttr":$name, "ProblemAttr":$problem, "::mlir::ArrayAttr":$orders,
                                 "::mlir::DictionaryAttr":$parameters), [{
    build($_builder, $_state, name, problem, orders, parameters, ReplicasAttr(), ExchangeAttr(), ShardsAttr(),
          JobsAttr());
  }]>];
  let extraClassDeclaration = [{
    /// The one block of the body.
    ::pipec::pipe::BlockOp block();
    /// Whether its orders place the transfers.
    bool placesTransfers();
    // Short for the same of the problem.
    int32_t ranks() { return getProblem().ranks(); }
    int32_t before(int32_t stage) { return getProblem().before(stage); }
    int32_t after(int32_t stage) { return getProblem().after(stage); }
    ::llvm::ArrayRef<int32_t> getPlacement() { return getProblem().getPlacement(); }
    int32_t getMicrobatches() { return getProblem().getMicrobatches(); }
    bool getFillWeights() { return getProblem().getWeights() == ::pipec::pipe::Weights::Fill; }
  }];
}

def Pipe_BlockOp : Pipe_Op<"block", [NoTerminator, SingleBlock, NoRegionArguments, HasParent<"PipelineOp">]> {
  let summary = "the passes of one microbatch on all stages, repeated every interval";
  let description = [{
    Each pass has a start slot (`at`). Microbatch j starts each pass `interval * j` slots later than microbatch 0. No two
    passes of a rank may start in one slot modulo the interval. Values flow between the passes as the microbatch's data do.
    With `refilled`, passes move forward into the gaps at the beginning and the end where they fit, as long as no rank holds
    more than the fullest one does without that.

    A schedule that is no block at one interval (kFkB, interleaved 1F1B) has neither interval nor slots. What its ranks do
    then stands in the pipeline's `orders` or comes from the catalogue.

    Example:
    ```mlir
    pipe.block interval 3 {
      %0:3 = pipe.forward stage 0 at 0 cost 10 : () -> (!pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>)
      ...
    }
    ```
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$interval, UnitAttr:$refilled);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "(`interval` $interval^ (`refilled` $refilled^)?)? attr-dict-with-keyword $body";
}

//===----------------------------------------------------------------------===//
// Passes of a stage
//===----------------------------------------------------------------------===//

/// An op that is an instruction. `kind` is a kind of runtime/plan/Kinds.h; `own` are more methods of the interface.
class Pipe_Instruction<string mnemonic, string kind, string own, list<Trait> traits = []>
    : Pipe_Op<mnemonic, !listconcat([Pipe_InstructionOpInterface], traits)> {
  let extraClassDeclaration = "static ::pipec::plan::Kind kind() { return ::pipec::plan::Kind::" # kind # "; }" #
                              "int64_t duration() { return int64_t(getCost()); }" # own;
}

class Pipe_PassOp<string mnemonic, string kind> : Pipe_Instruction<mnemonic, kind, [{
    int32_t stage() { return int32_t(getStage()); }
    ::pipec::pipe::WindowAttr windowOfWait() { return getWindowAttr(); }
    ::pipec::pipe::LayersAttr layersOfStage() { return getLayersAttr(); }
    ::std::optional<int32_t> microbatch() {
      return getMicrobatch() ? ::std::optional(int32_t(*getMicrobatch())) : ::std::nullopt;
    }
  }]> {
  let arguments = (ins Variadic<Pipe_Value>:$inputs, I32Attr:$stage, OptionalAttr<I32Attr>:$microbatch,
                       OptionalAttr<I64Attr>:$at, I64Attr:$cost, OptionalAttr<Pipe_LayersAttr>:$layers,
                       OptionalAttr<Pipe_WindowAttr>:$window);
  let results = (outs Variadic<Pipe_Value>:$outputs);
  let assemblyFormat = [{
    (`(` $inputs^ `)`)? `stage` $stage (`microbatch` $microbatch^)? (`layers` custom<Layers>($layers)^)? (`at` $at^)?
    `cost` $cost (`window` custom<Window>($window)^)? attr-dict `:` functional-type($inputs, $outputs)
  }];
  let builders = [OpBuilder<(ins "::mlir::TypeRange":$outputs, "::mlir::ValueRange":$inputs, "::mlir::IntegerAttr":$stage,
                                 "::mlir::IntegerAttr":$microbatch, "::mlir::IntegerAttr":$at, "::mlir::IntegerAttr":$cost), [{
    build($_builder, $_state, outputs, inputs, stage, microbatch, at, cost, LayersAttr(), WindowAttr()); // all layers
  }]>];
  let extraClassDefinition = "::llvm::LogicalResult $cppClass::verify() { return verifyPass(*this); }";
}

def Pipe_ForwardOp : Pipe_PassOp<"forward", "Forward"> {
  let summary = "F: the forward of one stage and one microbatch";
  let description = [{
    Takes the tensor of the stage before (the first stage: none) and the tokens that it waits for. Yields, in this order, the
    tensor for the next stage (the last stage: none), an activation, a context, and a token where another instruction waits
    for this pass, as the next receive into the same buffer does. Where its stage is recomputed it yields an input in place
    of activation and context.

    Any pass may stand in parts, by layers of its stage. The part that runs first takes the tensor, and that which runs last
    yields the next. The first part of a forward yields activation and context; the last part of a backward takes them.

    Where its rank has a job, any pass may have a `window`: how long pieces may fill its wait, in picoseconds.

    Example:
    ```mlir
    %0:2 = pipe.forward(%recv) stage 3 microbatch 6 cost 18522000000 window 4000000000
        : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    %1:3 = pipe.forward(%0) stage 3 microbatch 7 cost 18522000000
        : (!pipe.tensor<8>) -> (!pipe.activation<4>, !pipe.context<2>, !pipe.token)
    %2:2 = pipe.forward(%gathered) stage 0 microbatch 0 layers 0 to 2 cost 6000000000
        : (!pipe.token) -> (!pipe.activation<4>, !pipe.context<2>)
    %3 = pipe.forward stage 0 microbatch 0 layers 2 to 8 cost 18000000000 : () -> !pipe.tensor<8>
    ```
  }];
}

def Pipe_RecomputeOp : Pipe_PassOp<"recompute", "Recompute"> {
  let summary = "R: the forward of one stage and one microbatch again, where it kept only its input";
  let description = [{
    Takes what its forward has kept, and yields the activation and the context that its backward needs, of which the input
    is a part. Waits for no other rank. A block with an interval gives it no slot: it stands before its backward.

    Example:
    ```mlir
    %3:2 = pipe.recompute(%input) stage 3 microbatch 7 cost 18522000000
        : (!pipe.input<8>) -> (!pipe.activation<4>, !pipe.context<2>)
    ```
  }];
}

def Pipe_BackwardInputOp : Pipe_PassOp<"backward_input", "BackwardInput"> {
  let summary = "B: the backward for the input of one stage and one microbatch";
  let description = [{
    Takes the activation of its forward, the gradient from the next stage (the last stage: none) and the tokens that it waits
    for. Yields the gradient for the stage before (the first stage: none), a context where it makes more that W needs, and a
    token where another instruction waits for this pass: the next receive into the same buffer, or a W on a queue of its own.

    Example:
    ```mlir
    %1 = pipe.backward_input(%act, %grad) stage 0 microbatch 7 cost 18086000000
        : (!pipe.activation<4>, !pipe.tensor<8>) -> (!pipe.token)
    ```
  }];
}

def Pipe_BackwardWeightOp : Pipe_PassOp<"backward_weight", "BackwardWeight"> {
  let summary = "W: the backward for the weights of one stage and one microbatch";
  let description = [{
    Takes the context of its forward, and that of its backward for the input where that yields one; runs after the latter.
    Nothing waits for it but the optimizer.

    Where the program says `fill_weights` it runs on a queue of its own, whenever the compute queue waits. It then also takes
    the token of its `pipe.backward_input`. It yields a token where the optimizer waits for it, or a forward that must not
    start before this context is free.

    Example: `pipe.backward_weight(%ctx) stage 0 microbatch 7 cost 9337000000 : (!pipe.context<2>) -> ()`
  }];
}

def Pipe_BackwardOp : Pipe_PassOp<"backward", "Backward"> {
  let summary = "BW: the fused backward of one stage and one microbatch";
  let description = [{
    B and W in one: takes the activation, the context, the gradient and tokens; yields what B yields.

    Example:
    ```mlir
    %1 = pipe.backward(%act, %ctx) stage 1 microbatch 0 cost 27423000000
        : (!pipe.activation<4>, !pipe.context<2>) -> (!pipe.tensor<8>)
    ```
  }];
}

//===----------------------------------------------------------------------===//
// Program level
//===----------------------------------------------------------------------===//

def Pipe_ProgramOp : Pipe_Op<"program", [Symbol, IsolatedFromAbove, NoTerminator, SingleBlock, NoRegionArguments,
                                         RegionKindInterface]> {
  let summary = "what one pipeline rank runs, in issue order";
  let description = [{
    `step` is one training step. A token that is taken by an op before the one that yields it is that of the step before: so a
    forward waits for what has made its weights. `enter` and `leave` are for work that crosses steps and are empty so far; `leave` would run
    before a swap, an evaluation, a checkpoint or the end. `rings` appears once slots are allocated, `job` (by its place in the
    pipeline's `jobs`) and `piece` (its atoms) once windows are open.

    Example:
    ```mlir
    pipe.program @rank0 rank 0 communicator per_edge enter {} step { ... } leave {}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I32Attr:$rank, Pipe_Communicator:$communicator,
                       OptionalAttr<DenseI32ArrayAttr>:$stages, OptionalAttr<I64Attr>:$static_bytes,
                       OptionalAttr<I64Attr>:$workspace, OptionalAttr<I64Attr>:$memory_limit,
                       OptionalAttr<Pipe_RingArray>:$rings, UnitAttr:$fill_weights,
                       OptionalAttr<I32Attr>:$copies, OptionalAttr<I32Attr>:$slices,
                       OptionalAttr<I32Attr>:$job, OptionalAttr<I64Attr>:$piece);
  let regions = (region SizedRegion<1>:$enter, SizedRegion<1>:$step, SizedRegion<1>:$leave);
  let extraClassDeclaration = [{
    static ::mlir::RegionKind getRegionKind(unsigned) { return ::mlir::RegionKind::Graph; }
  }];
  let hasRegionVerifier = 1;
  let assemblyFormat = [{
    $sym_name `rank` $rank `communicator` $communicator attr-dict-with-keyword
    `enter` $enter `step` $step `leave` $leave
  }];
}

def Pipe_OverlappedOp : Pipe_Instruction<"overlapped", "Overlapped", [{
    int32_t stage() { return forward().stage(); }
    ::pipec::pipe::WindowAttr windowOfWait() { return getWindowAttr(); }
    ForwardOp forward();
    /// A pipe.backward or pipe.backward_input.
    ::mlir::Operation *backward();
  }], [SingleBlock, NoRegionArguments]> {
  let summary = "a forward and a backward that run together";
  let description = [{
    A pair: a forward and, behind it, a fused or input backward that does not take what that forward yields. Both start when
    both can start, and end `cost` later. The cost is no less than that of the longer of the two, and no more than both one
    after the other. The results are all that the two yield.

    Example:
    ```mlir
    %3:4 = pipe.overlapped cost 25000000000 : !pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8> {
      %f:3 = pipe.forward(%2) stage 0 microbatch 7 cost 10000000000 : ...
      %b = pipe.backward(%act, %ctx, %grad) stage 3 microbatch 1 cost 20000000000 : ...
      pipe.yield %f#0, %f#1, %f#2, %b : !pipe.tensor<8>, !pipe.activation<4>, !pipe.context<2>, !pipe.tensor<8>
    }
    ```
  }];
  let arguments = (ins I64Attr:$cost, OptionalAttr<Pipe_WindowAttr>:$window);
  let results = (outs Variadic<Pipe_Value>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let hasRegionVerifier = 1; // of its cost: those of its two are verified by then
  let assemblyFormat = "`cost` $cost (`window` custom<Window>($window)^)? (`:` type($outputs)^)? attr-dict-with-keyword $body";
}

def Pipe_YieldOp : Pipe_Op<"yield", [Terminator, HasParent<"OverlappedOp">]> {
  let summary = "hands out what the two of a pair yield";
  let description = [{
    Example: `pipe.yield %0#0, %1 : !pipe.activation<4>, !pipe.tensor<8>`
  }];
  let arguments = (ins Variadic<Pipe_Value>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

class Pipe_TransferOp<string mnemonic, string kind> : Pipe_Instruction<mnemonic, kind, [{
    int32_t stage() { return int32_t(getStage()); }
    ::std::optional<int32_t> microbatch() { return int32_t(getMicrobatch()); }
    ::pipec::plan::Payload payload() {
      return getOf() == Payload::Forward ? ::pipec::plan::Payload::Forward : ::pipec::plan::Payload::Backward;
    }
    int32_t peerRank() { return int32_t(getPeer()); }
    int64_t latency() { return int64_t(getLatency()); }
    int64_t carried();
  }]> {
  let arguments = (ins Variadic<Pipe_Value>:$inputs, Pipe_Payload:$of, I32Attr:$stage, I32Attr:$microbatch, I32Attr:$peer,
                       I64Attr:$cost, I64Attr:$latency, OptionalAttr<I32Attr>:$slot);
}

def Pipe_SendOp : Pipe_TransferOp<"send", "Send"> {
  let summary = "sends a tensor to another rank";
  let description = [{
    `stage` is the sender's. The send holds its queue and the link for `cost`; the data arrive `latency` later. Its token says
    that its buffer is free. `slot` appears once slots are allocated.

    Example:
    ```mlir
    %2 = pipe.send(%1) F stage 0 microbatch 7 to 1 cost 0 latency 601000000 : (!pipe.tensor<8>) -> !pipe.token
    ```
  }];
  let results = (outs Pipe_Token:$token);
  let assemblyFormat = [{
    `(` $inputs `)` $of `stage` $stage `microbatch` $microbatch `to` $peer `cost` $cost `latency` $latency
    (`slot` $slot^)? attr-dict `:` functional-type($inputs, $token)
  }];
}

def Pipe_RecvOp : Pipe_TransferOp<"recv", "Recv"> {
  let summary = "receives a tensor from another rank";
  let description = [{
    `stage` is the receiver's. Takes the token of the pass that used its buffer before.

    Example: `%0 = pipe.recv F stage 1 microbatch 7 from 0 cost 0 latency 601000000 : () -> !pipe.tensor<8>`
  }];
  let results = (outs Pipe_Buffer:$tensor);
  let assemblyFormat = [{
    (`(` $inputs^ `)`)? $of `stage` $stage `microbatch` $microbatch `from` $peer `cost` $cost `latency` $latency
    (`slot` $slot^)? attr-dict `:` functional-type($inputs, $tensor)
  }];
}

class Pipe_CollectiveOp<string mnemonic, string kind> : Pipe_Instruction<mnemonic, kind, [{
    int32_t stage() { return getStage() ? int32_t(*getStage()) : -1; }
    ::pipec::plan::Payload payload() { return static_cast<::pipec::plan::Payload>(getOf()); }
    ::llvm::ArrayRef<int32_t> group() { return getRanks().value_or(::llvm::ArrayRef<int32_t>()); }
    int64_t carried() { return int64_t(getBytes()); }
    ::pipec::pipe::LayersAttr layersOfStage() { return getLayersAttr(); }
    int32_t replicaCount() { return int32_t(getReplicas().value_or(0)); }
    int64_t firstByte() { return int64_t(getBegin().value_or(0)); }
  }]> {
  let arguments = (ins Variadic<Pipe_Token>:$inputs, Pipe_Shared:$of, OptionalAttr<DenseI32ArrayAttr>:$ranks,
                       OptionalAttr<I32Attr>:$replicas, OptionalAttr<I32Attr>:$stage, OptionalAttr<Pipe_LayersAttr>:$layers,
                       I64Attr:$bytes, OptionalAttr<I64Attr>:$begin, I64Attr:$cost);
  let results = (outs Pipe_Token:$token);
  let assemblyFormat = [{
    $of (`over` $ranks^)? (`(` $inputs^ `:` type($inputs) `)`)? (`replicas` $replicas^)? (`stage` $stage^)?
    (`layers` custom<Layers>($layers)^)? `bytes` custom<ByteRange>($bytes, $begin) `cost` $cost attr-dict `:` type($token)
  }];
  let extraClassDefinition = "::llvm::LogicalResult $cppClass::verify() { return verifyCollective(*this); }";
}

def Pipe_AllReduceOp : Pipe_CollectiveOp<"all_reduce", "AllReduce"> {
  let summary = "a sum over all ranks, over some, or over the replicas of a rank, once a step";
  let description = [{
    Starts when all its ranks have come to it, and takes `cost` from then. A `norm` is summed over all ranks. `gradients` are
    summed `over` the ranks that hold copies of the same stages. `bytes` is what each rank adds. The first all-reduce of a rank
    takes the token of the rank's last pass or, where the program says `fill_weights`, those of its last backward and its
    last W. One behind it takes the token of the all-reduce before. The optimizer steps take the tokens of all.

    Those of `replicas` sum gradients of layers of one stage over so many processes that run the same program. `bytes` then
    says from where to where they lie in the gradients of the stage, laid end to end; with pieces, layers are those that have
    a byte in it. It takes the token of the pass that makes the last of these gradients. So do those of a stage that several
    ranks have, each with its own samples: they are `over` these ranks, and say stage, layers and bytes.

    Those of `shared` sum the gradients of a weight that layers of several ranks hold, `over` these ranks. `layers` then says
    which of the pipeline's shared weights, `bytes` where it lies in all of them, laid end to end, and `stage` the first of
    the rank that has it. It takes the tokens of the last passes of the rank's stages that hold it.

    Example:
    ```mlir
    %1 = pipe.all_reduce gradients over [0, 3](%0 : !pipe.token) bytes 4096 cost 120000000 : !pipe.token
    %2 = pipe.all_reduce norm(%1 : !pipe.token) bytes 8 cost 120000000 : !pipe.token
    %3 = pipe.all_reduce gradients(%0 : !pipe.token) replicas 8 stage 1 layers 2 to 4 bytes 4096 to 8192 cost 120000000
        : !pipe.token
    %4 = pipe.all_reduce shared over [0, 3](%0 : !pipe.token) stage 0 layers 0 to 1 bytes 0 to 4096 cost 120000000
        : !pipe.token
    ```
  }];
}

def Pipe_ReduceScatterOp : Pipe_CollectiveOp<"reduce_scatter", "ReduceScatter"> {
  let summary = "a sum over the replicas of a rank, of which each gets its share";
  let description = [{
    The first half of an all-reduce of `replicas`; an all-gather is the other.

    Example:
    ```mlir
    %1 = pipe.reduce_scatter gradients(%0 : !pipe.token) replicas 8 stage 1 layers 0 to 4 bytes 0 to 8192 cost 60000000
        : !pipe.token
    ```
  }];
}

def Pipe_AllGatherOp : Pipe_CollectiveOp<"all_gather", "AllGather"> {
  let summary = "hands each replica's share of gradients or of weights to all replicas of a rank";
  let description = [{
    Where each replica updates its share alone, an all-gather takes the tokens of these updates and hands on weights; else it
    hands on the gradients, and the update takes its token. `bytes` are then those of the weights, likewise end to end.

    Example:
    ```mlir
    %3 = pipe.all_gather weights(%2 : !pipe.token) replicas 8 stage 1 layers 0 to 2 bytes 0 to 4096 cost 60000000
        : !pipe.token
    ```
  }];
}

def Pipe_ReshardOp : Pipe_Instruction<"reshard", "Reshard", [{
    int32_t stage() { return int32_t(getStage()); }
    ::pipec::plan::Payload payload() {
      return getOf() == Payload::Forward ? ::pipec::plan::Payload::Forward : ::pipec::plan::Payload::Backward;
    }
    ::llvm::ArrayRef<int32_t> group() { return getRanks(); }
    int64_t carried() { return int64_t(getBytes()); }
  }]> {
  let summary = "hands what a stage makes of its samples to the ranks that the neighbouring stage has them on";
  let description = [{
    Where one of two neighbouring stages is on more ranks than the other, samples change ranks between them: an activation from
    `stage` to the next one, a gradient to the one before. `over` are the ranks of the wider of the two. It starts when all of them
    have come to it, and takes `cost` from then; `bytes` is the most that comes to one rank, or leaves one. It takes the token of
    the pass whose result it carries, where the rank has that pass, and the pass that goes on from there takes its token.

    Example:
    ```mlir
    %1 = pipe.reshard F stage 0 over [0, 1, 2, 3](%0 : !pipe.token) bytes 4096 cost 21000000 : !pipe.token
    ```
  }];
  let arguments = (ins Variadic<Pipe_Token>:$inputs, Pipe_Payload:$of, I32Attr:$stage, DenseI32ArrayAttr:$ranks, I64Attr:$bytes,
                       I64Attr:$cost);
  let results = (outs Pipe_Token:$token);
  let assemblyFormat = [{
    $of `stage` $stage `over` $ranks (`(` $inputs^ `:` type($inputs) `)`)? `bytes` $bytes `cost` $cost attr-dict `:` type($token)
  }];
}

def Pipe_OptimizerStepOp : Pipe_Instruction<"optimizer_step", "Optimizer", [{
    int32_t stage() { return int32_t(getStage()); }
    ::pipec::pipe::WindowAttr windowOfWait() { return getWindowAttr(); }
    ::pipec::pipe::LayersAttr layersOfStage() { return getLayersAttr(); }
  }]> {
  let summary = "the optimizer of one stage, or of some of its layers, once a step";
  let description = [{
    Runs after every backward of its stage. It takes the tokens of the rank's all-reduces, if there are any, and, where the
    program says `fill_weights`, that of the stage's last W. One of layers runs on a queue of its own, of updates, when it has
    the tokens that it takes: that of the sum or the gather of these layers. It yields a token where a gather waits for it, or a
    forward of the next step.

    Examples:
    ```mlir
    pipe.optimizer_step stage 0 cost 5000000000
    %2 = pipe.optimizer_step(%1 : !pipe.token) stage 0 layers 0 to 4 cost 300000000 : !pipe.token
    ```
  }];
  let arguments = (ins Variadic<Pipe_Token>:$inputs, I32Attr:$stage, OptionalAttr<Pipe_LayersAttr>:$layers, I64Attr:$cost,
                       OptionalAttr<Pipe_WindowAttr>:$window);
  let results = (outs Optional<Pipe_Token>:$token);
  let assemblyFormat = [{
    (`(` $inputs^ `:` type($inputs) `)`)? `stage` $stage (`layers` custom<Layers>($layers)^)? `cost` $cost
    (`window` custom<Window>($window)^)? attr-dict (`:` type($token)^)?
  }];
}

#endif
