// A stage that takes the plan's costs as real waits and computes nothing, but checks what it receives and fills what it
// sends: any slot reused too early, any message mixed up, is noticed. To the norm of all gradients rank r adds r + 1.
#pragma once

#include "runtime/device/PaceClock.h"
#include "runtime/plan/Layers.h"
#include "runtime/simulate/Scenario.h"
#include "runtime/stage/HostStage.h"

namespace pipec::runtime {

class SyntheticStage final : public HostStage {
public:
  /// All outlive the stage, and the stage the device's thread.
  SyntheticStage(int32_t rank, const plan::Plan &plan, HostDevice &device, const Clock &clock, Failure &failure,
                 Pace pace, const simulate::Scenario *network = nullptr)
      : HostStage(device), rank(rank), ranks(plan.ranks()), groups(plan.groups), clock(clock), paced(clock, pace),
        failure(failure), network(network) {
    const plan::Variant &first = plan.variants.front();
    for (const int32_t stage : first.programs[size_t(rank)].stages)
      layers.push_back(plan::layersOf(first, stage));
  }

  void gradientNorm(QueueId queue, const Label &label, Slot number) override;
  void setGlobalNorm(QueueId queue, const Label &label, Slot number) override;

  /// There is nothing to keep but how many steps were done.
  Status save(const std::string &path, int64_t steps) override;
  Status load(const std::string &path, int64_t steps) override;
  /// Nor in a layer. Where the plan says which layers are here, another is refused.
  bool savesLayers() const override { return true; }
  Status saveLayer(int32_t layer, const std::string &path, int64_t steps) override;
  Status loadLayer(int32_t layer, const std::string &path, int64_t steps) override;
  StageMemory memory() const override { return {}; }

private:
  Span run(const HostWork &work, plan::Time ready) override;
  Status holds(int32_t layer) const;

  int32_t rank, ranks;
  const std::vector<plan::Group> groups;
  std::vector<plan::Layers> layers; // of each stage here
  const Clock &clock;
  PaceClock paced;
  Failure &failure;
  const simulate::Scenario *network; // may make the rank slow
};

} // namespace pipec::runtime
