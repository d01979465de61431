// A microbatch is a path through the gaps that the ranks have left. Forwards and backwards that run towards each other
// pass without waiting if their starts differ by a multiple of the time that a forward and a backward take with their
// transfers. The first pass of a microbatch that has to wait brings the microbatch into this phase, and later passes
// stay in it. So the search takes the first start that memory allows. Then the passes of the path move as late as its
// end allows, so the microbatch waits before it holds memory.
#include "compiler/schedule/construct/Weave.h"

#include "compiler/schedule/evaluate/Timeline.h"
#include "runtime/plan/Limits.h"

#include <algorithm>
#include <limits>

namespace pipec::schedule {

namespace {

class Weaver {
public:
  Weaver(const Problem &problem, const Capacities &capacities, const WeaveOptions &options)
      : problem(problem), capacities(capacities), options(options), fused(problem.backward == BackwardMode::Fused),
        followsWeights(!fused && !options.fromEnd && !options.room), count(static_cast<int32_t>(problem.stages.size())),
        stagesByRank(problem.stagesByRank()), timelines(size_t(problem.ranks)), held(size_t(problem.ranks)),
        weightsOf(size_t(problem.ranks)) {
    for (int32_t s = 0; s < count; ++s) {
      const Stage &stage = problem.stages[size_t(s)];
      const Time weight = problem.weightTime(stage);
      const Time forward = std::max<Time>(stage.forward, 1);
      const Time backward = std::max<Time>(problem.backwardTime(stage), 1);
      out.length.push_back(options.fromEnd ? backward : forward);
      back.length.push_back(options.fromEnd ? forward : backward);
      const Time room = options.room ? weight : 0;
      out.room.push_back(out.length.back() + (options.fromEnd ? 0 : room));
      back.room.push_back(back.length.back() + (options.fromEnd ? room : 0));
      const auto [on, returned] = s + 1 < count ? hops(s) : std::pair<Time, Time>();
      out.hop.push_back(options.fromEnd ? returned : on);
      back.hop.push_back(options.fromEnd ? on : returned);
      lag.push_back(weight);
    }
    for (const std::vector<int32_t> &mine : stagesByRank) {
      Time longest = 0;
      for (const int32_t s : mine)
        longest = std::max({longest, out.room[size_t(s)], back.room[size_t(s)]});
      for (const int32_t s : mine)
        if (options.equal && options.pitch == 0)
          for (std::vector<Time> *lengths : {&out.length, &back.length, &out.room, &back.room})
            (*lengths)[size_t(s)] = longest;
    }
    for (size_t s = 0; s < size_t(count); ++s)
      all += __int128(problem.microbatches) * (out.room[s] + back.room[s] + lag[s] + out.hop[s] + back.hop[s]);
  }

  std::optional<Words> run() {
    if (all > limits::kTime)
      return std::nullopt;
    const Path alone = pathFrom(0);
    const double least = shareOf(alone);
    if (overAt(alone))
      return std::nullopt;
    const auto pace = Time(std::min(std::max(double(mostWork()), least) * options.pace / 100, double(limits::kTime)));
    const Time mostLag = options.fromEnd ? *std::max_element(lag.begin(), lag.end()) : 0;
    std::vector<Time> head; // by rank: from the start of a path to its first change of the rank's memory
    for (const std::vector<int32_t> &mine : stagesByRank) {
      head.push_back(std::numeric_limits<Time>::max());
      for (const int32_t s : mine)
        head.back() = std::min(head.back(), alone.out[size_t(s)] - mostLag);
    }
    Time from = 0;
    for (int32_t n = 0; n < problem.microbatches; ++n) {
      std::optional<Path> found = pathWithin(from);
      if (!found || found->back[0] > limits::kTime)
        return std::nullopt;
      Path &path = *found;
      from = path.out[0] + pace;
      lay(std::move(path));
      for (size_t r = 0; r < held.size(); ++r)
        held[r].forget(from + head[r]);
    }
    return wordsOf();
  }

private:
  struct Path {
    std::vector<Time> out, back; // starts of its passes, by stage
  };
  struct Arm {
    std::vector<Time> length, room; // length of a pass, and of the time reserved for it, by stage
    std::vector<Time> hop;          // time between a stage and the next
  };
  struct Weight {
    Time ready;
    int32_t stage;
    bool operator<(const Weight &other) const { return ready < other.ready; }
  };
  struct Weights {
    std::vector<Weight> pending; // W of the B placed so far, in the order in which they become ready
    Time end = 0;                // end of the last W before `pending`
  };
  const Problem &problem;
  const Capacities &capacities;
  const WeaveOptions &options;
  const bool fused;
  /// Predicts where each W goes; not needed with `room`, not possible from the end, where W come before their B.
  const bool followsWeights;
  const int32_t count;
  const std::vector<std::vector<int32_t>> stagesByRank;
  Arm out, back;         // F and B; with `fromEnd` B and F
  std::vector<Time> lag; // by stage: least time from the end of a B to the end of its W
  __int128 all = 0;      // time of all passes and transfers one after the other
  std::vector<Path> laid;
  std::vector<Timeline> timelines;
  std::vector<Held> held;
  std::vector<Weights> weightsOf;
  int32_t fullest = 0;               // the rank that had too little memory last
  std::vector<Held::Change> changes; // those of one rank, reused
  /// By rank: end of the path's previous pass there; in tighten(), start of its following pass.
  std::vector<Time> own;

  /// From the end of F on stage s to the start of F on the next stage, and from the end of B there to the start of B on
  /// s.
  std::pair<Time, Time> hops(int32_t s) const {
    const Stage &stage = problem.stages[size_t(s)], &next = problem.stages[size_t(s) + 1];
    const Time on = problem.handOver(s, s + 1), returned = problem.handOver(s + 1, s);
    if (options.pitch == 0)
      return {on, returned};
    const Time all = stage.forward + problem.backwardTime(stage) + problem.weightTime(stage);
    const Time both = all / 100 * options.pitch, half = both / 2;
    if (options.equal) {
      const Time each = std::max({half, stage.forward + on, problem.backwardTime(next) + returned});
      return {each - stage.forward, each - problem.backwardTime(next)};
    }
    const Time first = std::max(on, half - stage.forward);
    return {first, std::max(returned, both - stage.forward - first - problem.backwardTime(next))};
  }

  Time mostWork() const {
    Time most = 0;
    for (const std::vector<int32_t> &mine : stagesByRank) {
      Time work = 0;
      for (const int32_t s : mine)
        work += out.length[size_t(s)] + back.length[size_t(s)] + lag[size_t(s)];
      most = std::max(most, work);
    }
    return most;
  }

  Timeline &timelineOf(int32_t s) { return timelines[size_t(problem.rankOf[size_t(s)])]; }

  /// The path that ends earliest of those from `ready` on, with each pass as late as that end allows.
  Path pathFrom(Time ready) {
    Path path;
    path.out.resize(size_t(count));
    path.back.resize(size_t(count));
    own.assign(size_t(problem.ranks), 0);
    bool waits = false;
    const auto place = [&](int32_t s, Time room) {
      Time &end = own[size_t(problem.rankOf[size_t(s)])];
      const Time start = timelineOf(s).earliest(std::max(ready, end), room);
      waits |= start > ready;
      end = start + room;
      return start;
    };
    for (int32_t s = 0; s < count; ++s) {
      path.out[size_t(s)] = place(s, out.room[size_t(s)]);
      ready = path.out[size_t(s)] + out.length[size_t(s)] + out.hop[size_t(s)];
    }
    for (int32_t s = count; s-- > 0;) {
      path.back[size_t(s)] = place(s, back.room[size_t(s)]);
      ready = path.back[size_t(s)] + back.length[size_t(s)] + (s > 0 ? back.hop[size_t(s - 1)] : 0);
    }
    if (waits)
      tighten(path);
    return path;
  }

  /// The first path from `ready` on that fits into memory; none after kTries tries.
  std::optional<Path> pathWithin(Time ready) {
    constexpr int kTries = 1'000; // few take more than 20
    Path path = pathFrom(ready);
    for (int i = 0; i < kTries; ++i) {
      const std::optional<Time> shift = overAt(path);
      if (!shift)
        return path;
      const Time step = std::max<Time>(*shift, 1);
      ready += ((path.out[0] - ready) / step + 1) * step; // the path stays the same until its start
      path = pathFrom(ready);
    }
    return std::nullopt;
  }

  /// Moves each pass as late as the end of the path allows, so that a microbatch waits before its start, where it holds
  /// no memory.
  void tighten(Path &path) {
    own.assign(size_t(problem.ranks), std::numeric_limits<Time>::max() / 2);
    Time due = path.back[0] + back.length[0];
    const auto place = [&](int32_t s, Time length, Time room, Time &start) {
      Time &limit = own[size_t(problem.rankOf[size_t(s)])];
      start = timelineOf(s).latest(std::min(due - length, limit - room), room, start);
      limit = start;
    };
    for (int32_t s = 0; s < count; ++s) {
      place(s, back.length[size_t(s)], back.room[size_t(s)], path.back[size_t(s)]);
      due = path.back[size_t(s)] - back.hop[size_t(s)];
    }
    for (int32_t s = count; s-- > 0;) {
      place(s, out.length[size_t(s)], out.room[size_t(s)], path.out[size_t(s)]);
      due = path.out[size_t(s)] - (s > 0 ? out.hop[size_t(s - 1)] : 0);
    }
  }

  /// The changes of a rank's bytes by a path, in time order. With `followsWeights`, the bytes that W free are included
  /// only if `withWeights`.
  void changesOn(int32_t rank, const Path &path, bool withWeights, std::vector<Held::Change> &changes) const {
    changes.clear();
    for (const int32_t s : stagesByRank[size_t(rank)]) {
      const auto i = size_t(s);
      const Stage &stage = problem.stages[i];
      const Time end = path.back[i] + back.length[i];
      changes.push_back({path.out[i], stage.activation});
      changes.push_back({path.out[i] - (options.fromEnd ? lag[i] : 0), stage.context});
      changes.push_back({end, -stage.activation});
      if (withWeights || !followsWeights)
        changes.push_back({end + (options.fromEnd ? 0 : lag[i]), -stage.context});
    }
    std::sort(changes.begin(), changes.end());
  }

  /// If the path exceeds a rank's capacity: the least delay of its start before it can fit.
  std::optional<Time> overAt(const Path &path) {
    for (int32_t i = 0; i < problem.ranks; ++i) {
      const int32_t r = (fullest + i) % problem.ranks;
      changesOn(r, path, true, changes);
      const std::optional<Time> over = held[size_t(r)].firstOver(changes, capacities[size_t(r)]);
      if (!over)
        continue;
      fullest = r;
      Time shift = std::numeric_limits<Time>::max();
      for (const int32_t s : stagesByRank[size_t(r)]) {
        const auto i = size_t(s);
        const Time start = path.out[i] - (options.fromEnd ? lag[i] : 0);
        if (start < *over && *over < path.back[i] + back.length[i] + lag[i])
          shift = std::min(shift, *over - start);
      }
      if (const std::optional<Time> release = held[size_t(r)].nextRelease(*over))
        shift = std::min(shift, *release - *over);
      return shift == std::numeric_limits<Time>::max() ? 1 : shift;
    }
    return std::nullopt;
  }

  /// The time for which the microbatch would fill the memory of the scarcest rank: bytes times how long it holds them,
  /// over the capacity.
  double shareOf(const Path &path) const {
    double most = 0;
    for (int32_t r = 0; r < problem.ranks; ++r) {
      double sum = 0;
      for (const int32_t s : stagesByRank[size_t(r)]) {
        const auto i = size_t(s);
        const Stage &stage = problem.stages[i];
        const double whole = double(path.back[i] + back.length[i] - path.out[i]);
        sum += double(stage.activation) * whole + double(stage.context) * (whole + double(lag[i]));
      }
      most = std::max(most, sum / double(std::max<Bytes>(capacities[size_t(r)], 1)));
    }
    return most;
  }

  void lay(Path path) {
    for (int32_t s = 0; s < count; ++s) {
      timelineOf(s).add(path.out[size_t(s)], out.room[size_t(s)]);
      timelineOf(s).add(path.back[size_t(s)], back.room[size_t(s)]);
    }
    for (int32_t r = 0; r < problem.ranks; ++r) {
      changesOn(r, path, false, changes);
      for (const Held::Change &change : changes)
        held[size_t(r)].add(change);
      if (followsWeights)
        layWeights(r, path);
    }
    laid.push_back(std::move(path));
  }

  /// Places each pending W of a rank into the first gap after its B. A W that ends before the rank's part of `path`
  /// starts is final; later paths cannot move it.
  void layWeights(int32_t rank, const Path &path) {
    Weights &weights = weightsOf[size_t(rank)];
    Held &mine = held[size_t(rank)];
    Time frontier = std::numeric_limits<Time>::max();
    for (const int32_t s : stagesByRank[size_t(rank)]) {
      frontier = std::min(frontier, path.out[size_t(s)]);
      const Weight weight{path.back[size_t(s)] + back.length[size_t(s)], s};
      weights.pending.insert(std::upper_bound(weights.pending.begin(), weights.pending.end(), weight), weight);
    }
    mine.expected.clear();
    size_t settled = 0;
    Time now = weights.end;
    Timeline::Search search(timelines[size_t(rank)], std::max(now, weights.pending.front().ready));
    for (const Weight &weight : weights.pending) {
      const Stage &stage = problem.stages[size_t(weight.stage)];
      now = search.earliest(std::max(now, weight.ready), stage.backwardWeight) + stage.backwardWeight;
      const Held::Change change{now, -stage.context};
      if (now <= frontier) {
        mine.add(change);
        weights.end = now;
        ++settled;
      } else {
        mine.expected.push_back(change);
      }
    }
    weights.pending.erase(weights.pending.begin(), weights.pending.begin() + std::ptrdiff_t(settled));
  }

  Words wordsOf() const {
    const Letter letter = fused ? Letter::BW : Letter::B;
    Words words;
    for (int32_t r = 0; r < problem.ranks; ++r) {
      std::vector<Timed> passes;
      for (const Path &path : laid)
        for (const int32_t s : stagesByRank[size_t(r)]) {
          const auto i = size_t(s);
          passes.push_back({options.fromEnd ? -path.back[i] - back.length[i] : path.out[i], {s, Letter::F}});
          passes.push_back({options.fromEnd ? -path.out[i] - out.length[i] : path.back[i], {s, letter}});
        }
      words.push_back(withWeights(problem, capacities[size_t(r)], std::move(passes)));
    }
    return words;
  }
};

} // namespace

std::optional<Words> weave(const Problem &problem, const Capacities &capacities, const WeaveOptions &options) {
  if (capacities.empty() || problem.copies > 1 || problem.slices > 1 || problem.backwardGroup > 1)
    return std::nullopt;
  return Weaver(problem, capacities, options).run();
}

} // namespace pipec::schedule
