// A microbatch is a path through the gaps that the ranks have left. Forwards and backwards that run towards each other
// pass without waiting if their starts differ by a multiple of what a forward and a backward take with their transfers.
// The first pass of a microbatch that has to wait brings the microbatch into this phase, and its later passes find it
// there. So the first start is taken that memory allows. Then the path's passes are moved as late as its end allows, so
// that the waiting is done before the microbatch holds memory.
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
    std::vector<Time> head; // of each rank: from a start to what first changes there
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
    std::vector<Time> out, back; // when its passes on each stage start
  };
  struct Arm {
    std::vector<Time> length, room; // of a pass, and of what is laid for it
    std::vector<Time> hop;          // between a stage and the next
  };
  struct Weight {
    Time ready;
    int32_t stage;
    bool operator<(const Weight &other) const { return ready < other.ready; }
  };
  struct Weights {
    std::vector<Weight> pending; // of B laid, ascending
    Time end = 0;                // of the last one before them
  };
  const Problem &problem;
  const Capacities &capacities;
  const WeaveOptions &options;
  const bool fused;
  const bool followsWeights; // knows where W would go: not in rooms laid for them, nor where they come before their B
  const int32_t count;
  const std::vector<std::vector<int32_t>> stagesByRank;
  Arm out, back;         // F and B; B and F where it is laid from the end
  std::vector<Time> lag; // from the end of B to that of its W, at least
  __int128 all = 0;      // passes and transfers one after the other
  std::vector<Path> laid;
  std::vector<Timeline> timelines;
  std::vector<Held> held;
  std::vector<Weights> weightsOf;
  int32_t fullest = 0;               // the rank that refused last
  std::vector<Held::Change> changes; // of one rank
  std::vector<Time> own;             // of each rank: where the path's last pass on it ended, or the next one begins

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

  /// The path that ends earliest of those from `ready` on, and starts as late as that end allows.
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

  /// The first path from `ready` on that memory holds; none after more tries than it ever takes.
  std::optional<Path> pathWithin(Time ready) {
    constexpr int kTries = 1'000; // few take more than 20
    Path path = pathFrom(ready);
    for (int i = 0; i < kTries; ++i) {
      const std::optional<Time> shift = overAt(path);
      if (!shift)
        return path;
      const Time step = std::max<Time>(*shift, 1);
      ready += ((path.out[0] - ready) / step + 1) * step; // until it starts the path is the same
      path = pathFrom(ready);
    }
    return std::nullopt;
  }

  /// Moves passes as late as the last one allows, so that a microbatch waits before its start, where it holds nothing.
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

  /// A path's changes of a rank's bytes, ascending in time. Where W are followed, what they free is in it only
  /// `withWeights`.
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

  /// If the path would exceed some rank's capacity: by how much later it has to start at least.
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

  /// For how long the microbatch would take all of the scarcest rank's memory: bytes times how long it holds them, over
  /// the capacity.
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

  /// Places the W of a rank, one after the other, into the first gaps after their B. Those that lie before everything
  /// still to come are settled.
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
