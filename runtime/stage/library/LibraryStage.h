// A stage in a user's library (pipec_stage.h) on the host device: each instruction is one call, on the device's thread,
// and takes the time that it takes.
#pragma once

#include "runtime/stage/HostStage.h"
#include "runtime/stage/library/LibraryObject.h"

namespace pipec::runtime {

class LibraryStage final : public OfLibrary<HostStage> {
public:
  /// Creates the library's object for `rank`. The others outlive the stage, and the stage the device's work.
  static Status make(const Library &library, const plan::Plan &plan, int32_t rank, HostDevice &device,
                     const Clock &clock, Failure &failure, std::unique_ptr<Stage> &stage);

  void gradientNorm(QueueId queue, const Label &label, Slot number) override;
  void setGlobalNorm(QueueId queue, const Label &label, Slot number) override;

private:
  LibraryStage(std::unique_ptr<LibraryObject> object, int32_t rank, HostDevice &device, const Clock &clock,
               Failure &failure)
      : OfLibrary(std::move(object), device), rank(rank), clock(clock), failure(failure) {}

  void check(const Label &label, const std::string &error) const;
  Span run(const HostWork &work, plan::Time ready) override;
  /// The two behind a pair's header, in one call.
  void runPair(const HostWork &header);

  int inPair = 0; // so many instructions to come have run with their header
  const int32_t rank;
  const Clock &clock;
  Failure &failure;
};

} // namespace pipec::runtime
