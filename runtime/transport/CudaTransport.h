// The interface of GPU transports beyond Transport: they come to know each other before the first step, are checked
// while the host waits, and are ended when the run has failed.
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

  // Called by the issuing thread, in this order.

  /// What the other ranks must know about this one; `received`: the regions that its peers send to. Null after a
  /// failure.
  virtual nlohmann::json offer(const Regions &received) = 0;
  /// Begins to use the other ranks' offers (by rank). `landings`: the region in which data sent to each peer lands, if
  /// this rank can reach that memory. Code::Run if a rank cannot be reached.
  virtual Status accept(const nlohmann::json &offers, Regions &landings) = 0;
  /// Waits until every connection is there and has been used once.
  virtual Status ready() { return {}; }

  /// Raises the rank's Failure for an error that no call has reported.
  virtual void check() {}
  /// After a failure, ends what is under way. May never return.
  virtual void abort() {}

  // For a process that goes on after the run, in this order.

  /// To call when everything that this rank issued has completed: gives back the memory of other ranks, which free it
  /// once all ranks have done so.
  virtual void rest() {}
  /// After a failure, lets work go on that still waits for other ranks, whatever data it then reads. To call repeatedly
  /// until the device is idle, since others may overwrite the words.
  virtual void release() {}
};

} // namespace pipec::runtime
