// The collectives between the shards of a rank, as blocking calls. All shards of a rank make the same calls in the same
// order, each within an instruction or while portions are set; the instruction, the kind and the size of the call are
// compared. Results do not depend on timing: values are added in the order of shards.
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

  /// The calls that follow are within this instruction; while portions are set before step label.step, its operation is
  /// null.
  virtual void begin(const Label &label) = 0;
  virtual void end() = 0;

  // Each call blocks until it is done. Returns why it failed; empty: it succeeded. After a failure of the run all fail.

  /// Waits until all shards have come here. `latest`: when the last of them was ready.
  virtual std::string meet(plan::Time ready, plan::Time &latest) = 0;
  /// Leaves the sums of `count` numbers in `values`, on every shard.
  virtual std::string sum(std::byte *values, int64_t count, Number type) = 0;
  /// Sums shards() * count numbers and leaves this shard's `count` of the sums in `share`; the first shard's come
  /// first.
  virtual std::string scatter(const std::byte *values, int64_t count, Number type, std::byte *share) = 0;
  /// Leaves the shares of all shards in `values`, one behind the other.
  virtual std::string gather(const std::byte *share, int64_t count, Number type, std::byte *values) = 0;
  /// Sends bytes from each shard to each. `sent` and `received`: numbers of bytes, by shard.
  virtual std::string exchange(const std::byte *out, std::span<const int64_t> sent, std::byte *in,
                               std::span<const int64_t> received) = 0;
};

} // namespace pipec::runtime
