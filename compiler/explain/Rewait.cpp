#include "compiler/explain/Rewait.h"

#include "runtime/plan/HandOvers.h"

#include <algorithm>
#include <map>
#include <utility>

namespace pipec::emit {

using plan::Direction;
using plan::Instruction;
using plan::Kind;
using plan::Operation;
using plan::Wait;

namespace {

class Rewait {
public:
  explicit Rewait(plan::Program &program)
      : program(program), handed(program), exchanges(plan::exchangeQueues(program)), queues(program.queues.size()) {}

  void run() {
    place();
    collectRings();
    std::vector<Wait> old = std::move(program.waits);
    program.waits.clear();
    inStep.assign(queues * queues, 0);
    before.assign(queues * queues, 0);
    for (uint32_t i = 0; i != program.instructions.size(); ++i) {
      Instruction &instruction = program.instructions[i];
      const uint32_t first = std::exchange(instruction.firstWait, uint32_t(program.waits.size()));
      const uint32_t count = std::exchange(instruction.waits, 0);
      // The header of an overlapped pair waits for what either of its two needs.
      const uint32_t last = i + (plan::isHeader(of(i).kind) ? 2 : 0);
      for (uint32_t each = i; each <= last; ++each)
        data(each, instruction);
      for (uint32_t w = first; w != first + count; ++w)
        if (plan::isApart(program, exchanges, of(i).kind, old[w]))
          wait(instruction, {old[w].queue, old[w].base}, old[w].previousStep);
      for (uint32_t each = i; each <= last; ++each)
        reuse(each, instruction);
      for (; i != last; ++i)
        program.instructions[i + 1].firstWait = uint32_t(program.waits.size());
    }
  }

private:
  struct Place {
    uint32_t queue = 0;
    int64_t ordinal = 0; // in its queue, from 1; 0: nowhere
  };
  struct Uses {
    std::vector<uint32_t> transfers;
    uint32_t size = 1;
  };

  const Operation &of(uint32_t i) const { return program.operations[program.instructions[i].operation]; }
  Place placeOf(uint32_t i) const { return {program.instructions[i].queue, ordinals[i]}; }

  void place() {
    std::vector<int64_t> count(queues);
    for (const Instruction &instruction : program.instructions)
      ordinals.push_back(++count[instruction.queue]);
  }

  void collectRings() {
    for (const plan::Ring &ring : program.rings)
      rings[{ring.peer, ring.direction == Direction::Send}].size = ring.size;
    inRing.resize(program.instructions.size());
    for (uint32_t i = 0; i != program.instructions.size(); ++i)
      if (plan::isTransfer(of(i).kind)) {
        Uses &uses = rings[{of(i).peer, plan::sends(of(i).kind)}];
        inRing[i] = uses.transfers.size();
        uses.transfers.push_back(i);
      }
  }

  void data(uint32_t i, Instruction &waiting) {
    if (const uint32_t made = handed.from[i]; made != kNone)
      wait(waiting, placeOf(made), false);
  }

  /// A send buffer is taken by the pass that fills it, and free when the send ends. A receive buffer is taken by the
  /// receive, and free when the pass ends that takes what is in it.
  void reuse(uint32_t i, Instruction &waiting) {
    const uint32_t transfer = plan::receives(of(i).kind) ? i : handed.to[i];
    if (transfer == kNone)
      return;
    const Uses &uses = rings.at({of(transfer).peer, plan::sends(of(transfer).kind)});
    const size_t n = inRing[transfer], all = uses.transfers.size();
    const bool previousStep = n < uses.size;
    const uint32_t user = uses.transfers[previousStep ? n + (all - 1 - n) / uses.size * uses.size : n - uses.size];
    if (plan::sends(of(user).kind))
      wait(waiting, placeOf(user), previousStep);
    else if (handed.to[user] != kNone)
      wait(waiting, placeOf(handed.to[user]), previousStep);
  }

  /// Adds a wait, unless an earlier one of this queue covers it.
  void wait(Instruction &instruction, Place on, bool previousStep) {
    if (on.ordinal == 0 || on.queue == instruction.queue)
      return;
    int64_t &covered = (previousStep ? before : inStep)[instruction.queue * queues + on.queue];
    if (covered >= on.ordinal)
      return;
    covered = on.ordinal;
    ++instruction.waits;
    program.waits.push_back({on.queue, previousStep, on.ordinal, 0});
  }

  static constexpr uint32_t kNone = plan::HandOvers::kNone;

  plan::Program &program;
  const plan::HandOvers handed;
  const std::vector<bool> exchanges;
  size_t queues;
  std::vector<int64_t> ordinals;                  // of each instruction in its queue, from 1
  std::map<std::pair<int32_t, bool>, Uses> rings; // by peer, and whether it sends
  std::vector<size_t> inRing;                     // of each transfer: the how manieth of its ring
  std::vector<int64_t> inStep, before;            // covered, by (queue, queue waited for)
};

} // namespace

void rewait(plan::Program &program) { Rewait(program).run(); }

} // namespace pipec::emit
