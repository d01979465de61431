// A stage in a user's library (pipec_stage.h) on the host device: each instruction is one call, on the device's thread,
// and takes the time that it takes.
#pragma once

#include "runtime/stage/HostStage.h"
#include "runtime/stage/library/Library.h"

#include <memory>

namespace pipec::runtime {

class LibraryStage final : public HostStage {
public:
  /// Creates the library's object for `rank`. The others outlive the stage, and the stage the device's work.
  static Status make(const Library &library, const plan::Plan &plan, int32_t rank, HostDevice &device,
                     const Clock &clock, Failure &failure, std::unique_ptr<Stage> &stage);
  ~LibraryStage() override;

  void gradientNorm(QueueId queue, const Label &label, Slot number) override;
  void setGlobalNorm(QueueId queue, const Label &label, Slot number) override;

  Status save(const std::string &path, int64_t steps) override;
  Status load(const std::string &path, int64_t steps) override;
  bool savesLayers() const override { return library.saveLayer != nullptr; }
  Status saveLayer(int32_t layer, const std::string &path, int64_t steps) override;
  Status loadLayer(int32_t layer, const std::string &path, int64_t steps) override;
  StageMemory memory() const override;

private:
  LibraryStage(const Library &library, int32_t rank, HostDevice &device, const Clock &clock, Failure &failure)
      : HostStage(device), library(library), rank(rank), clock(clock), failure(failure) {}

  void fail(const Label &label, const std::string &why) const;
  Span run(const HostWork &work, plan::Time ready) override;
  /// The two behind a pair's header, in one call.
  void runPair(const HostWork &header);

  Library library;
  PipecStage *object = nullptr;
  int inPair = 0; // so many instructions to come have run with their header
  int32_t rank;
  const Clock &clock;
  Failure &failure;
};

} // namespace pipec::runtime
