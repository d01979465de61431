// The table, and suggestions from it.
#include "compiler/spec/Keys.h"

#include "compiler/spec/Diagnostic.h"
#include "runtime/plan/Limits.h"

#include <algorithm>
#include <deque>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>

namespace pipec::spec {
namespace {

using namespace limits;

/// The key of a figure in the map at `map`.
Key keyOf(const plan::FigureRow &row, std::string_view map, plan::FigureOwner owner) {
  static std::deque<std::string> texts; // of keys, which hold views
  const auto text = [](std::string made) -> std::string_view { return texts.emplace_back(std::move(made)); };
  const bool ofLayer = owner == plan::kOfLayers;
  Key key{.path = text(fmt::format("{}.{}", map, row.key)),
          .type = row.unit == plan::FigureUnit::Time ? Type::Duration : Type::Size};
  key.description = helpOf(row, owner);
  key.fallback = owner != plan::kOfStages && !row.fallbackOfLayer.empty() ? row.fallbackOfLayer : row.fallback;
  key.perSample = row.bySample;
  key.bySamples = ofLayer && row.byLocalBatch;
  key.perTensor = key.mayBeEmpty = ofLayer && row.byTensor;
  key.required = owner == plan::kOfSplits && row.isNeeded;
  if (ofLayer && row.isNeeded)
    key.fallback = "none; with splits 0ms";
  if (owner != plan::kOfStages)
    return key;
  key.perStage = true;
  key.figure = row.figure;
  if (row.figure == plan::Figure::Static)
    key.byLayer = "layers[].weights, gradients and optimizer_state";
  else if (row.besideLayers)
    key.byLayer =
        (row.owners & plan::kOfLayers) == 0 ? "one value for all stages" : text(fmt::format("layers[].{}", row.key));
  return key;
}

/// Inserts the keys of figures of a unit, `first` to `last`, behind the key at `path`. They stand in the map at `map`.
void insertFigures(std::vector<Key> &keys, std::string_view path, std::string_view map, plan::FigureOwner owner,
                   std::optional<plan::FigureUnit> unit = std::nullopt, plan::Figure first = plan::Figure::Forward,
                   plan::Figure last = plan::Figure::Optimizer) {
  auto at = std::find_if(keys.begin(), keys.end(), [&](const Key &key) { return key.path == path; });
  for (const plan::FigureRow &row : plan::kFigureTable)
    if (row.figure >= first && row.figure <= last && !helpOf(row, owner).empty() && row.unit == unit.value_or(row.unit))
      at = keys.insert(at + 1, keyOf(row, map, owner));
}

/// All keys but those of figures.
std::vector<Key> otherKeys() {
  return {
      {.path = "pipec",
       .type = Type::Integer,
       .description = "Version of this format",
       .fallback = "1",
       .least = 1,
       .most = 1},

      {.path = "pipeline", .description = "The shape of the pipeline", .required = true},
      {.path = "pipeline.ranks",
       .type = Type::Integer,
       .description = "Places in the pipeline",
       .required = true,
       .least = 1,
       .most = kRanks},
      {.path = "pipeline.stages_per_rank",
       .type = Type::Integer,
       .description = "Chunks on each rank; of a bidirectional placement, of each copy",
       .fallback = "what the schedule fixes, else 1",
       .least = 1,
       .most = kStages},
      {.path = "pipeline.placement",
       .type = Type::Placement,
       .description = "Which rank holds which stages: a name, or for each rank the list of its stages",
       .fallback = "what the schedule fixes, else loop",
       .choices = {"loop", "v", "bidirectional"}},
      {.path = "pipeline.microbatches",
       .type = Type::Integer,
       .description = "Microbatches of one replica and step",
       .least = 1,
       .most = kMicrobatches},
      {.path = "pipeline.batch",
       .type = Type::Integer,
       .description = "Samples of one replica and step; with microbatch_size in place of microbatches, of burst "
                      "alone",
       .least = 1,
       .most = kTime},
      {.path = "pipeline.microbatch_size",
       .type = Type::Integer,
       .description = "Samples of one microbatch",
       .least = 1,
       .most = kTime},
      {.path = "pipeline.slices",
       .type = Type::Integer,
       .description =
           "Slices along the sequence of which a microbatch is cut, each of them taking this part of its times "
           "and sizes; for seq1f1b and gpipe",
       .fallback = "1",
       .least = 1,
       .most = kMicrobatches},
      {.path = "pipeline.cut",
       .type = Type::Integers,
       .description = "How many of the layers go to each stage; auto: what makes the schedule's plan the shortest that "
                      "fits into memory",
       .fallback = "equal",
       .least = 1,
       .most = kLayers,
       .choices = {"auto"}},

      {.path = "costs", .description = "Times of one stage and one microbatch"},
      {.path = "costs.optimizer.time",
       .type = Type::Duration,
       .description = "Optimizer, once a stage and step",
       .perStage = true,
       .required = true},
      {.path = "costs.optimizer.global_norm",
       .type = Type::Boolean,
       .description = "Adds the all-reduce that clipping or a loss scale needs",
       .fallback = "false"},
      {.path = "costs.link", .description = "Default of every directed pair of ranks"},
      {.path = "costs.link.latency",
       .type = Type::Duration,
       .description = "From the end of the wire's use to the arrival",
       .fallback = "0ms"},
      {.path = "costs.link.bandwidth",
       .type = Type::Bandwidth,
       .description = "Bytes a second, or unlimited",
       .fallback = "unlimited"},
      {.path = "costs.links", .type = Type::Maps, .description = "Exceptions, each of one directed pair of ranks"},
      {.path = "costs.links[].from",
       .type = Type::Integer,
       .description = "Sending rank",
       .required = true,
       .least = 0,
       .most = kRanks - 1},
      {.path = "costs.links[].to",
       .type = Type::Integer,
       .description = "Receiving rank",
       .required = true,
       .least = 0,
       .most = kRanks - 1},
      {.path = "costs.links[].latency",
       .type = Type::Duration,
       .description = "From the end of the wire's use to the arrival",
       .fallback = "that of link"},
      {.path = "costs.links[].bandwidth",
       .type = Type::Bandwidth,
       .description = "Bytes a second, or unlimited",
       .fallback = "that of link"},
      {.path = "costs.collective",
       .type = Type::Choice,
       .description =
           "Of burst: how ranks sum up gradients, a ring with 2(n-1) latencies or a tree with 2 ceil(log2 n)",
       .fallback = "ring",
       .choices = {"ring", "tree"}},

      {.path = "tensors", .description = "Sizes of one stage and one microbatch"},
      {.path = "tensors.workspace",
       .type = Type::Size,
       .description = "Scratch of the largest operation, once a rank",
       .fallback = "0B",
       .perSample = true},

      {.path = "layers",
       .type = Type::Maps,
       .description =
           "The model from first to last layer, in place of costs and tensors by stage: a stage's are the sums "
           "over its layers"},
      {.path = "layers[].name", .type = Type::Name, .description = "For people"},
      {.path = "layers[].count",
       .type = Type::Integer,
       .description = "So many layers of this kind",
       .fallback = "1",
       .least = 1,
       .most = kLayers},

      {.path = "layers[].splits",
       .type = Type::Maps,
       .description = "Parts of the layer, in the order of the forward, each made of equal units that any shard of a "
                      "rank may compute and ended by a sum over the shards; the layer's own costs and sizes are what "
                      "every shard has beside them"},
      {.path = "layers[].splits[].name",
       .type = Type::Name,
       .description = "Its name, once in a layer",
       .required = true},
      {.path = "layers[].splits[].units",
       .type = Type::Integer,
       .description = "Equal parts of which it is made: heads; columns of one matrix, each with its row of the next",
       .required = true,
       .least = 1,
       .most = kUnits},
      {.path = "layers[].splits[].sum",
       .type = Type::Size,
       .description = "What the shards add up when it ends, forward and backward",
       .fallback = "0B",
       .perSample = true},

      {.path = "shared",
       .type = Type::Maps,
       .description =
           "Weights that several layers hold; ranks that have one between them sum its gradients once a step"},
      {.path = "shared[].layers",
       .type = Type::Integers,
       .description = "The layers that hold it, two or more, from 0; without layers, its stages",
       .required = true,
       .most = kLayers - 1},
      {.path = "shared[].gradients",
       .type = Type::Size,
       .description = "Bytes of its gradients, which each rank adds; part of those of each of its layers",
       .required = true,
       .least = 1},

      {.path = "memory", .description = "Memory of one rank"},
      {.path = "memory.limit",
       .type = Type::Size,
       .description = "At most so many bytes on a rank, everything counted",
       .fallback = "no limit",
       .perRank = true,
       .least = 1},

      {.path = "schedule",
       .type = Type::Schedule,
       .description = "A name, or a map of a name and the schedule's parameters; pipec schedules lists the catalogue's",
       .required = true},
      {.path = "schedule.name",
       .type = Type::Text,
       .description =
           "Name in the catalogue; auto: what a search finds; order: what a file says; block: the spec's own; burst: "
           "each layer on as many ranks as pay",
       .required = true},
      {.path = "schedule.objective",
       .type = Type::Choice,
       .description = "Of auto: which time is to be short",
       .fallback = "span",
       .choices = {"span", "makespan"}},
      {.path = "schedule.file",
       .type = Type::Text,
       .description =
           "Of order: an order file of torch.distributed.pipelining, relative to the spec, each stage's "
           "microbatches in their order (all backwards may come from the last to the first); with slices its "
           "microbatches are slices, of a bidirectional placement the second copy's stages go on from the "
           "first's"},
      {.path = "schedule.interval",
       .type = Type::Integer,
       .description =
           "Of block: slots from one microbatch to the next; at both ends of a step passes move into time in which "
           "their rank would wait, where no rank then holds more than the fullest one does",
       .least = 1,
       .most = kTime},
      {.path = "schedule.forward",
       .type = Type::Integers,
       .description = "Of block: the first microbatch's start slots, one a stage: F",
       .most = kTime},
      {.path = "schedule.backward_input",
       .type = Type::Integers,
       .description = "Of block: B, the same way",
       .most = kTime},
      {.path = "schedule.backward_weight",
       .type = Type::Integers,
       .description = "Of block: W, the same way",
       .most = kTime},
      {.path = "schedule.backward",
       .type = Type::Integers,
       .description = "Of block: fused backwards, in place of backward_input and backward_weight",
       .most = kTime},
      {.path = "schedule.foreground",
       .type = Type::Decimal,
       .description =
           "Of burst: the least speed, as a part of that with every layer on all ranks; of the plans that keep "
           "it, the one that keeps ranks least",
       .fallback = "100%",
       .percent = true,
       .least = 1,
       .most = kWholePart},
      {.path = "schedule.amplification",
       .type = Type::Decimal,
       .description =
           "Of burst, in place of foreground: the limit of DeepPool's planner, how many times the work of one "
           "rank a layer may cost all of its ranks",
       .least = kWholePart,
       .most = kAmplification},
      {.path = "schedule.widths",
       .type = Type::Integer,
       .description = "Of burst, in place of foreground: on how many ranks layers run, each or all of them",
       .perLayer = true,
       .least = 1,
       .most = kRanks},
      {.path = "schedule.sync",
       .type = Type::Choice,
       .description = "Of burst: gradients are summed up as backwards end, or one stage's after the other at the end",
       .fallback = "overlap",
       .choices = {"overlap", "end"}},
      {.path = "schedule.choices",
       .type = Type::Choice,
       .description = "Of burst: a layer's ranks are a power of two, or any number",
       .fallback = "powers",
       .choices = {"powers", "all"}},
      {.path = "backward",
       .type = Type::Choice,
       .description =
           "Whether B and W run as one operation or apart; mixed: a W that stands right behind its B runs with "
           "it, as one, where the predicted time does not rise",
       .fallback = "what the schedule fixes",
       .choices = {"fused", "split", "mixed"}},
      {.path = "recompute",
       .type = Type::Integers,
       .description = "Stages that run their forward again right before the backward, in place of keeping what it "
                      "makes; auto: those with which the plan is the shortest that fits into memory",
       .fallback = "none",
       .mayBeEmpty = true,
       .most = kStages - 1,
       .choices = {"none", "all", "auto"}},
      {.path = "weights",
       .type = Type::Choice,
       .description = "ordered: W stands in the word, on the compute queue; fill: on the weights queue",
       .fallback = "ordered",
       .choices = {"ordered", "fill"}},
      {.path = "communicator",
       .type = Type::Choice,
       .description =
           "How the target queues its transfers: each direction of two ranks by itself; the two together; by "
           "itself, but transfers of a rank start in the order of issue, as with NCCL on GPUs; all of a rank "
           "together",
       .fallback = "per_edge",
       .choices = {"per_edge", "per_pair", "launch_order", "shared"}},
      {.path = "rings",
       .type = Type::Choice,
       .description = "Transfers for which there are buffers: predicted: those that the predicted run has in flight at "
                      "once; any: those that any timing has, as far as memory.limit leaves room",
       .fallback = "any where there are variants, else predicted",
       .choices = {"predicted", "any"}},

      {.path = "data_parallel", .description = "Replicas of the pipeline, and how they exchange gradients"},
      {.path = "data_parallel.degree",
       .type = Type::Integer,
       .description = "How many",
       .fallback = "1",
       .least = 1,
       .most = kRanks},
      {.path = "data_parallel.link",
       .description = "From one replica of a rank to the next: collectives go round as rings, all-reduce in "
                      "2 (degree - 1) hops, either half of it in degree - 1, each of a latency and 1/degree of the "
                      "bytes"},
      {.path = "data_parallel.link.latency", .type = Type::Duration, .description = "Of a hop", .fallback = "0ms"},
      {.path = "data_parallel.link.bandwidth",
       .type = Type::Bandwidth,
       .description = "Bytes a second, or unlimited",
       .fallback = "unlimited"},
      {.path = "data_parallel.costs",
       .description = "What collectives take by measurement, in place of link: a start, and the bytes of the whole "
                      "tensor at a bandwidth"},
      {.path = "data_parallel.costs.all_reduce",
       .description = "An all-reduce",
       .fallback = "both halves, one after the other"},
      {.path = "data_parallel.costs.all_reduce.start",
       .type = Type::Duration,
       .description = "Of any size",
       .fallback = "0ms"},
      {.path = "data_parallel.costs.all_reduce.bandwidth",
       .type = Type::Bandwidth,
       .description = "Bytes a second, or unlimited",
       .fallback = "unlimited"},
      {.path = "data_parallel.costs.reduce_scatter",
       .description = "A reduce-scatter",
       .fallback = "half of all_reduce"},
      {.path = "data_parallel.costs.reduce_scatter.start",
       .type = Type::Duration,
       .description = "Of any size",
       .fallback = "0ms"},
      {.path = "data_parallel.costs.reduce_scatter.bandwidth",
       .type = Type::Bandwidth,
       .description = "Bytes a second, or unlimited",
       .fallback = "unlimited"},
      {.path = "data_parallel.costs.all_gather", .description = "An all-gather", .fallback = "half of all_reduce"},
      {.path = "data_parallel.costs.all_gather.start",
       .type = Type::Duration,
       .description = "Of any size",
       .fallback = "0ms"},
      {.path = "data_parallel.costs.all_gather.bandwidth",
       .type = Type::Bandwidth,
       .description = "Bytes a second, or unlimited",
       .fallback = "unlimited"},
      {.path = "data_parallel.port",
       .type = Type::Choice,
       .description = "own: collectives have a port of their own; shared: they and a rank's transfers take turns",
       .fallback = "own",
       .choices = {"own", "shared"}},
      {.path = "data_parallel.policy",
       .type = Type::Choice,
       .description = "What is exchanged when: auto, or as one of the published systems does",
       .fallback = "auto",
       .choices = {"auto", "none", "wfbp", "mg-wfbp", "ddp", "horovod", "bytescheduler", "dear", "dear-queue"}},
      {.path = "data_parallel.policy.name",
       .type = Type::Choice,
       .description = "Its name",
       .required = true,
       .choices = {"auto", "none", "wfbp", "mg-wfbp", "ddp", "horovod", "bytescheduler", "dear", "dear-queue"}},
      {.path = "data_parallel.policy.bundle",
       .type = Type::Size,
       .description =
           "Of ddp, horovod, dear and dear-queue: the size at which a bundle is closed; of the last two best "
           "tries sizes, 0B is a layer each",
       .fallback = "25MiB; of horovod 64MiB; of dear and dear-queue best",
       .choices = {"best"}},
      {.path = "data_parallel.policy.first",
       .type = Type::Size,
       .description = "Of ddp: the size at which the first bundle is closed",
       .fallback = "1MiB"},
      {.path = "data_parallel.policy.cycle",
       .type = Type::Duration,
       .description = "Of horovod: how often what is ready is looked for",
       .fallback = "1ms"},
      {.path = "data_parallel.policy.piece",
       .type = Type::Size,
       .description = "Of bytescheduler: the most that goes at once",
       .fallback = "16MB",
       .least = 1},
      {.path = "data_parallel.policy.credit",
       .type = Type::Size,
       .description = "Of bytescheduler: the most that has been handed over and not arrived",
       .fallback = "64MB",
       .least = 1},
      {.path = "data_parallel.collective",
       .type = Type::Choice,
       .description =
           "Gradients are summed by all-reduce, or decoupled, by a reduce-scatter and an all-gather; auto: by "
           "cost, for each bundle",
       .fallback = "what the policy fixes, else auto",
       .choices = {"auto", "all_reduce", "decoupled"}},
      {.path = "data_parallel.fusion",
       .type = Type::Size,
       .description =
           "Layers that share a collective: none; those next to each other while they are below a size; auto: "
           "by what the step then takes",
       .fallback = "what the policy fixes, else auto",
       .least = 1,
       .choices = {"auto", "none"}},
      {.path = "data_parallel.shard",
       .type = Type::Choice,
       .description = "optimizer: of decoupled layers each replica updates its share alone, and keeps state for that "
                      "alone",
       .fallback = "optimizer; of the published policies none",
       .choices = {"optimizer", "none", "gradients", "weights"}},
      {.path = "data_parallel.round",
       .type = Type::Duration,
       .description = "Of the coordinator that horovod and bytescheduler ask before each collective",
       .fallback = "1ms"},

      {.path = "tensor_parallel", .description = "Shards of each rank: processes that share its matrices"},
      {.path = "tensor_parallel.shards",
       .type = Type::Integer,
       .description = "How many; 1: splits are plain time",
       .fallback = "1",
       .least = 1,
       .most = kRanks},
      {.path = "tensor_parallel.link",
       .description = "From one shard of a rank to the next: sums go round as rings, in 2 (shards - 1) hops, each of a "
                      "latency and 1/shards of the bytes"},
      {.path = "tensor_parallel.link.latency", .type = Type::Duration, .description = "Of a hop", .fallback = "0ms"},
      {.path = "tensor_parallel.link.bandwidth",
       .type = Type::Bandwidth,
       .description = "Bytes a second, or unlimited",
       .fallback = "unlimited"},
      {.path = "tensor_parallel.sequence",
       .type = Type::Boolean,
       .description = "Between splits each shard has its part of the sequence: an all-gather before a split and a "
                      "reduce-scatter behind it in place of its sum; transfers carry 1/shards",
       .fallback = "false"},
      {.path = "tensor_parallel.slow", .type = Type::Maps, .description = "Shards that take longer"},
      {.path = "tensor_parallel.slow[].rank",
       .type = Type::Integer,
       .description = "Its rank",
       .required = true,
       .least = 0,
       .most = kRanks - 1},
      {.path = "tensor_parallel.slow[].shard",
       .type = Type::Integer,
       .description = "Which of its shards",
       .required = true,
       .least = 0,
       .most = kRanks - 1},
      {.path = "tensor_parallel.slow[].factor",
       .type = Type::Decimal,
       .description = "How many times as long its own work takes",
       .required = true,
       .least = 1,
       .most = kFactor},
      {.path = "tensor_parallel.balance",
       .type = Type::Choice,
       .description = "Which shard owns, works and keeps which units: auto: what takes the least time; even; migrate: "
                      "owned equally, worked where it takes the least time; resize: what a slow shard has no time for "
                      "is left out; semi: part of what migrate moves is left out in place",
       .fallback = "auto",
       .choices = {"auto", "even", "migrate", "resize", "semi"}},
      {.path = "tensor_parallel.balance.name",
       .type = Type::Choice,
       .description = "Its name",
       .required = true,
       .choices = {"auto", "even", "migrate", "resize", "semi"}},
      {.path = "tensor_parallel.balance.most",
       .type = Type::Decimal,
       .description = "Of auto: the part of a split's units that may be left out, no more than bring the rank back to "
                      "its healthy time",
       .fallback = "0",
       .least = 0,
       .most = kWholePart - 1},
      {.path = "tensor_parallel.balance.gamma",
       .type = Type::Decimal,
       .description = "Of resize: the part that is left out, of every shard whose factor is above 1; auto: what brings "
                      "each shard back to the reference",
       .fallback = "auto",
       .least = 0,
       .most = kWholePart - 1,
       .choices = {"auto"}},
      {.path = "tensor_parallel.balance.reference",
       .type = Type::Choice,
       .description = "Of resize: the least or the mean of the shards' own times",
       .fallback = "least",
       .choices = {"least", "mean"}},
      {.path = "tensor_parallel.balance.impute",
       .type = Type::Choice,
       .description = "Of resize: what the gradients of units that are left out are taken to be",
       .fallback = "zero",
       .choices = {"zero", "average", "same"}},
      {.path = "tensor_parallel.balance.priority",
       .type = Type::Choice,
       .description = "Of resize: which units are kept: those whose weights changed most, any, the first",
       .fallback = "change",
       .choices = {"change", "random", "first"}},
      {.path = "tensor_parallel.balance.part",
       .type = Type::Decimal,
       .description = "Of semi: the part of what migrate moves that stays and is left out",
       .fallback = "0.5",
       .least = 0,
       .most = kWholePart},

      {.path = "jobs", .description = "Background work, of which a rank does pieces while it waits"},
      {.path = "jobs.slow_down",
       .type = Type::Decimal,
       .description = "How much longer a step may get, in any timing",
       .fallback = "1%",
       .percent = true,
       .least = 1,
       .most = kWholePart},
      {.path = "jobs.collectives",
       .type = Type::Choice,
       .description = "quiet: no piece beside a collective of its rank; fill: beside them too",
       .fallback = "quiet",
       .choices = {"quiet", "fill"}},
      {.path = "jobs.work",
       .type = Type::Maps,
       .description = "The jobs, each of one process; a rank runs the first that may run on it and fits its memory",
       .required = true},
      {.path = "jobs.work[].name",
       .type = Type::Text,
       .description = "Its name, once among the jobs: at most 64 letters, digits, '-', '_' and '.'",
       .required = true},
      {.path = "jobs.work[].samples",
       .type = Type::Integer,
       .description = "Samples of an iteration",
       .required = true,
       .least = 1,
       .most = kTime},
      {.path = "jobs.work[].atoms",
       .type = Type::Integer,
       .description = "Atoms of an iteration: between two of them the job can rest",
       .required = true,
       .least = 1,
       .most = kAtoms},
      {.path = "jobs.work[].atom",
       .type = Type::Duration,
       .description = "What an atom takes",
       .required = true,
       .least = 1},
      {.path = "jobs.work[].overhead",
       .type = Type::Duration,
       .description = "What a piece, which is some atoms that run to their end, takes besides",
       .fallback = "0ms"},
      {.path = "jobs.work[].memory",
       .type = Type::Size,
       .description = "What a rank that runs it holds besides",
       .fallback = "0B"},
      {.path = "jobs.work[].ranks",
       .type = Type::Integers,
       .description = "Ranks that may run it",
       .fallback = "all",
       .most = kRanks - 1},
      {.path = "jobs.work[].piece",
       .type = Type::Duration,
       .description = "Length of a piece without its overhead, a multiple of atom",
       .fallback = "what serves best"},
      {.path = "jobs.work[].provider", .type = Type::Free, .description = "Handed to the job's library as it stands"},

      {.path = "variants",
       .type = Type::Variants,
       .description =
           "Partial specs laid over this one, compiled into one plan, the first runs first; or one parameter of "
           "the schedule with a list of its values, one a variant"},
      {.path = "provider", .type = Type::Free, .description = "Handed to the stage library as it stands"},
  };
}

const std::vector<Key> &table() {
  static const std::vector<Key> keys = [] {
    using plan::Figure, plan::FigureUnit;
    std::vector<Key> all = otherKeys();
    insertFigures(all, "costs", "costs", plan::kOfStages, FigureUnit::Time);
    insertFigures(all, "tensors.workspace", "tensors", plan::kOfStages, FigureUnit::Bytes, Figure::Gradients);
    insertFigures(all, "tensors", "tensors", plan::kOfStages, FigureUnit::Bytes, Figure::Forward,
                  Figure::RecomputeInput);
    insertFigures(all, "layers[].count", "layers[]", plan::kOfLayers);
    insertFigures(all, "layers[].splits[].units", "layers[].splits[]", plan::kOfSplits);
    return all;
  }();
  return keys;
}

/// Edits (insert, remove, replace) that make one word of the other.
size_t distance(std::string_view from, std::string_view to) {
  std::vector<size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= from.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= to.size(); ++j) {
      size_t replaced = diagonal + (from[i - 1] != to[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

} // namespace

std::span<const Key> keys() { return table(); }

const Key *findKey(std::string_view path) {
  auto at = std::find_if(table().begin(), table().end(), [&](const Key &key) { return key.path == path; });
  return at == table().end() ? nullptr : &*at;
}

std::vector<const Key *> keysOf(std::string_view path) {
  std::vector<const Key *> result;
  for (const Key &key : table())
    if (key.parent() == path)
      result.push_back(&key);
  return result;
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> words) {
  constexpr size_t kLongest = 64; // no key is near to what is longer
  std::string_view best;
  if (word.size() > kLongest)
    return best;
  size_t least = word.size() <= 3 ? 2 : std::max<size_t>(3, word.size() / 3 + 1);
  for (std::string_view known : words)
    if (size_t edits = distance(word, known); edits < least && edits < std::max(word.size(), known.size())) {
      least = edits;
      best = known;
    }
  return best;
}

std::string unknownKey(std::string_view path, std::string_view name) {
  std::vector<std::string_view> known;
  for (const Key *key : keysOf(path))
    known.push_back(key->name());
  if (std::string_view near = nearest(name, known); !near.empty())
    return fmt::format("unknown key; did you mean '{}'?", near);
  for (const Key &key : table())
    if (key.name() == name && key.path.find('[') == std::string_view::npos)
      return fmt::format("unknown key; did you mean '{}'?", key.path);
  return fmt::format("unknown key; known here: {}", fmt::join(known, ", "));
}

} // namespace pipec::spec
