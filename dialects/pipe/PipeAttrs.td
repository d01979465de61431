// Attributes: the problem of a pipeline, its links, its replicas, its shards and its jobs; orders, which are a solution of it; the
// rings of a program, layers of its stages, and windows of its instructions.

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

def Pipe_Shared : I32EnumAttr<"Shared", "what a collective sums or gathers", [
  I32EnumAttrCase<"Norm", 3, "norm">,
  I32EnumAttrCase<"Gradients", 4, "gradients">,
  I32EnumAttrCase<"Weights", 5, "weights">,
  I32EnumAttrCase<"Shared", 6, "shared">
]> {
  let cppNamespace = "::pipec::pipe";
}

def Pipe_CollectiveKind : I32EnumAttr<"CollectiveKind", "what replicas do together", [
  I32EnumAttrCase<"AllReduce", 7, "all_reduce">,
  I32EnumAttrCase<"ReduceScatter", 8, "reduce_scatter">,
  I32EnumAttrCase<"AllGather", 9, "all_gather">
]> {
  let cppNamespace = "::pipec::pipe";
}

def Pipe_Updates : I32EnumAttr<"Updates", "when weights are updated", [
  I32EnumAttrCase<"Stages", 0, "stages">,
  I32EnumAttrCase<"Layers", 1, "layers">
]> {
  let cppNamespace = "::pipec::pipe";
}

def Pipe_ShardedKind : I32EnumAttr<"ShardedKind", "what shards of a rank do together", [
  I32EnumAttrCase<"Forward", 0, "F">,
  I32EnumAttrCase<"BackwardInput", 1, "B">,
  I32EnumAttrCase<"BackwardWeight", 2, "W">,
  I32EnumAttrCase<"Backward", 3, "BW">,
  I32EnumAttrCase<"Optimizer", 6, "optimizer">,
  I32EnumAttrCase<"Recompute", 10, "R">
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
    optimizer. So do the ranks that hold a weight of `shared`, as soon as each has done the last backward of its stages that
    hold it; the optimizer steps of these stages wait for the sum.
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
                     "their last backward and for which all optimizers wait; none: there is none">:$global_norm,
    OptionalParameter<"::mlir::ArrayAttr", "weights that several layers hold, in the order in which ranks sum their gradients">:$shared);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int32_t ranks() const;
    /// The stage before (after) a stage in its copy; -1: there is none.
    int32_t before(int32_t stage) const;
    int32_t after(int32_t stage) const;
  }];
}

def Pipe_SharedWeightAttr : AttrDef<Pipe_Dialect, "SharedWeight"> {
  let mnemonic = "shared_weight";
  let summary = "a weight that several layers hold: those of the model, the stages that have them, and its gradients' bytes";
  let description = [{
    Example: `#pipe.shared_weight<layers = [0, 49], stages = [0, 3], gradients = 154000000>`
  }];
  let parameters = (ins AttrParameter<"::mlir::DenseI32ArrayAttr", "of the model; two or more, ascending">:$layers,
                        AttrParameter<"::mlir::DenseI32ArrayAttr", "that have them; ascending">:$stages,
                        AttrParameter<"int64_t", "bytes">:$gradients);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Pipe_LayersAttr : AttrDef<Pipe_Dialect, "Layers"> {
  let mnemonic = "layers";
  let summary = "some layers of a stage, counted from its first; the second number is one past the last";
  let description = [{
    Ops show it without its name: `layers 0 to 4` are the first four. Example: `#pipe.layers<0 to 4>`.
  }];
  let parameters = (ins "int32_t":$first, "int32_t":$end);
  let assemblyFormat = "`<` $first `to` $end `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = "int32_t count() const { return getEnd() - getFirst(); }";
}

def Pipe_CollectiveTimeAttr : AttrDef<Pipe_Dialect, "CollectiveTime"> {
  let mnemonic = "collective_time";
  let summary = "what a collective over replicas takes: hops times a start and a part of the bytes at a bandwidth";
  let description = [{
    `start` is in picoseconds, `bandwidth` in bytes per second; one of 0 is unlimited. A ring of 4 takes 3 hops of a
    quarter of the bytes for a half of an all-reduce. A time that was measured has one hop, of all bytes.

    Example: `#pipe.collective_time<start = 20000000, bandwidth = 12500000000, hops = 3, parts = 4>`
  }];
  let parameters = (ins Pipe_Default<"int64_t", "0", "picoseconds of a hop">:$start,
                        Pipe_Default<"int64_t", "0", "bytes per second">:$bandwidth,
                        Pipe_Default<"int32_t", "1", "how many follow each other">:$hops,
                        Pipe_Default<"int32_t", "1", "a hop has one of so many parts of the bytes">:$parts);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Pipe_LayerAttr : AttrDef<Pipe_Dialect, "Layer"> {
  let mnemonic = "layer";
  let summary = "one layer as the exchange of gradients sees it: picoseconds of its passes and its update, and bytes";
  let description = [{
    `gradients` lists its tensors in the order of the forward. `weights` is what a gather moves where replicas update their
    share of the layer, `state` what its optimizer keeps.

    Example: `#pipe.layer<forward = 10, backward = 20, update = 2, gradients = [4096, 64]>`
  }];
  let parameters = (ins Pipe_Default<"int64_t", "0", "of a microbatch">:$forward,
                        Pipe_Default<"int64_t", "0", "of a microbatch, where it is not split">:$backward,
                        Pipe_Default<"int64_t", "0", "of a microbatch">:$backward_input,
                        Pipe_Default<"int64_t", "0", "of a microbatch">:$backward_weight,
                        Pipe_Default<"int64_t", "0", "of all of it, once a step">:$update,
                        Pipe_List<"bytes, by tensor; none: it has no gradients">:$gradients,
                        Pipe_Default<"int64_t", "0", "bytes">:$weights, Pipe_Default<"int64_t", "0", "bytes">:$state);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Pipe_ReplicasAttr : AttrDef<Pipe_Dialect, "Replicas"> {
  let mnemonic = "replicas";
  let summary = "data parallelism: how many replicas each rank has, what their collectives take, and every stage's layers";
  let description = [{
    Replicas run one program, so one of them stands for all. `layers` has a list for each stage.

    ```mlir
    #pipe.replicas<degree = 4, all_reduce = <bandwidth = 1000000000, hops = 6, parts = 4>,
                   reduce_scatter = <bandwidth = 1000000000, hops = 3, parts = 4>,
                   all_gather = <bandwidth = 1000000000, hops = 3, parts = 4>,
                   layers = [[#pipe.layer<forward = 10, backward = 20, gradients = [4096]>]]>
    ```
  }];
  let parameters = (ins AttrParameter<"int32_t", "replicas of each rank">:$degree,
                        AttrParameter<"::pipec::pipe::CollectiveTimeAttr", "a sum for all replicas">:$all_reduce,
                        AttrParameter<"::pipec::pipe::CollectiveTimeAttr", "a sum of which each has a share">:$reduce_scatter,
                        AttrParameter<"::pipec::pipe::CollectiveTimeAttr", "shares handed to all">:$all_gather,
                        Pipe_Default<"bool", "true", "updates may be divided among replicas">:$may_shard,
                        Pipe_Default<"bool", "false", "collectives and transfers take turns">:$shares_port,
                        Pipe_Default<"int64_t", "0", "picoseconds of a coordinator's round">:$round,
                        Pipe_Default<"int64_t", "-1", "picoseconds of the all-reduce of a norm over all processes; -1: there is none">:$norm,
                        AttrParameter<"::mlir::ArrayAttr", "by stage, a list of layers">:$layers);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Pipe_CollectiveAttr : AttrDef<Pipe_Dialect, "Collective"> {
  let mnemonic = "collective";
  let summary = "one collective of an exchange: layers of a stage, and their bytes";
  let description = [{
    Bytes are those of the stage's gradients (of a gather behind updates of shares: of its weights), laid end to end. `rounds`
    are picoseconds of a coordinator, part of its time.

    Example: `#pipe.collective<reduce_scatter stage 0 layers 0 to 4 bytes 0 to 4096>`
  }];
  let parameters = (ins EnumParameter<Pipe_CollectiveKind>:$kind, "int32_t":$stage, "int32_t":$first, "int32_t":$end,
                        "int64_t":$begin_byte, "int64_t":$end_byte, Pipe_Default<"int64_t", "0", "picoseconds">:$rounds);
  let assemblyFormat = [{
    `<` $kind `stage` $stage `layers` $first `to` $end `bytes` $begin_byte `to` $end_byte (`rounds` $rounds^)? `>`
  }];
  let genVerifyDecl = 1;
}

def Pipe_ExchangeAttr : AttrDef<Pipe_Dialect, "Exchange"> {
  let mnemonic = "exchange";
  let summary = "how replicas sum their gradients, and when weights are updated: each rank's collectives, in order";
  let description = [{
    A solution as IR, as orders are. Its policies in a few words: `updates = stages` comes behind all sums of a rank, on its
    compute queue; else each layer is updated when it can be, on a queue of its own. `sharded`: each replica updates its share
    between reduce-scatter and all-gather. `at_end`: sums begin when all backwards of the rank are done. `barrier`: gathers
    begin when all sums are. `ahead`: the next step's forward issues the gathers, one ahead of itself. `tails`: of each rank, so
    many W at its end are cut into layers, in the order in which the next forward needs them.

    ```mlir
    #pipe.exchange<sharded = true, queues = [[#pipe.collective<reduce_scatter stage 0 layers 0 to 4 bytes 0 to 4096>,
                                              #pipe.collective<all_gather stage 0 layers 0 to 4 bytes 0 to 4096>]]>
    ```
  }];
  let parameters = (ins Pipe_DefaultEnum<Pipe_Updates, "Updates::Layers">:$updates,
                        Pipe_Default<"bool", "false", "updates are of shares">:$sharded,
                        Pipe_Default<"bool", "false", "sums begin behind all backwards">:$at_end,
                        Pipe_Default<"bool", "false", "gathers begin behind all sums">:$barrier,
                        Pipe_Default<"bool", "false", "gathers are issued by the next step">:$ahead,
                        OptionalParameter<"::mlir::DenseI32ArrayAttr", "by rank, W that are cut; none: the last of each stage">:$tails,
                        AttrParameter<"::mlir::ArrayAttr", "by rank, a list of collectives">:$queues);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Pipe_ShardedPassAttr : AttrDef<Pipe_Dialect, "ShardedPass"> {
  let mnemonic = "sharded_pass";
  let summary = "what an op of a stage takes on each shard of its rank, in picoseconds";
  let description = [{
    One that `meets` has sums between the shards: each does its own work `before` the first, then all take `cost`, in which
    each does its own work `between`, then each does what comes `after` the last. One that does not is `before` alone.

    Example: `#pipe.sharded_pass<F cost = 120, before = [40, 10], between = [80, 90], meets = true>`
  }];
  let parameters = (ins EnumParameter<Pipe_ShardedKind>:$kind,
                        Pipe_Default<"int64_t", "0", "of all, from the first sum to the last">:$cost,
                        Pipe_List<"by shard; none: 0">:$before, Pipe_List<"by shard, within the cost; none: 0">:$between,
                        Pipe_List<"by shard; none: 0">:$after, Pipe_Default<"bool", "false", "it has sums">:$meets);
  let assemblyFormat = "`<` $kind `,` struct($cost, $before, $between, $after, $meets) `>`";
  let genVerifyDecl = 1;
}

def Pipe_PortionAttr : AttrDef<Pipe_Dialect, "Portion"> {
  let mnemonic = "portion";
  let summary = "which shard has which units of a split, in some layers of a stage";
  let description = [{
    `owned` and `worked` are ranges of units, three numbers each: the shard, its first unit, how many. `kept` says by shard how
    many of the units that it works are not left out.

    Example: `#pipe.portion<split = "heads", first = 0, end = 4, units = 16, owned = [0, 0, 4, 1, 4, 12],
    worked = [0, 0, 4, 1, 4, 12], kept = [4, 12]>`
  }];
  let parameters = (ins AttrParameter<"::mlir::StringAttr", "its name">:$split,
                        AttrParameter<"int32_t", "the first layer of the stage">:$first,
                        AttrParameter<"int32_t", "one past the last">:$end, AttrParameter<"int64_t", "of the split">:$units,
                        AttrParameter<"::mlir::DenseI64ArrayAttr", "weights and optimizer state">:$owned,
                        AttrParameter<"::mlir::DenseI64ArrayAttr", "computed there">:$worked,
                        AttrParameter<"::mlir::DenseI64ArrayAttr", "by shard">:$kept);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Pipe_ShardedStageAttr : AttrDef<Pipe_Dialect, "ShardedStage"> {
  let mnemonic = "sharded_stage";
  let summary = "what each shard of a rank holds of a stage in a microbatch, what its ops take there, and its units";
  let parameters = (ins Pipe_List<"by shard, bytes; none: 0">:$activation, Pipe_List<"by shard, bytes; none: 0">:$weight_context,
                        Pipe_List<"by shard, bytes; none: 0">:$backward_context,
                        AttrParameter<"::mlir::ArrayAttr", "its ops">:$passes,
                        AttrParameter<"::mlir::ArrayAttr", "its splits">:$portions);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Pipe_ShardsAttr : AttrDef<Pipe_Dialect, "Shards"> {
  let mnemonic = "shards";
  let summary = "tensor parallelism: processes that share a rank's matrices, and what is each one's own";
  let description = [{
    Shards of a rank run one program. Lists by process have the shards of rank 0, then those of rank 1. A factor says how many
    times as long a process's own work takes, in millionths.

    ```mlir
    #pipe.shards<count = 2, factors = [4000000, 1000000], static_bytes = [512, 1536],
                 stages = [#pipe.sharded_stage<activation = [64, 192], passes = [
                   #pipe.sharded_pass<F, cost = 120, before = [40, 10], between = [80, 90], meets = true>],
                   portions = [#pipe.portion<split = "heads", first = 0, end = 4, units = 16, owned = [0, 0, 4, 1, 4, 12],
                                             worked = [0, 0, 4, 1, 4, 12], kept = [4, 12]>]>],
                 balance = "{\"name\": \"auto\"}">
    ```
  }];
  let parameters = (ins AttrParameter<"int32_t", "shards of each rank">:$count,
                        AttrParameter<"::mlir::DenseI64ArrayAttr", "by process, millionths">:$factors,
                        Pipe_List<"by process, bytes that are always held; none: 0">:$static_bytes,
                        Pipe_List<"by process, bytes of workspace; none: 0">:$workspace,
                        AttrParameter<"::mlir::ArrayAttr", "by stage">:$stages,
                        AttrParameter<"::mlir::StringAttr", "what chose the portions, as JSON">:$balance);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Pipe_JobAttr : AttrDef<Pipe_Dialect, "Job"> {
  let mnemonic = "job";
  let summary = "background work of one process, in iterations of so many atoms";
  let description = [{
    A *piece* is some atoms, one after the other, that run while the rank waits; it costs `overhead` besides.

    Example: `#pipe.job<name = "vgg", samples = 8, atoms = 340, atom = 50000000, overhead = 20000000, ranks = [0, 1]>`
  }];
  let parameters = (ins AttrParameter<"::mlir::StringAttr", "its own among the jobs">:$name,
                        AttrParameter<"int64_t", "of an iteration">:$samples, AttrParameter<"int64_t", "of an iteration">:$atoms,
                        AttrParameter<"int64_t", "picoseconds of one">:$atom,
                        Pipe_Default<"int64_t", "0", "picoseconds of a piece besides">:$overhead,
                        Pipe_Default<"int64_t", "0", "bytes on each rank that runs it">:$memory,
                        Pipe_OptionalInt<"int64_t", "atoms of a piece; none: what serves best">:$piece,
                        OptionalParameter<"::mlir::DenseI32ArrayAttr", "that may run it, ascending; none: all">:$ranks);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Pipe_JobsAttr : AttrDef<Pipe_Dialect, "Jobs"> {
  let mnemonic = "jobs";
  let summary = "background jobs for the time in which ranks wait, and what they may cost a step";
  let description = [{
    A rank runs the first that may run on it and fits its memory. In any timing a step gets no more than `slow_down` longer.

    Example: `#pipe.jobs<slow_down = 10000, work = [#pipe.job<name = "vgg", samples = 8, atoms = 340, atom = 50000000>]>`
  }];
  let parameters = (ins AttrParameter<"int64_t", "millionths of a step">:$slow_down,
                        Pipe_Default<"bool", "false", "pieces may run beside a collective of their rank">:$fills_collectives,
                        AttrParameter<"::mlir::ArrayAttr", "the jobs">:$work);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Pipe_WindowAttr : AttrDef<Pipe_Dialect, "Window"> {
  let mnemonic = "window";
  let summary = "how long, in picoseconds, pieces of a job may fill the wait of an instruction";
  let description = [{
    From when the device is free, or so long after that. Ops show it without its name: `window 5000`, `window 5000 from 20`.

    Example: `#pipe.window<5000 from 20>`
  }];
  let parameters = (ins "int64_t":$length, "int64_t":$from);
  let assemblyFormat = "`<` $length `from` $from `>`";
  let genVerifyDecl = 1;
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
