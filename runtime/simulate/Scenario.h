// A scenario is a network other than the plan's: the bandwidth and latency of each link at every moment of a run, and
// what fails when. The simulator and the traffic shaping of the host transport use the same two functions, so that a
// prediction and a run have the same network. Times count from the run's start. ScenarioFile.h reads a scenario from a
// file.
#pragma once

#include "runtime/plan/Plan.h"

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace pipec::simulate {

/// Later than any time of a run; a latency can still be added without overflow.
inline constexpr plan::Time kNever = 8'000'000'000'000'000'000;

class Scenario {
public:
  using Time = plan::Time;

  /// Bandwidth and latency of a link from `at` until the next stretch.
  struct Stretch {
    Time at = 0;
    int64_t bandwidth = 0; // bytes a second; 0: unlimited
    Time latency = 0;
  };
  struct Link {
    std::vector<Stretch> stretches; // ascending, the first at 0; never empty
    Time repeat = 0; // period after which they begin again, longer than all of `at`; 0: the last lasts for ever

    Link(std::initializer_list<Stretch> stretches = {}, Time repeat = 0) : stretches(stretches), repeat(repeat) {}
  };

  /// A slow rank: its operations that start from `at` until `until` take `percent` of their time. Or a slow shard: its
  /// own times are `percent` of those at factor 1, whatever factor the plan has.
  struct Slow {
    Time at = 0;
    Time until = kNever;
    int64_t percent = 100;
    int32_t shard = -1; // -1: all of the rank
  };

  struct Passage {
    Time end = 0;      // when its last byte leaves and the link is free
    Time arrival = 0;  // when the data arrive
    bool lost = false; // the link is cut before they arrive
  };

  std::map<std::pair<int32_t, int32_t>, Link> links; // (from, to)
  std::optional<Link> others;                        // links not named; none: as the plan has them
  std::map<std::pair<int32_t, int32_t>, Time> cuts;  // (lower, higher rank): from then on nothing passes, either way
  std::map<int32_t, std::vector<Slow>> slow;         // by rank; the first that fits counts
  std::optional<Link>
      replicas;       // the link from each replica of a rank to the next; none: collectives take the plan's times
  int32_t degree = 1; // replicas of each rank of the plan

  /// The end of a transfer that starts at `start`. `operation` is either side of the transfer; it says how many bytes
  /// are sent and, if the scenario has no such link, how long that takes. Exact: a quotient is rounded once, half up,
  /// to a picosecond. The latency is that of the moment when the last byte leaves.
  Passage transfer(int32_t from, int32_t to, const plan::Operation &operation, Time start) const;

  /// The end of a collective of layers that starts at `start`: the hops of a ring one after the other, each with one
  /// replica's share of the bytes.
  Time exchangeEnd(const plan::Operation &operation, Time start) const;

  /// The end of an operation with this cost that starts at `start`; no later than kNever.
  Time computeEnd(int32_t rank, Time start, Time cost) const;
  /// The same for a shard's own time, which contains the plan's factor (plan::Own).
  Time ownEnd(int32_t rank, int32_t shard, int64_t factor, Time start, Time time) const;

  /// When the link between two ranks is cut; kNever if it is not.
  Time cutAt(int32_t a, int32_t b) const;
};

/// When the last of `bytes` that enter a link at `start` has left it; no later than kNever.
plan::Time wireEnd(const Scenario::Link &link, plan::Bytes bytes, plan::Time start);

} // namespace pipec::simulate
