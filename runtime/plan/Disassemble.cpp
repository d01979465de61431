// The text of a plan, and the names of instructions and queues in messages.
#include "runtime/plan/Disassemble.h"

#include "runtime/plan/Text.h"
#include "runtime/plan/Units.h"
#include "runtime/plan/Unroll.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>

namespace pipec::plan {
namespace {

/// "7", "7+t", "7-2t": a value in trip t.
std::string affine(int64_t base, int64_t stride) {
  if (stride == 0)
    return fmt::format("{}", base);
  const char *sign = stride < 0 ? "-" : "+";
  const uint64_t factor = stride < 0 ? uint64_t(0) - uint64_t(stride) : uint64_t(stride);
  return factor == 1 ? fmt::format("{}{}t", base, sign) : fmt::format("{}{}{}t", base, sign, factor);
}

/// " stage 1", " stage 1 layer 0", " stage 1 layers 0 to 3"
std::string stageText(const Operation &o) {
  std::string text = fmt::format(" stage {}", o.stage);
  if (o.layers == 1)
    text += fmt::format(" layer {}", o.firstLayer);
  else if (o.layers > 1)
    text += fmt::format(" layers {} to {}", o.firstLayer, int64_t(o.firstLayer) + o.layers - 1);
  return text;
}

/// "all_reduce gradients stage 1 layer 0 bytes 0 to 1023 group 2", "all_reduce shared weight 0 stage 3 group 0"
std::string collectiveText(const Operation &o) {
  std::string text = name(o.kind);
  if (o.of != Payload::None)
    text += fmt::format(" {}", name(o.of));
  if (isOfShared(o))
    return text + fmt::format(" weight {} stage {} group {}", o.firstLayer, o.stage, o.group);
  if (o.layers != 0 || plan::movesSamples(o.kind))
    text += stageText(o);
  if (o.layers != 0 && o.kind == Kind::AllReduce) // which may have a part of them
    text += fmt::format(" bytes {} to {}", o.begin, o.end - 1);
  if (o.group != -1)
    text += fmt::format(" group {}", o.group);
  return text;
}

std::string operationText(const Operation &o, const std::string &microbatch) {
  if (isTransfer(o.kind))
    return fmt::format("{} {} stage {} microbatch {} {} rank {}", name(o.kind), name(o.of), o.stage, microbatch,
                       plan::sends(o.kind) ? "to" : "from", o.peer);
  if (isCompute(o.kind))
    return fmt::format("{}{} microbatch {}", name(o.kind), stageText(o), microbatch);
  if (isCollective(o.kind))
    return collectiveText(o);
  return name(o.kind) + stageText(o);
}

/// The time and memory of an instruction of this operation.
std::string costText(const Operation &o, bool ofShards) {
  std::string text = ofShards && isBusy(o.kind) ? "own time" : timeText(o.cost);
  if (meets(o))
    text += fmt::format(" + {} with sums of group {}", timeText(o.cost), o.group);
  if (o.latency != 0)
    text += " + " + timeText(o.latency);
  if (isCommunication(o.kind))
    text += ", " + bytesText(o.bytes);
  const unsigned holds = rowOf(o.kind).holds;
  if (isCompute(o.kind) && o.bytes != 0)
    text += fmt::format(", input {}{}", (holds & kInput) != 0 ? "+" : "-", bytesText(o.bytes));
  if (o.activation != 0)
    text += fmt::format(", activation {}{}", (holds & kActivation) != 0 ? "+" : "-", bytesText(o.activation));
  if (o.context != 0)
    text += fmt::format(", context {}{}", (holds & kContexts) != 0 ? "+" : "-", bytesText(o.context));
  return text;
}

/// The time and memory of an instruction of this operation on one shard.
std::string ownText(const Operation &o, const OwnCost &own) {
  std::string text = timeText(own.before);
  if (meets(o))
    text += fmt::format(", between sums {}, then {}", timeText(own.between), timeText(own.after));
  if (own.activation != 0)
    text += ", activation " + bytesText(own.activation);
  if (own.context != 0)
    text += ", context " + bytesText(own.context);
  return text;
}

/// "0 to 3, 5"; "none"
std::string rangesText(const std::vector<Range> &ranges) {
  std::string text;
  for (const Range &each : ranges) {
    text += (text.empty() ? "" : ", ") + std::to_string(each.first);
    if (each.count != 1)
      text += fmt::format(" to {}", each.first + each.count - 1);
  }
  return text.empty() ? "none" : text;
}

class Writer {
public:
  std::string text;

  template <typename... Args> void line(int depth, fmt::format_string<Args...> format, Args &&...args) {
    text.append(size_t(depth) * 2, ' ');
    fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
    text += '\n';
  }

  void jobs(const Variant &v) {
    const Certificate &c = v.certificate;
    for (const Job &job : v.jobs)
      line(1, "job {}: {} samples in {} atoms of {}, {} a piece besides, memory {}", job.name, job.samples, job.atoms,
           timeText(job.atom), timeText(job.overhead), bytesText(job.memory));
    if (!v.jobs.empty())
      line(1, "delay {} a step{}, {} % promised", timeText(c.delay), c.delayProven ? " in any timing" : "",
           units::decimalText(100 * v.slowDown));
  }

  void header(const Variant &v, size_t index) {
    const Certificate &c = v.certificate;
    line(0, "variant {}{}: {} stages, {} microbatches{}{}, {}", index, v.name.empty() ? "" : " " + v.name, v.stages,
         v.microbatches, v.slices > 1 ? fmt::format(", which are slices of {}", v.microbatches / v.slices) : "",
         v.copies > 1 ? fmt::format(" in each of {} copies", v.copies) : "",
         v.memoryLimit == 0 ? "no memory limit" : "memory limit " + bytesText(v.memoryLimit));
    for (size_t stage = 0; stage != v.stageGroups.size(); ++stage)
      line(1, "stage {} of {} samples: {}", stage, v.batch,
           v.stageGroups[stage] == -1 ? "rank 0" : fmt::format("group {}", v.stageGroups[stage]));
    if (v.launchOrder)
      line(1, "transfers start in the order of issue");
    line(1, "makespan {}, at least {} ({})", timeText(c.makespan), timeText(c.lowerBound.picoseconds()), name(c.bound));
    line(1, "span {}, at least {} ({})", timeText(c.span), timeText(c.spanLowerBound.picoseconds()), name(c.spanBound));
    int32_t number = 0; // number of the layer in its stage
    for (size_t i = 0; i != v.layers.size(); ++i) {
      const Layer &layer = v.layers[i];
      number = i != 0 && v.layers[i - 1].stage == layer.stage ? number + 1 : 0;
      line(1, "layer {} of stage {}: {} of gradients{}", number, layer.stage, bytesText(layer.gradients),
           !layer.sharded                     ? ""
           : layer.weights == layer.gradients ? ", sharded"
                                              : fmt::format(", sharded, {} of weights", bytesText(layer.weights)));
    }
    for (size_t w = 0; w != v.shared.size(); ++w)
      line(1, "shared weight {} of layers {}: {} of gradients", w, fmt::join(v.shared[w].layers, " "),
           bytesText(v.shared[w].gradients));
    portions(v);
    jobs(v);
  }

  void program(const Variant &v, const Program &p) {
    std::string stages;
    for (int32_t stage : p.stages)
      stages += fmt::format(" {}", stage);
    line(1, "rank {}: stages{}, static {}, workspace {}{}, {} instructions", p.rank, stages, bytesText(p.staticBytes),
         bytesText(p.workspace), p.memoryLimit == 0 ? "" : ", memory limit " + bytesText(p.memoryLimit), executed(p));
    if (p.job >= 0)
      line(2, "job {} in pieces of {} atoms, {} with overhead", v.jobs[size_t(p.job)].name, p.piece,
           timeText(v.pieceTime(p)));
    for (int32_t shard = 0; !v.own.empty() && shard != v.shards(); ++shard)
      own(p, shard, v.own[size_t(p.rank * v.shards() + shard)]);
    const std::vector<std::string> queues = queueNames(p);
    for (size_t q = 0; q < queues.size(); ++q)
      line(2, "queue {}: {}", q, queues[q]);
    for (const Ring &ring : p.rings)
      line(2, "ring {} {}: {} x {}", ring.direction == Direction::Send ? "send to" : "recv from", ring.peer, ring.size,
           bytesText(ring.slotBytes));
    for (const Segment &segment : p.step) {
      const int depth = segment.trips == 1 ? 2 : 3;
      if (depth == 3)
        line(2, "repeat {} {{", segment.trips);
      for (uint32_t i = 0; i < segment.count; ++i)
        instruction(v, p, queues, p.instructions[segment.first + i], depth);
      if (depth == 3)
        line(2, "}}");
    }
  }

private:
  void portions(const Variant &v) {
    if (!v.balance.empty())
      line(1, "balance {}", units::escaped(v.balance));
    for (size_t i = 0; i != v.portions.size(); ++i) {
      const Portion &p = v.portions[i];
      if (p.shard == 0)
        line(1, "split {} of stage {} layers {} to {}: {} units", units::quoted(p.split), p.stage, p.firstLayer,
             int64_t(p.firstLayer) + p.layers - 1, p.units);
      line(2, "shard {} owns {}; works on {}; keeps {}", p.shard, rangesText(p.owned), rangesText(p.worked), p.kept);
    }
  }

  void own(const Program &p, int32_t shard, const Own &own) {
    line(2, "shard {}: factor {}, static {}, workspace {}", shard, units::decimalText(own.factor),
         bytesText(own.staticBytes), bytesText(own.workspace));
    for (size_t i = 0; i != own.operations.size(); ++i)
      if (const Operation &o = p.operations[i]; !isCommunication(o.kind))
        line(3, "{}{}: {}", name(o.kind), stageText(o), ownText(o, own.operations[i]));
  }

  void instruction(const Variant &v, const Program &p, const std::vector<std::string> &queues, const Instruction &i,
                   int depth) {
    const Operation &o = p.operations[i.operation];
    std::string waits;
    for (uint32_t w = 0; w < i.waits; ++w) {
      const Wait &wait = p.waits[i.firstWait + w];
      waits += fmt::format("  wait [{}]{} >= {}", queues[wait.queue], wait.previousStep ? " of the step before" : "",
                           affine(wait.base, wait.stride));
    }
    const Window window = windowOf(p, uint32_t(&i - p.instructions.data()));
    line(depth, "[{}] {}{}{}  ({})", queues[i.queue], operationText(o, affine(i.microbatch, i.microbatchStride)), waits,
         window.length == 0 ? ""
         : window.from == 0 ? "  window " + timeText(window.length)
                            : fmt::format("  window {} from {}", timeText(window.length), timeText(window.from)),
         costText(o, !v.own.empty()));
  }
};

/// The peers of a communicator's queue, and what it carries.
struct Traffic {
  int32_t peer = -1, group = -1;
  bool several = false, sends = false, receives = false, reduces = false, ofReplicas = false, ofStages = false,
       ofShared = false;

  void add(const Operation &o) {
    if (!isTransfer(o.kind)) {
      reduces = true;
      ofReplicas |= isOfLayers(o) && !isOfShared(o);
      ofShared |= isOfShared(o);
      ofStages |= plan::movesSamples(o.kind);
      group = o.group;
      return;
    }
    several |= peer != -1 && peer != o.peer;
    peer = o.peer;
    (plan::sends(o.kind) ? sends : receives) = true;
  }
  std::string name() const {
    if (ofStages && peer == -1)
      return "collectives of stages";
    if (ofReplicas && peer == -1)
      return "collectives of replicas";
    if (ofShared && peer == -1)
      return "sums of shared weights";
    if (reduces && peer == -1)
      return group == -1 ? "collectives" : fmt::format("collectives of group {}", group);
    if (several || peer == -1 || reduces)
      return "transfers";
    if (sends && receives)
      return fmt::format("link with {}", peer);
    return fmt::format("{} {}", sends ? "send to" : "recv from", peer);
  }
};

const char *nameOf(Priority priority) {
  return priority == Priority::Compute ? "compute" : priority == Priority::Updates ? "updates" : "weights";
}

} // namespace

std::string nameOf(const Place &place) {
  return fmt::format("rank {}", place.rank) + (place.degree == 1 ? "" : fmt::format(" replica {}", place.replica)) +
         (place.shards == 1 ? "" : fmt::format(" shard {}", place.shard));
}

std::string describe(const Place &place, const Operation &operation, int64_t microbatch) {
  return fmt::format("{}: {}", nameOf(place), describe(operation, microbatch));
}

std::string describe(const Operation &operation, int64_t microbatch) {
  return operationText(operation, std::to_string(microbatch));
}

std::vector<std::string> queueNames(const Program &program) {
  std::vector<Traffic> traffic(program.queues.size());
  for (const Instruction &i : program.instructions)
    if (isCommunication(program.operations[i.operation].kind))
      traffic[i.queue].add(program.operations[i.operation]);
  std::vector<std::string> names;
  names.reserve(program.queues.size());
  for (size_t q = 0; q < program.queues.size(); ++q) {
    if (program.queues[q].kind == QueueKind::Communicator)
      names.push_back(traffic[q].name());
    else
      names.push_back(nameOf(program.queues[q].priority));
  }
  return names;
}

std::string queueName(const Program &program, uint32_t queue) { return queueNames(program)[queue]; }

std::string disassemble(const Plan &plan, const DisassembleOptions &options) {
  Writer out;
  const int32_t degree = plan.degree();
  const int32_t shards = plan.shards();
  out.line(0, "plan: {} ranks, {}{}{} variants, spec {:016x}", plan.ranks(),
           degree == 1 ? "" : fmt::format("{} replicas of each, ", degree),
           shards == 1 ? "" : fmt::format("{} shards of each, ", shards), plan.variants.size(), plan.specHash);
  for (size_t g = 0; g < plan.groups.size(); ++g)
    out.line(0, "group {}: {} {}", g, gridOf(plan).each() == 1 ? "ranks" : "processes",
             fmt::join(plan.groups[g].members, " "));
  for (size_t v = 0; v < plan.variants.size(); ++v) {
    if (options.variant >= 0 && size_t(options.variant) != v)
      continue;
    out.header(plan.variants[v], v);
    for (const Program &program : plan.variants[v].programs)
      if (options.rank < 0 || options.rank == program.rank)
        out.program(plan.variants[v], program);
  }
  return std::move(out.text);
}

} // namespace pipec::plan
