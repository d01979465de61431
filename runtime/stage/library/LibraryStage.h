// A stage in a user's library (pipec_stage.h) on the host device: each instruction is one call, on the device's thread,
// with its real duration.
#pragma once

#include "runtime/stage/HostStage.h"
#include "runtime/stage/MakeStage.h"
#include "runtime/stage/library/LibraryObject.h"

namespace pipec::runtime {

class LibraryStage final : public OfLibrary<HostStage> {
public:
  /// Creates the library's object for a process. The context must outlive the stage, and the stage the device's work.
  static Status make(const Library &library, const StageContext &context, std::unique_ptr<Stage> &stage);

  void gradientNorm(QueueId queue, const Label &label, Slot number, const Then &then) override;
  void setGlobalNorm(QueueId queue, const Label &label, Slot number, const Then &then) override;

private:
  LibraryStage(std::unique_ptr<OwnTime> time, std::unique_ptr<LibraryObject> object, const StageContext &context)
      : OfLibrary(std::move(object), context.device), ownTime(std::move(time)), group(context.group),
        clock(context.clock), failure(context.failure) {}

  void check(const Label &label, const std::string &error) const;
  Span run(const HostWork &work, plan::Time ready) override;
  Span runShard(const HostWork &work, plan::Time start);
  /// Runs both passes after a pair's header, in one call.
  void runPair(const HostWork &header);

  const std::unique_ptr<OwnTime> ownTime;
  ShardGroup *const group; // null: there are no other shards
  int inPair = 0;          // number of following instructions that have already run with their header
  const Clock &clock;
  Failure &failure;
};

} // namespace pipec::runtime
