// A stage that takes the plan's costs as real waits and computes nothing, but checks what it receives and fills what it
// sends: any slot reused too early, any message mixed up, is noticed. To the norm of all gradients rank r adds r + 1.
#pragma once

#include "runtime/device/PaceClock.h"
#include "runtime/simulate/Scenario.h"
#include "runtime/stage/HostStage.h"
#include "runtime/stage/synthetic/SyntheticState.h"

namespace pipec::runtime {

class SyntheticStage final : public Synthetic<HostStage> {
public:
  /// All outlive the stage, and the stage the device's thread.
  SyntheticStage(int32_t rank, const plan::Plan &plan, HostDevice &device, const Clock &clock, Failure &failure,
                 Pace pace, const simulate::Scenario *network = nullptr)
      : Synthetic(rank, plan, device), rank(rank), clock(clock), paced(clock, pace), failure(failure),
        network(network) {}

  void gradientNorm(QueueId queue, const Label &label, Slot number) override;
  void setGlobalNorm(QueueId queue, const Label &label, Slot number) override;

private:
  Span run(const HostWork &work, plan::Time ready) override;

  const int32_t rank;
  const Clock &clock;
  PaceClock paced;
  Failure &failure;
  const simulate::Scenario *network; // may make the rank slow
};

} // namespace pipec::runtime
