// The sums between the shards of a rank, as who computes sees them: calls that return when their result is there. All
// shards of a rank make the same ones in the same order, each within an instruction or where portions are told; which
// one it is, its kind and its size are compared. Results do not depend on timing: what is added up is added in the
// order of shards.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/device/LayerMemory.h"

#include <span>
#include <string>

namespace pipec::runtime {

class ShardGroup {
public:
  virtual ~ShardGroup() = default;
  virtual int32_t shard() const = 0;
  virtual int32_t shards() const = 0;

  // By one thread at a time.

  /// What comes is within this instruction; of portions, which come before step label.step, its operation is null.
  virtual void begin(const Label &label) = 0;
  virtual void end() = 0;

  // Each blocks until it is done, and returns why it could not be; empty: it is. After a failure of the run none is.

  /// Until all shards have come here. `latest`: when the last of them was ready.
  virtual std::string meet(plan::Time ready, plan::Time &latest) = 0;
  /// Leaves the sums of so many numbers in `values`, on every shard.
  virtual std::string sum(std::byte *values, int64_t count, Number type) = 0;
  /// Of shards() * count numbers the sums of this shard's count, which lie behind those of the shards before it.
  virtual std::string scatter(const std::byte *values, int64_t count, Number type, std::byte *share) = 0;
  /// The shares of all shards, one behind the other.
  virtual std::string gather(const std::byte *share, int64_t count, Number type, std::byte *values) = 0;
  /// Bytes from each to each, by shard.
  virtual std::string exchange(const std::byte *out, std::span<const int64_t> sent, std::byte *in,
                               std::span<const int64_t> received) = 0;
};

} // namespace pipec::runtime
