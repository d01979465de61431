// From --stage's value to a rank's stage on its device.
#pragma once

#include "runtime/device/Pace.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/device/host/HostDevice.h"
#include "runtime/simulate/Scenario.h"
#include "runtime/stage/Stage.h"
#include "runtime/stage/library/Library.h"

#include <memory>

namespace pipec::runtime {

/// --stage's value: "synthetic", or the path of a library.
inline constexpr const char *kSynthetic = "synthetic";

/// Ok if `choice` is a stage that can run `plan`, for `use` (byLayers: its layers can go to another cut of the model,
/// Stage::savesLayers); else Code::Usage, with what is wrong with its name or library. Call this before processes are
/// started, while this process has one thread.
Status checkStage(const std::string &choice, const plan::Plan &plan, const LibraryUse &use = {});

/// What a rank's stage is made for; all outlive it.
struct StageContext {
  const plan::Plan &plan;
  int32_t rank = 0;
  Pace pace = Pace::Carry; // of a synthetic stage
  HostDevice &device;
  const Clock &clock;
  Failure &failure;
  const simulate::Scenario *network = nullptr; // makes a synthetic stage slow where it says so; none: nowhere
};

Status makeStage(const std::string &choice, const StageContext &context, std::unique_ptr<Stage> &stage);

/// The same on a GPU.
Status makeStage(const std::string &choice, const plan::Plan &plan, int32_t rank, CudaDevice &device, Failure &failure,
                 std::unique_ptr<Stage> &stage);

} // namespace pipec::runtime
