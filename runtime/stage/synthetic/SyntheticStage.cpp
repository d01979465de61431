// One synthetic instruction: check, fill, sleep to the deadline.
#include "runtime/stage/synthetic/SyntheticStage.h"

#include "runtime/plan/Disassemble.h"
#include "runtime/stage/synthetic/Pattern.h"

#include <fmt/format.h>

namespace pipec::runtime {

HostBody::Span SyntheticStage::run(const HostWork &work, plan::Time ready) {
  plan::Time start = pace == Pace::Naive ? clock.now() : ready;
  plan::Time end = start + work.label.operation->cost;
  const plan::Operation &op = *work.label.operation;
  plan::Payload of = op.kind == plan::Kind::Forward ? plan::Payload::Forward : plan::Payload::Backward;
  if (work.in.data) {
    int32_t producer = of == plan::Payload::Forward ? op.stage - 1 : op.stage + 1;
    int64_t wrong = firstWrong(work.in, {producer, of, work.label.microbatch, work.label.step});
    if (wrong >= 0)
      failure.raise(Status::run(fmt::format(
          "{}: its input is not what stage {} sent for it in step {} (from byte {} of {})",
          plan::describe(rank, op, work.label.microbatch), producer, work.label.step, wrong, work.in.bytes)));
  }
  if (work.out.data)
    fill(work.out, {op.stage, of, work.label.microbatch, work.label.step});
  clock.sleepUntil(end);
  return {start, end};
}

} // namespace pipec::runtime
