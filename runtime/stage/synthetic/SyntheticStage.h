// A stage that really waits for the plan's costs and computes nothing, but checks what it receives and fills what it
// sends, so that a slot reused too early or a mixed-up message is detected. To the norm of all gradients rank r adds r
// + 1.
#pragma once

#include "runtime/device/PaceClock.h"
#include "runtime/device/ShardGroup.h"
#include "runtime/simulate/Scenario.h"
#include "runtime/stage/HostStage.h"
#include "runtime/stage/synthetic/SyntheticLayers.h"
#include "runtime/stage/synthetic/SyntheticState.h"

namespace pipec::runtime {

class SyntheticStage final : public Synthetic<HostStage> {
public:
  /// All arguments must outlive the stage, and the stage the device's thread.
  SyntheticStage(int32_t world, const plan::Plan &plan, HostDevice &device, const Clock &clock, Failure &failure,
                 Pace pace, const simulate::Scenario *network = nullptr, plan::Bytes payload = kEmulatedPayload,
                 ShardGroup *group = nullptr)
      : Synthetic(world, plan, device), clock(clock), paced(clock, pace), pace(pace), failure(failure),
        network(network), layers(plan, state.place(), payload), group(group) {}

  void gradientNorm(QueueId queue, const Label &label, Slot number, const Then &then) override;
  void setGlobalNorm(QueueId queue, const Label &label, Slot number, const Then &then) override;
  std::span<const LayerMemory> layersOf(int32_t stage) const override { return layers.of(stage); }
  Status load(const std::string &path, int64_t steps) override {
    layers.reset(steps);
    return Synthetic::load(path, steps);
  }
  /// Moves no data, but no shard goes on before all have come here.
  Status share(const Portions &portions, int64_t step) override;

private:
  template <typename Each> void bySample(const Label &label, const Slot &slot, PatternKey key, Each each) const;
  Span run(const HostWork &work, plan::Time ready) override;
  Span spanOf(const HostWork &work, plan::Time start);
  Span spanOfShard(const HostWork &work, plan::Time start);
  void check(const Label &label, const Status &status);

  const Clock &clock;
  PaceClock paced;
  const Pace pace;
  Failure &failure;
  const simulate::Scenario *network; // may make the rank slow
  SyntheticLayers layers;
  ShardGroup *const group; // null: there are no other shards
};

} // namespace pipec::runtime
