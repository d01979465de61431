// Rules P17 and P18: what a wait may name, over all trips of its segment at once. A count and the number of
// instructions issued before both grow evenly with the trip, so it is enough to look at the first and the last.
#include "runtime/plan/Disassemble.h"
#include "runtime/plan/Rules.h"

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

} // namespace pipec::plan::rules
