// Makes a rank's stage on its device from the value of --stage.
#pragma once

#include "runtime/device/Pace.h"
#include "runtime/device/ShardGroup.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/device/host/HostDevice.h"
#include "runtime/simulate/Scenario.h"
#include "runtime/stage/Stage.h"
#include "runtime/stage/hosted/Hosting.h"
#include "runtime/stage/library/Library.h"

#include <memory>

namespace pipec::runtime {

/// --stage's value: "synthetic", or the path of a library.
inline constexpr const char *kSynthetic = "synthetic";

/// Ok if `choice` is a stage that can run `plan`, for `use` (byLayers: its layers can go to another cut of the model,
/// Stage::savesLayers); else Code::Usage, with what is wrong with its name or library, or Code::Input where the plan
/// has replicas, shards or passes in parts, which the library cannot run. Call this before processes are started, while
/// this process has one thread.
Status checkStage(const std::string &choice, const plan::Plan &plan, const LibraryUse &use = {});

/// What a rank's stage is made from; all must outlive the stage.
struct StageContext {
  const plan::Plan &plan;
  int32_t world = 0;       // the process's rank among all
  Pace pace = Pace::Carry; // of a synthetic stage
  HostDevice &device;
  const Clock &clock;
  Failure &failure;
  const simulate::Scenario *network = nullptr; // slows the stage down; null: does not
  plan::Bytes payload = kEmulatedPayload;      // bytes of a collective of a synthetic stage's layers
  ShardGroup *group = nullptr;                 // the shards of its rank; null: the rank is one process
};

Status makeStage(const std::string &choice, const StageContext &context, std::unique_ptr<Stage> &stage);

/// Makes the stage of a host program.
void makeStage(const Hosting &hosting, const StageContext &context, std::unique_ptr<Stage> &stage);
void makeStage(const Hosting &hosting, const plan::Plan &plan, int32_t world, CudaDevice &device, Failure &failure,
               std::unique_ptr<Stage> &stage);

/// Makes a stage on a GPU.
Status makeStage(const std::string &choice, const plan::Plan &plan, int32_t world, CudaDevice &device, Failure &failure,
                 std::unique_ptr<Stage> &stage);

} // namespace pipec::runtime
