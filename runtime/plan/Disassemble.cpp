// Plan → text, and the names of instructions and queues in messages.
#include "runtime/plan/Disassemble.h"

#include "runtime/plan/Text.h"

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

std::string operationText(const Operation &o, const std::string &microbatch) {
  if (isTransfer(o.kind))
    return fmt::format("{} {} stage {} microbatch {} {} rank {}", name(o.kind), name(o.of), o.stage, microbatch,
                       o.kind == Kind::Send ? "to" : "from", o.peer);
  if (isCompute(o.kind))
    return fmt::format("{} stage {} microbatch {}", name(o.kind), o.stage, microbatch);
  if (isCollective(o.kind))
    return fmt::format("{}{}{}", name(o.kind), o.of == Payload::None ? "" : fmt::format(" {}", name(o.of)),
                       o.group == -1 ? "" : fmt::format(" group {}", o.group));
  return fmt::format("{} stage {}", name(o.kind), o.stage);
}

/// What an instruction of this operation takes and holds.
std::string costText(const Operation &o) {
  std::string text = timeText(o.cost);
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

class Writer {
public:
  std::string text;

  template <typename... Args> void line(int depth, fmt::format_string<Args...> format, Args &&...args) {
    text.append(size_t(depth) * 2, ' ');
    fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
    text += '\n';
  }

  void header(const Variant &v, size_t index) {
    const Certificate &c = v.certificate;
    line(0, "variant {}{}: {} stages, {} microbatches{}{}, {}", index, v.name.empty() ? "" : " " + v.name, v.stages,
         v.microbatches, v.slices > 1 ? fmt::format(", which are slices of {}", v.microbatches / v.slices) : "",
         v.copies > 1 ? fmt::format(" in each of {} copies", v.copies) : "",
         v.memoryLimit == 0 ? "no memory limit" : "memory limit " + bytesText(v.memoryLimit));
    if (v.launchOrder)
      line(1, "transfers start in the order of issue");
    line(1, "makespan {}, at least {} ({})", timeText(c.makespan), timeText(c.lowerBound), name(c.bound));
    line(1, "span {}, at least {} ({})", timeText(c.span), timeText(c.spanLowerBound), name(c.spanBound));
  }

  void program(const Program &p) {
    std::string stages;
    for (int32_t stage : p.stages)
      stages += fmt::format(" {}", stage);
    line(1, "rank {}: stages{}, static {}, workspace {}{}, {} instructions", p.rank, stages, bytesText(p.staticBytes),
         bytesText(p.workspace), p.memoryLimit == 0 ? "" : ", memory limit " + bytesText(p.memoryLimit), executed(p));
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
        instruction(p, queues, p.instructions[segment.first + i], depth);
      if (depth == 3)
        line(2, "}}");
    }
  }

private:
  void instruction(const Program &p, const std::vector<std::string> &queues, const Instruction &i, int depth) {
    const Operation &o = p.operations[i.operation];
    std::string waits;
    for (uint32_t w = 0; w < i.waits; ++w) {
      const Wait &wait = p.waits[i.firstWait + w];
      waits += fmt::format("  wait [{}]{} >= {}", queues[wait.queue], wait.previousStep ? " of the step before" : "",
                           affine(wait.base, wait.stride));
    }
    line(depth, "[{}] {}{}  ({})", queues[i.queue], operationText(o, affine(i.microbatch, i.microbatchStride)), waits,
         costText(o));
  }
};

/// Who a communicator's queue talks to, and how.
struct Traffic {
  int32_t peer = -1, group = -1;
  bool several = false, sends = false, receives = false, reduces = false;

  void add(const Operation &o) {
    if (!isTransfer(o.kind)) {
      reduces = true;
      group = o.group;
      return;
    }
    several |= peer != -1 && peer != o.peer;
    peer = o.peer;
    (o.kind == Kind::Send ? sends : receives) = true;
  }
  std::string name() const {
    if (reduces && peer == -1)
      return group == -1 ? "collectives" : fmt::format("collectives of group {}", group);
    if (several || peer == -1 || reduces)
      return "transfers";
    if (sends && receives)
      return fmt::format("link with {}", peer);
    return fmt::format("{} {}", sends ? "send to" : "recv from", peer);
  }
};

} // namespace

std::string describe(int32_t rank, const Operation &operation, int64_t microbatch) {
  return fmt::format("rank {}: {}", rank, operationText(operation, std::to_string(microbatch)));
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
      names.push_back(program.queues[q].priority == Priority::Compute ? "compute" : "weights");
  }
  return names;
}

std::string queueName(const Program &program, uint32_t queue) { return queueNames(program)[queue]; }

std::string disassemble(const Plan &plan, const DisassembleOptions &options) {
  Writer out;
  out.line(0, "plan: {} ranks, {} variants, spec {:016x}", plan.ranks(), plan.variants.size(), plan.specHash);
  for (size_t g = 0; g < plan.groups.size(); ++g)
    out.line(0, "group {}: ranks {}", g, fmt::join(plan.groups[g].members, " "));
  for (size_t v = 0; v < plan.variants.size(); ++v) {
    if (options.variant >= 0 && size_t(options.variant) != v)
      continue;
    out.header(plan.variants[v], v);
    for (const Program &program : plan.variants[v].programs)
      if (options.rank < 0 || options.rank == program.rank)
        out.program(program);
  }
  return std::move(out.text);
}

} // namespace pipec::plan
