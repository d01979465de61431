#include "runtime/plan/HandOvers.h"

namespace pipec::plan {

namespace {

/// The values that are handed over: the activation into a stage's F, the gradient into its backward, and what these
/// passes make.
class Values {
public:
  explicit Values(const Program &program) : program(program) {
    for (Cursor cursor(program); !cursor.done(); cursor.next(), ++count)
      microbatches = std::max(microbatches, cursor.at().microbatch() + 1);
  }
  size_t all() const { return 2 * program.stages.size() * size_t(microbatches); }
  uint32_t instructions() const { return count; }
  size_t of(const Step &step) const {
    const Operation &own = *step.operation;
    const Payload payload = isTransfer(own.kind) ? own.of : rowOf(own.kind).gives;
    const auto stage = std::lower_bound(program.stages.begin(), program.stages.end(), own.stage);
    return (2 * size_t(stage - program.stages.begin()) + (payload == Payload::Forward ? 0 : 1)) * size_t(microbatches) +
           size_t(step.microbatch());
  }

private:
  const Program &program;
  int64_t microbatches = 0;
  uint32_t count = 0;
};

} // namespace

HandOvers::HandOvers(const Program &program) {
  const Values values(program);
  from.assign(values.instructions(), kNone);
  to.assign(values.instructions(), kNone);
  // If a pass comes in parts, the first part to run takes the input, and the last one makes the result.
  std::vector<uint32_t> takers(values.all(), kNone), makers(values.all(), kNone);
  uint32_t index = 0;
  for (Cursor cursor(program); !cursor.done(); cursor.next(), ++index)
    if (rowOf(cursor.at().operation->kind).gives != Payload::None) {
      const size_t value = values.of(cursor.at());
      takers[value] = std::min(takers[value], index); // kNone is the greatest
      makers[value] = index;
    }
  index = 0;
  for (Cursor cursor(program); !cursor.done(); cursor.next(), ++index) {
    const Kind kind = cursor.at().operation->kind;
    if (!isTransfer(kind))
      continue;
    const uint32_t pass = (plan::sends(kind) ? makers : takers)[values.of(cursor.at())];
    if (pass == kNone)
      continue;
    (plan::sends(kind) ? from[index] : to[index]) = pass;
    (plan::sends(kind) ? to[pass] : from[pass]) = index;
  }
}

std::vector<bool> exchangeQueues(const Program &program) {
  std::vector<bool> exchanges(program.queues.size());
  for (const Instruction &instruction : program.instructions)
    if (const Operation &o = program.operations[instruction.operation]; isOfLayers(o))
      exchanges[instruction.queue] = true;
  return exchanges;
}

} // namespace pipec::plan
