// One synthetic instruction: check, fill, sleep to the deadline.
#include "runtime/stage/synthetic/SyntheticStage.h"

#include <cstring>

namespace pipec::runtime {

HostBody::Span SyntheticStage::run(const HostWork &work, plan::Time ready) {
  plan::Time start = paced.begin(ready);
  const Label label = work.label();
  const Slot in = work.in(), out = work.out();
  plan::Time end = network ? network->computeEnd(rank, start, label.operation->cost) : start + label.operation->cost;
  if (in.data)
    if (Status status = state.checkInput(label, in.bytes, firstWrong(in, state.inputOf(label))); !status.ok())
      failure.raise(std::move(status));
  if (out.data)
    fill(out, state.outputOf(label));
  clock.sleepUntil(end);
  return {start, end};
}

void SyntheticStage::gradientNorm(QueueId, const Label &, Slot number) {
  const double own = state.own();
  std::memcpy(number.data, &own, sizeof own);
}

void SyntheticStage::setGlobalNorm(QueueId, const Label &label, Slot number) {
  double total = 0;
  std::memcpy(&total, number.data, sizeof total);
  if (Status status = state.checkTotal(label, total); !status.ok())
    failure.raise(std::move(status));
}

} // namespace pipec::runtime
