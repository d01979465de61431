// The table, and suggestions from it.
#include "compiler/spec/Keys.h"

#include "compiler/spec/Diagnostic.h"
#include "runtime/plan/Limits.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>

namespace pipec::spec {
namespace {

using namespace limits;

const std::vector<Key> &table() {
  static const std::vector<Key> keys = {
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
       .description = "Samples of one replica and step; with microbatch_size in place of microbatches",
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
      {.path = "costs.forward",
       .type = Type::Duration,
       .description = "Forward",
       .perStage = true,
       .into = &Spec::forward,
       .ofLayers = true,
       .perSample = true},
      {.path = "costs.backward_input",
       .type = Type::Duration,
       .description = "Backward for the input",
       .perStage = true,
       .intoOptional = &Spec::backwardInput,
       .ofLayers = true,
       .perSample = true},
      {.path = "costs.backward_weight",
       .type = Type::Duration,
       .description = "Backward for the weights",
       .perStage = true,
       .intoOptional = &Spec::backwardWeight,
       .ofLayers = true,
       .perSample = true},
      {.path = "costs.backward",
       .type = Type::Duration,
       .description = "Fused backward, in place of backward_input and backward_weight or beside them",
       .perStage = true,
       .intoOptional = &Spec::backward,
       .ofLayers = true,
       .perSample = true},
      {.path = "costs.recompute",
       .type = Type::Duration,
       .description = "The forward again, where a stage is recomputed",
       .fallback = "forward",
       .perStage = true,
       .intoOptional = &Spec::recompute,
       .ofLayers = true,
       .perSample = true},
      {.path = "costs.overlapped",
       .type = Type::Duration,
       .description =
           "The forward together with a whole backward on its rank, where the schedule runs the two at once "
           "(dualpipe, dualpipe-v, auto, OVERLAP_F_B in an order file): no less than the longer of the two, no more "
           "than one after the other",
       .fallback = "one after the other",
       .perStage = true,
       .intoOptional = &Spec::overlapped,
       .byLayer = "one value for all stages",
       .perSample = true},
      {.path = "costs.optimizer",
       .type = Type::Duration,
       .description = "Optimizer, once a stage and step; with layers, what a stage takes beside its layers",
       .fallback = "0ms",
       .perStage = true,
       .into = &Spec::optimizer,
       .ofLayers = true,
       .byLayer = "layers[].optimizer"},
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

      {.path = "tensors", .description = "Sizes of one stage and one microbatch"},
      {.path = "tensors.boundary",
       .type = Type::Size,
       .description = "What a stage sends on",
       .fallback = "0B",
       .perStage = true,
       .into = &Spec::boundary,
       .ofLayers = true,
       .byLayer = "layers[].boundary",
       .perSample = true},
      {.path = "tensors.activation",
       .type = Type::Size,
       .description = "Net bytes freed when B ends",
       .fallback = "0B",
       .perStage = true,
       .into = &Spec::activation,
       .ofLayers = true,
       .perSample = true},
      {.path = "tensors.weight_context",
       .type = Type::Size,
       .description = "Bytes kept until W ends; with a fused backward until that ends",
       .fallback = "0B",
       .perStage = true,
       .into = &Spec::weightContext,
       .ofLayers = true,
       .perSample = true},
      {.path = "tensors.backward_context",
       .type = Type::Size,
       .description = "Bytes that a split backward for the input makes, kept until W ends; a whole backward makes none",
       .fallback = "0B",
       .perStage = true,
       .into = &Spec::backwardContext,
       .ofLayers = true,
       .perSample = true},
      {.path = "tensors.recompute_input",
       .type = Type::Size,
       .description = "Where a stage is recomputed, bytes kept from the forward until it has run again, in place of "
                      "activation and weight_context",
       .fallback = "the boundary that it receives; of stage 0, 0B",
       .perStage = true,
       .intoOptional = &Spec::recomputeInput,
       .ofLayers = true,
       .perSample = true},
      {.path = "tensors.workspace",
       .type = Type::Size,
       .description = "Scratch of the largest operation, once a rank",
       .fallback = "0B",
       .perSample = true},
      {.path = "tensors.gradients",
       .type = Type::Size,
       .description = "What data parallelism reduces, and the copies of a bidirectional placement; part of static",
       .fallback = "0B",
       .perStage = true,
       .into = &Spec::gradients,
       .ofLayers = true},
      {.path = "tensors.static",
       .type = Type::Size,
       .description = "Weights, gradients, optimizer state: always there; with layers, what a stage holds beside the "
                      "weights, gradients and optimizer state of its layers",
       .fallback = "0B",
       .perStage = true,
       .into = &Spec::staticBytes,
       .ofLayers = true,
       .byLayer = "layers[].weights, gradients and optimizer_state"},

      {.path = "layers",
       .type = Type::Maps,
       .description =
           "The model from first to last layer, in place of costs and tensors by stage: a stage's are the sums "
           "over its layers"},
      {.path = "layers[].name", .type = Type::Text, .description = "For people"},
      {.path = "layers[].count",
       .type = Type::Integer,
       .description = "So many layers of this kind",
       .fallback = "1",
       .least = 1,
       .most = kLayers},
      {.path = "layers[].forward",
       .type = Type::Duration,
       .description = "Forward",
       .perSample = true,
       .required = true},
      {.path = "layers[].backward_input",
       .type = Type::Duration,
       .description = "Backward for the input",
       .perSample = true},
      {.path = "layers[].backward_weight",
       .type = Type::Duration,
       .description = "Backward for the weights",
       .perSample = true},
      {.path = "layers[].backward",
       .type = Type::Duration,
       .description = "Fused backward, in place of backward_input and backward_weight or beside them",
       .perSample = true},
      {.path = "layers[].recompute",
       .type = Type::Duration,
       .description = "The forward again, where its stage is recomputed",
       .fallback = "forward",
       .perSample = true},
      {.path = "layers[].boundary",
       .type = Type::Size,
       .description = "What a stage that ends with this layer sends on",
       .fallback = "tensors.boundary",
       .perSample = true},
      {.path = "layers[].activation",
       .type = Type::Size,
       .description = "Net bytes freed when B ends",
       .fallback = "0B",
       .perSample = true},
      {.path = "layers[].weight_context",
       .type = Type::Size,
       .description = "Bytes kept until W ends; with a fused backward until that ends",
       .fallback = "0B",
       .perSample = true},
      {.path = "layers[].backward_context",
       .type = Type::Size,
       .description = "Bytes that a split backward for the input makes, kept until W ends; a whole backward makes none",
       .fallback = "0B",
       .perSample = true},
      {.path = "layers[].recompute_input",
       .type = Type::Size,
       .description =
           "Its part of what a stage that is recomputed keeps; where no layer gives any, the stage keeps the "
           "boundary that it receives",
       .fallback = "0B",
       .perSample = true},
      {.path = "layers[].weights",
       .type = Type::Size,
       .description = "Weights; added to the stage's static bytes",
       .fallback = "0B"},
      {.path = "layers[].gradients",
       .type = Type::Size,
       .description = "What data parallelism reduces, in all or by tensor, in the order of the forward; added to the "
                      "stage's static bytes",
       .fallback = "0B",
       .perTensor = true},
      {.path = "layers[].optimizer_state",
       .type = Type::Size,
       .description = "What the optimizer keeps; added to the stage's static bytes",
       .fallback = "0B"},
      {.path = "layers[].optimizer",
       .type = Type::Duration,
       .description = "The layer's part of its stage's optimizer, once a step",
       .fallback = "0ms"},

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
           "Name in the catalogue; auto: what a search finds; order: what a file says; block: the spec's own",
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

      {.path = "variants",
       .type = Type::Variants,
       .description =
           "Partial specs laid over this one, compiled into one plan, the first runs first; or one parameter of "
           "the schedule with a list of its values, one a variant"},
      {.path = "provider", .type = Type::Free, .description = "Handed to the stage library as it stands"},
  };
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
