// Rules P17, P18, P21 to P23 and P33: what waits may count, and how often each kind of work and each transfer is
// executed, in closed form, before anything is walked. With these the walks are bounded by stages x microbatches, so a
// flipped trip count is refused at once. A wait's count and the number of instructions issued before it both grow
// evenly with the trip, so it is enough to look at the first and the last.
#include "runtime/plan/Disassemble.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Text.h"
#include "runtime/plan/rules/Rules.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace pipec::plan::rules {
namespace {

Status waitError(const char *label, const Program &program, size_t instruction, const Wait &wait,
                 const std::string &what) {
  return Status::input(fmt::format(
      "{}: rank {}: instruction {} waits for {} of queue {}{}, {}", label, program.rank, instruction,
      wait.stride == 0 ? fmt::format("{}", wait.base) : fmt::format("{} + {} a trip", wait.base, wait.stride),
      wait.queue, wait.previousStep ? " in the step before" : "", what));
}

/// How many instructions each queue has been given: in the segments before, in one trip of this one, and in the part of
/// a trip before the instruction at hand.
struct Issued {
  std::vector<int64_t> before, trip, part;

  explicit Issued(size_t queues) : before(queues), trip(queues), part(queues) {}

  void enter(const Program &program, const Segment &segment) {
    for (uint32_t i = segment.first; i < segment.first + segment.count; ++i)
      ++trip[program.instructions[i].queue];
  }
  void leave(const Program &program, const Segment &segment) {
    for (uint32_t i = segment.first; i < segment.first + segment.count; ++i) {
      const uint32_t queue = program.instructions[i].queue;
      before[queue] += trip[queue] * int64_t(segment.trips);
      trip[queue] = part[queue] = 0;
    }
  }
  /// The instructions issued to a queue before, in the given trip.
  __int128 at(uint32_t queue, int64_t inTrip) const {
    return before[queue] + __int128(trip[queue]) * inTrip + part[queue];
  }
};

} // namespace

Status waitCounts(const Program &program, const Facts &facts) {
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction &instruction = program.instructions[i];
    for (uint32_t w = 0; w < instruction.waits; ++w) {
      const Wait &wait = program.waits[instruction.firstWait + w];
      if (wait.queue >= program.queues.size())
        return waitError("P17", program, i, wait, fmt::format("the program has {} queues", program.queues.size()));
      const __int128 last = wait.base + __int128(wait.stride) * (int64_t(facts.trips[i]) - 1);
      for (const __int128 count : {__int128(wait.base), last})
        if (count < 0 || count > facts.queue[wait.queue])
          return waitError("P17", program, i, wait, fmt::format("which executes {}", facts.queue[wait.queue]));
    }
  }
  return {};
}

Status waitOrder(const Program &program) {
  Issued issued(program.queues.size());
  for (const Segment &segment : program.step) {
    issued.enter(program, segment);
    for (uint32_t i = segment.first; i < segment.first + segment.count; ++i) {
      const Instruction &instruction = program.instructions[i];
      for (uint32_t w = 0; w < instruction.waits; ++w) {
        const Wait &wait = program.waits[instruction.firstWait + w];
        const int64_t last = int64_t(segment.trips) - 1;
        for (const int64_t trip : {int64_t(0), last})
          if (!wait.previousStep && wait.base + __int128(wait.stride) * trip > issued.at(wait.queue, trip))
            return waitError(
                "P18", program, i, wait,
                fmt::format("of which only {} are issued before it in trip {}", issued.at(wait.queue, trip), trip));
      }
      ++issued.part[instruction.queue];
    }
    issued.leave(program, segment);
  }
  return {};
}

namespace {

/// How often each kind of work is done for one stage a step; transfers by what they carry.
struct Counts {
  std::array<int64_t, kWorks> done{};      // by the rows of kWorkTable
  std::array<int64_t, 3> sends{}, recvs{}; // by payload

  void add(const Operation &o, int64_t times, const StageLayers &layers) {
    const StageLayers::Range range = layers.of(o);
    for (size_t i = 0; i != kWorks; ++i)
      if (does(o.kind, kWorkTable[i].work))
        done[i] += times * (range.end - range.first);
    if (isTransfer(o.kind))
      (plan::sends(o.kind) ? sends : recvs)[size_t(o.of)] += times;
  }
};

/// The index of a stage in a program that holds it.
size_t indexOf(const Program &program, int32_t stage) {
  return size_t(std::lower_bound(program.stages.begin(), program.stages.end(), stage) - program.stages.begin());
}

/// A row for each stage of each rank, in the order of ranks. Passes and updates are counted by layers; without replicas
/// a stage is one.
struct StageWork : Counts {
  int32_t stage = 0;
};
std::vector<StageWork> workOfStages(const Variant &variant, const std::vector<Facts> &facts,
                                    const StageLayers &layers) {
  std::vector<StageWork> work;
  for (size_t r = 0; r < variant.programs.size(); ++r) {
    const Program &program = variant.programs[r];
    const size_t first = work.size();
    for (const int32_t stage : program.stages)
      work.emplace_back().stage = stage;
    for (size_t i = 0; i < program.operations.size(); ++i)
      if (const Operation &o = program.operations[i]; !plan::movesSamples(o.kind))
        work[first + indexOf(program, o.stage)].add(o, facts[r].operation[i], layers);
  }
  return work;
}

/// Whether any stage does any of a set of works.
bool any(const std::vector<StageWork> &work, unsigned works) {
  for (const Counts &w : work)
    for (size_t i = 0; i != kWorks; ++i)
      if ((kWorkTable[i].work & works) != 0 && w.done[i] > 0)
        return true;
  return false;
}
bool anyBackward(const std::vector<StageWork> &work) { return any(work, kInputGradient | kWeightGradient); }

} // namespace

Status workCounts(const Variant &variant, const std::vector<Facts> &facts, const StageLayers &layers) {
  const std::vector<StageWork> work = workOfStages(variant, facts, layers);
  std::array<int64_t, kWorks> expected{};
  for (size_t i = 0; i != kWorks; ++i)
    if (const WorkRow &row = kWorkTable[i]; row.together == kNoWork || any(work, row.together))
      expected[i] = row.onceAStep ? 1 : variant.microbatches;
  for (const StageWork &own : work)
    for (size_t i = 0; i != kWorks; ++i) {
      if (kWorkTable[i].work == kUpdate && !layers.empty())
        continue; // P47
      const int64_t all = expected[i] * layers.count(own.stage), done = own.done[i];
      if (done != all && !(kWorkTable[i].bySomeStages && done == 0))
        return Status::check(fmt::format("P21: stage {} executes {} {}{} a step, expected {}", own.stage, done,
                                         kWorkTable[i].all, layers.empty() ? "" : " of a layer", all));
    }
  return {};
}

namespace {

/// The all-reduces of a norm or of gradients that a rank executes a step.
struct Reduces {
  const Operation *operation = nullptr;
  int64_t count = 0;
};
Reduces reducesOf(const Program &program, const Facts &facts, Payload of) {
  Reduces own;
  for (size_t i = 0; i < program.operations.size(); ++i)
    if (const Operation &o = program.operations[i]; isCollective(o.kind) && o.of == of && facts.operation[i] > 0) {
      own.operation = &o;
      own.count += facts.operation[i];
    }
  return own;
}

Status alike(const Operation &one, size_t rank, const Operation &other, size_t otherRank, const char *rule) {
  if (one.group != other.group)
    return Status::check(fmt::format("{}: rank {} reduces in group {}, rank {} in group {}", rule, rank, one.group,
                                     otherRank, other.group));
  if (one.bytes == other.bytes && one.cost == other.cost)
    return {};
  return Status::check(fmt::format("{}: rank {} reduces {} in {}, rank {} {} in {}", rule, rank, bytesText(one.bytes),
                                   timeText(one.cost), otherRank, bytesText(other.bytes), timeText(other.cost)));
}

} // namespace

Status collectives(const Variant &variant, const std::vector<Facts> &facts) {
  const Operation *first = nullptr;
  for (size_t r = 0; r < variant.programs.size(); ++r) {
    const auto [own, count] = reducesOf(variant.programs[r], facts[r], Payload::Norm);
    if (count > 1)
      return Status::check(fmt::format("P38: rank {} executes {} all-reduces a step, expected at most one", r, count));
    if (r == 0)
      first = own;
    if (!own != !first)
      return Status::check(fmt::format("P38: rank {} executes {} all-reduce a step, rank 0 {}", r, own ? "an" : "no",
                                       first ? "one" : "none"));
    if (own)
      if (Status status = alike(*own, r, *first, 0, "P38"); !status.ok())
        return status;
  }
  return {};
}

Status copySums(const Variant &variant, const std::vector<Facts> &facts) {
  if (!variant.layers.empty())
    return {}; // P47
  const bool optimizer = any(workOfStages(variant, facts, StageLayers(variant)), kUpdate);
  for (size_t r = 0; r < variant.programs.size(); ++r) {
    const int32_t partner = variant.partnerOf(int32_t(r));
    const int64_t expected = partner >= 0 && optimizer;
    const auto [own, count] = reducesOf(variant.programs[r], facts[r], Payload::Gradients);
    if (count != expected)
      return Status::check(fmt::format(
          "P41: rank {} executes {} all-reduces of its copies' gradients a step, expected {}", r, count, expected));
    if (own && size_t(partner) < r)
      if (Status status =
              alike(*own, r,
                    *reducesOf(variant.programs[size_t(partner)], facts[size_t(partner)], Payload::Gradients).operation,
                    size_t(partner), "P41");
          !status.ok())
        return status;
  }
  return {};
}

Status neighbours(const Variant &variant) {
  const std::vector<int32_t> rankOf = rankOfStages(variant);
  for (const Program &program : variant.programs)
    for (const Operation &o : program.operations) {
      if (!isTransfer(o.kind))
        continue;
      // Activations go to the next stage, gradients to the one before.
      const bool up = (plan::sends(o.kind)) == (o.of == Payload::Forward);
      const int32_t other = up ? variant.after(o.stage) : variant.before(o.stage);
      if (other < 0)
        return Status::check(fmt::format("P22: {}: there is no stage {} stage {}", describe(program.rank, o, 0),
                                         up ? "after" : "before", o.stage));
      if (rankOf[size_t(other)] != o.peer)
        return Status::check(
            fmt::format("P22: {}: stage {} is on rank {}", describe(program.rank, o, 0), other, rankOf[size_t(other)]));
    }
  return {};
}

Status transferCounts(const Variant &variant, const std::vector<Facts> &facts) {
  const std::vector<int32_t> rankOf = rankOfStages(variant);
  const std::vector<StageWork> rows = workOfStages(variant, facts, StageLayers(variant));
  std::vector<Counts> work(size_t(variant.stages));
  for (const StageWork &own : rows)
    work[size_t(own.stage)] = own;
  const int64_t m = variant.microbatches, backwards = anyBackward(rows) ? m : 0;
  constexpr auto kForward = size_t(Payload::Forward), kBackward = size_t(Payload::Backward);
  for (size_t s = 0; s + 1 < work.size(); ++s) {
    const bool apart = !variant.sharesStages() && variant.after(int32_t(s)) >= 0 && rankOf[s] != rankOf[s + 1]; // P57
    const auto check = [&](const char *what, size_t stage, int64_t found, int64_t expected) {
      return found == (apart ? expected : 0)
                 ? Status{}
                 : Status::check(fmt::format("P23: rank {} executes {} {} stage {} a step, expected {}", rankOf[stage],
                                             found, what, stage, apart ? expected : 0));
    };
    for (Status status :
         {check("send F", s, work[s].sends[kForward], m), check("recv F", s + 1, work[s + 1].recvs[kForward], m),
          check("send B", s + 1, work[s + 1].sends[kBackward], backwards),
          check("recv B", s, work[s].recvs[kBackward], backwards)})
      if (!status.ok())
        return status;
  }
  return {};
}

namespace {

/// What the passes of a stage hold for each microbatch. An activation and a context are F's, or R's where there is one.
struct Held {
  __int128 activation = 0, context = 0, backwardContext = 0, input = 0;
  bool again = false; // there is an R
};
/// As Program::stages.
std::vector<Held> heldByStages(const Program &program, const Facts &facts) {
  std::vector<Held> held(program.stages.size());
  for (size_t i = 0; i < program.operations.size(); ++i)
    if (const Operation &o = program.operations[i]; isCompute(o.kind) && facts.operation[i] > 0) {
      const unsigned own = rowOf(o.kind).holds;
      Held &its = held[indexOf(program, o.stage)];
      its.activation = std::max(its.activation, bytesOf(o, own & kActivation));
      its.context = std::max(its.context, bytesOf(o, own & kContext));
      its.backwardContext = std::max(its.backwardContext, bytesOf(o, own & kBackwardContext));
      its.input = std::max(its.input, bytesOf(o, own & kInput));
      its.again |= does(o.kind, kRecomputation);
    }
  return held;
}

/// Whether an operation takes what all of its kind take; a part may take nothing.
bool takesAlike(const Operation &o, const Held &held) {
  const unsigned taken = takes(o.kind, held.again);
  for (const auto &[memory, bytes] : {std::pair(kActivation, held.activation), std::pair(kContext, held.context),
                                      std::pair(kBackwardContext, held.backwardContext), std::pair(kInput, held.input)})
    if ((taken & memory) != 0 && bytesOf(o, memory) != bytes && !(o.layers != 0 && bytesOf(o, memory) == 0))
      return false;
  return true;
}

/// What an operation releases that its stage does not hold; empty: nothing. A part may release nothing.
std::string wrongRelease(const Operation &o, const Held &held) {
  const unsigned frees = rowOf(o.kind).frees;
  const bool more = (frees & kBackwardContext) != 0 && held.backwardContext != 0;
  const char *maker = held.again ? "R holds" : "F holds";
  const struct {
    Memory memory;
    const char *name, *holder;
    __int128 bytes;
  } all[] = {{kInput, "input", "F holds", held.input},
             {kActivation, "activation", maker, held.activation},
             {kContext, "context",
              !more        ? maker
              : held.again ? "R and B hold"
                           : "F and B hold",
              held.context + (more ? held.backwardContext : 0)}};
  for (const auto &[memory, name, holder, bytes] : all)
    if ((frees & memory) != 0 && bytesOf(o, memory) != bytes && !(o.layers != 0 && bytesOf(o, memory) == 0))
      return fmt::format("{} of stage {} releases {} of {}, its {} {}", plan::name(o.kind), o.stage,
                         bytesText(Bytes(bytesOf(o, memory))), name, holder,
                         bytesText(Bytes(std::min<__int128>(bytes, limits::kBytes))));
  return {};
}

} // namespace

namespace {

/// What a shard holds, in place of what is not its own; all ranks' programs without what they execute.
Variant heldByShard(const Variant &variant, int32_t shard) {
  Variant made;
  made.stages = variant.stages;
  made.copies = variant.copies;
  for (const Program &program : variant.programs) {
    Program &own = made.programs.emplace_back();
    own.rank = program.rank;
    own.stages = program.stages;
    for (const Operation &o : program.operations)
      own.operations.push_back(operationOf(variant, size_t(program.rank * variant.shards() + shard), o));
  }
  return made;
}

Status releasedBy(const Variant &variant, const std::vector<Facts> &facts, const std::string &shard) {
  const bool backwards = anyBackward(workOfStages(variant, facts, StageLayers(variant)));
  for (const Program &program : variant.programs) {
    const std::vector<Held> held = heldByStages(program, facts[size_t(program.rank)]);
    for (size_t i = 0; i != program.operations.size(); ++i) {
      const Operation &o = program.operations[i];
      if (!isCompute(o.kind))
        continue; // P11: it holds nothing
      const Held &its = held[indexOf(program, o.stage)];
      const auto error = [&](const std::string &what) {
        return Status::check(fmt::format("P33: rank {}{}: {}", program.rank, shard, what));
      };
      if (const std::string wrong = wrongRelease(o, its); !wrong.empty())
        return error(wrong);
      const auto holds = [&](const char *what) {
        return error(fmt::format("{} of stage {} holds {}", name(o.kind), o.stage, what));
      };
      if (its.again && does(o.kind, kForwardPass) && bytesOf(o, kActivation | kContext) != 0)
        return holds("what its R makes");
      if (!its.again && isCompute(o.kind) && o.bytes != 0)
        return holds("an input for an R that there is not");
      if (!variant.layers.empty() && facts[size_t(program.rank)].operation[i] > 0 && !takesAlike(o, its))
        return holds("another size than others of its kind");
      if (!backwards && bytesOf(o, kActivation | kContext) != 0)
        return holds("memory that nothing releases");
    }
  }
  return {};
}

} // namespace

Status released(const Variant &variant, const std::vector<Facts> &facts) {
  if (variant.own.empty())
    return releasedBy(variant, facts, "");
  for (int32_t shard = 0; shard != variant.shards(); ++shard)
    if (Status status = releasedBy(heldByShard(variant, shard), facts, fmt::format(" shard {}", shard)); !status.ok())
      return status;
  return {};
}

} // namespace pipec::plan::rules
