// Sums one number of each rank in a ring. Partial sums go 0 -> 1 -> ... -> n - 1, then the total goes n - 1 -> 0 -> 1
// -> ... -> n - 2: 2 (n - 1) messages one after the other. Each message also carries when the latest rank so far was
// ready, so in the end all know when the last rank was. This is the protocol alone, without clock and sockets.
#pragma once

#include "runtime/transport/host/Wire.h"

#include <functional>
#include <optional>

namespace pipec::runtime {

class SumRing {
public:
  using Write = std::function<void(int32_t to, const wire::Frame &frame)>;
  SumRing(int32_t rank, int32_t ranks, Write write) : rank(rank), ranks(ranks), write(std::move(write)) {}

  /// The ranks that this one receives from and sends to. Rank n - 1 also sends the total to rank 0.
  int32_t before() const { return (rank + ranks - 1) % ranks; }
  int32_t after() const { return (rank + 1) % ranks; }

  struct Total {
    double sum;
    plan::Time ready; // when the last rank was ready
  };
  struct Outcome {
    std::optional<Total> total; // present once the sum is done for this rank
    std::string wrong;          // what is wrong with a message of before(); empty: nothing
  };

  /// To call when this rank comes to the sum `tag` with `number`, and the sum before it is done.
  Outcome join(const wire::Tag &tag, double number, plan::Time ready);

  /// To call with a frame from before().
  Outcome hear(const wire::Frame &frame);

  /// Whether before() is known to have come to the sum that is not done.
  bool heard() const { return present; }

private:
  Outcome add();
  void tell(wire::Type type, int32_t to) const;
  Outcome done();
  std::string difference(const wire::Tag &theirs) const;

  const int32_t rank;
  const int32_t ranks;
  const Write write;
  std::optional<wire::Frame> part; // the partial sum of before(), while this rank's number is not added
  bool joined = false;
  bool passed = false; // whether the partial sum has gone on to after()
  bool present = false;
  wire::Tag tag;
  Total own{0, 0}; // this rank's number, then the partial sum with it, then the total
};

} // namespace pipec::runtime
