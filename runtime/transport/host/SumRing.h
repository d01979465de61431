// One number summed over all ranks, as a ring: partial sums go 0 -> 1 -> ... -> n - 1, then the total goes n - 1 -> 0
// -> 1 -> ... -> n - 2, 2 (n - 1) messages one after the other. Each message also carries when the latest rank so far
// was ready, so that in the end all know when the last one was. This is the protocol alone: no clock, no socket.
#pragma once

#include "runtime/transport/host/Wire.h"

#include <functional>
#include <optional>

namespace pipec::runtime {

class SumRing {
public:
  using Write = std::function<void(int32_t to, const wire::Frame &frame)>;
  SumRing(int32_t rank, int32_t ranks, Write write) : rank(rank), ranks(ranks), write(std::move(write)) {}

  /// Whom this rank hears and whom it writes to.
  int32_t before() const { return (rank + ranks - 1) % ranks; }
  int32_t after() const { return (rank + 1) % ranks; }

  struct Total {
    double sum;
    plan::Time ready; // of the last rank
  };
  struct Outcome {
    std::optional<Total> total; // the sum is done, for this rank
    std::string wrong;          // if not empty: what before() has said that cannot be
  };

  /// This rank has come to the sum `tag` with `number`; not before the last one is done.
  Outcome join(const wire::Tag &tag, double number, plan::Time ready);

  /// A frame of before().
  Outcome hear(const wire::Frame &frame);

  /// before() has come to the sum that this rank has joined; the message may still be held by a rank further on.
  bool heard() const { return present; }

private:
  Outcome add();
  void tell(wire::Type type, int32_t to) const;
  Outcome done();
  std::string difference(const wire::Tag &theirs) const;

  const int32_t rank;
  const int32_t ranks;
  const Write write;
  std::optional<wire::Frame> part; // of before(), not yet added to
  bool joined = false;
  bool passed = false; // the part sum has gone on
  bool present = false;
  wire::Tag tag;
  Total own{0, 0}; // and what was added
};

} // namespace pipec::runtime
