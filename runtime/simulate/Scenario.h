// A network that is not the plan's: what each link's bandwidth and latency are at every moment of a run, and what goes
// wrong when. The simulator and the host transport's shaping ask the same two functions, so that a prediction and the
// run beside it mean the same network. Times are absolute, from the run's start. ScenarioFile.h reads one from a file.
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

/// Later than any time of a run, with room for a latency behind it.
inline constexpr plan::Time kNever = 8'000'000'000'000'000'000;

class Scenario {
public:
  using Time = plan::Time;

  /// What holds on a link from `at` on, until the next stretch.
  struct Stretch {
    Time at = 0;
    int64_t bandwidth = 0; // bytes a second; 0: unlimited
    Time latency = 0;
  };
  struct Link {
    std::vector<Stretch> stretches; // ascending, the first at 0; never empty
    Time repeat = 0;                // they begin anew so often, all before it; 0: the last lasts for ever

    Link(std::initializer_list<Stretch> stretches = {}, Time repeat = 0) : stretches(stretches), repeat(repeat) {}
  };

  /// A rank whose operations take `percent` of their time, those that start from `at` until `until`; or one of its
  /// shards, whose own times then are `percent` of what they are at factor 1, whatever factor the plan has.
  struct Slow {
    Time at = 0;
    Time until = kNever;
    int64_t percent = 100;
    int32_t shard = -1; // -1: all of the rank
  };

  struct Passage {
    Time end = 0;      // of its last byte on the wire: the link is free
    Time arrival = 0;  // of the data
    bool lost = false; // the link is cut before they arrive
  };

  std::map<std::pair<int32_t, int32_t>, Link> links; // (from, to)
  std::optional<Link> others;                        // links not named; none: as the plan has them
  std::map<std::pair<int32_t, int32_t>, Time> cuts;  // (lower, higher rank): from then on nothing passes, either way
  std::map<int32_t, std::vector<Slow>> slow;         // by rank; the first that fits counts
  std::optional<Link> replicas; // from each replica of a rank to the next; none: collectives take what the plan says
  int32_t degree = 1;           // of the plan

  /// When a transfer that starts at `start` ends: `operation` is either side of it and says how much it carries, and
  /// where no link is given, how long that takes. Exact; a quotient is rounded once, half up, to a picosecond. A
  /// latency is that of the moment when the last byte leaves.
  Passage transfer(int32_t from, int32_t to, const plan::Operation &operation, Time start) const;

  /// When a collective of layers ends that starts at `start`: hops of a ring one after the other, each of a replica's
  /// share of the bytes.
  Time exchangeEnd(const plan::Operation &operation, Time start) const;

  /// When an operation ends that starts at `start` and has this cost; no later than kNever.
  Time computeEnd(int32_t rank, Time start, Time cost) const;
  /// The same of a shard's own time, which has the plan's factor (plan::Own).
  Time ownEnd(int32_t rank, int32_t shard, int64_t factor, Time start, Time time) const;

  /// When the two lose each other; kNever if they do not.
  Time cutAt(int32_t a, int32_t b) const;
};

/// When `bytes` that enter a link at `start` have left it; no later than kNever.
plan::Time wireEnd(const Scenario::Link &link, plan::Bytes bytes, plan::Time start);

} // namespace pipec::simulate
