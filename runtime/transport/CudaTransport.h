// What the transports of GPUs have in common beyond Transport: they come to know each other before the first step, are
// looked at while somebody waits, and are ended when the run has failed.
#pragma once

#include "runtime/transport/Transport.h"

#include <map>
#include <nlohmann/json.hpp>

namespace pipec::runtime {

class CudaTransport : public Transport {
public:
  struct Region {
    std::byte *data = nullptr;
    plan::Bytes bytes = 0;
  };
  using Regions = std::map<int32_t, Region>; // by peer

  // By the thread that issues, in this order.

  /// What the other ranks must know of this one; `received` are the regions that its peers send to. Null after a
  /// failure.
  virtual nlohmann::json offer(const Regions &received) = 0;
  /// Begins to use what the other ranks have offered (by rank). `landings`: where what it sends to each peer lands, if
  /// that can be reached from here. Code::Run where a rank cannot be reached.
  virtual Status accept(const nlohmann::json &offers, Regions &landings) = 0;
  /// Waits until every connection is there and has been used once.
  virtual Status ready() { return {}; }

  /// Raises the rank's Failure if something went wrong that no call has said.
  virtual void check() {}
  /// Ends what is under way, after a failure. May never return.
  virtual void abort() {}

  // Where the process goes on after the run, in this order.

  /// All that this rank issued has completed: gives back what it has of others, which free it once all have done so.
  virtual void rest() {}
  /// Lets go on what still waits for others, after a failure, whatever data it finds then. Time and again, until the
  /// device is idle: others may overwrite it.
  virtual void release() {}
};

} // namespace pipec::runtime
