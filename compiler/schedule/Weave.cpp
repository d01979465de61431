#include "compiler/schedule/Weave.h"

#include "runtime/plan/Limits.h"

#include <algorithm>
#include <deque>
#include <limits>

namespace pipec::schedule {

namespace {

using Level = int64_t; // near the capacity at most: what is laid fits

struct Stretch {
  Time start, end;
};

/// What a rank is busy with, ascending.
class Timeline {
public:
  /// The earliest start from `ready` on with so long a gap.
  Time earliest(Time ready, Time length) const {
    auto next = std::partition_point(busy.begin(), busy.end(), [&](const Stretch &each) { return each.end <= ready; });
    for (; next != busy.end() && next->start < ready + length; ++next)
      ready = std::max(ready, next->end);
    return ready;
  }
  /// The latest start up to `start`, where so long a gap is, but none before `least`.
  Time latest(Time start, Time length, Time least) const {
    auto next = std::partition_point(busy.begin(), busy.end(),
                                     [&](const Stretch &each) { return each.start < start + length; });
    for (; next != busy.begin() && std::prev(next)->end > start; --next)
      start = std::prev(next)->start - length;
    return std::max(start, least);
  }
  void add(Time start, Time length) {
    const auto at =
        std::partition_point(busy.begin(), busy.end(), [&](const Stretch &each) { return each.start < start; });
    busy.insert(at, {start, start + length});
  }

private:
  std::vector<Stretch> busy;
};

/// What a rank holds over time.
class Held {
public:
  struct Change {
    Time at;
    Level bytes;
    bool operator<(const Change &other) const { return at != other.at ? at < other.at : bytes < other.bytes; }
  };
  /// What W free if nothing more is laid; ascending.
  std::vector<Change> expected;

  /// When it would first be more than `capacity` with `more`, ascending; none: never.
  std::optional<Time> firstOver(const std::vector<Change> &more, Level capacity) const {
    Level level = base;
    auto known = changes.begin(), freed = expected.begin();
    for (auto added = more.begin(); added != more.end();) {
      auto *next = &added;
      if (known != changes.end() && !(**next < *known))
        next = &known;
      if (freed != expected.end() && !(**next < *freed))
        next = &freed;
      const Change &change = *(*next)++;
      level += change.bytes;
      if (level > capacity && change.at >= more.front().at)
        return change.at;
    }
    return std::nullopt;
  }
  std::optional<Time> nextRelease(Time after) const {
    std::optional<Time> first;
    for (const std::vector<Change> *each : {&changes, &expected})
      for (const Change &change : *each)
        if (change.at > after && change.bytes < 0) {
          first = first ? std::min(*first, change.at) : change.at;
          break;
        }
    return first;
  }
  void add(const Change &change) { changes.insert(std::upper_bound(changes.begin(), changes.end(), change), change); }
  void forget(Time before) {
    auto end = changes.begin();
    for (; end != changes.end() && end->at <= before; ++end)
      base += end->bytes;
    changes.erase(changes.begin(), end);
  }

private:
  Level base = 0;
  std::vector<Change> changes;
};

class Weaver {
public:
  Weaver(const Problem &problem, const Capacities &capacities, const WeaveOptions &options)
      : problem(problem), capacities(capacities), options(options), fused(problem.backward == BackwardMode::Fused),
        followsWeights(!fused && !options.fromEnd && options.room == WeaveOptions::Room::None),
        count(static_cast<int32_t>(problem.stages.size())), stagesByRank(problem.stagesByRank()),
        timelines(size_t(problem.ranks)), held(size_t(problem.ranks)), weightsOf(size_t(problem.ranks)) {
    using Room = WeaveOptions::Room;
    for (int32_t s = 0; s < count; ++s) {
      const Stage &stage = problem.stages[size_t(s)];
      const Time weight = fused ? 0 : stage.backwardWeight;
      const Time forward = std::max<Time>(stage.forward, 1);
      const Time backward = std::max<Time>(fused ? stage.backward : stage.backwardInput, 1);
      out.length.push_back(options.fromEnd ? backward : forward);
      back.length.push_back(options.fromEnd ? forward : backward);
      out.room.push_back(out.length.back() +
                         (options.room == (options.fromEnd ? Room::Backward : Room::Forward) ? weight : 0));
      back.room.push_back(back.length.back() +
                          (options.room == (options.fromEnd ? Room::Forward : Room::Backward) ? weight : 0));
      const Time down = s + 1 < count ? problem.handOver(s, s + 1) : 0,
                 up = s + 1 < count ? problem.handOver(s + 1, s) : 0;
      out.hop.push_back(options.fromEnd ? up : down);
      back.hop.push_back(options.fromEnd ? down : up);
      lag.push_back(weight);
    }
    for (const std::vector<int32_t> &mine : stagesByRank) {
      Time longest = 0;
      for (const int32_t s : mine)
        longest = std::max({longest, out.room[size_t(s)], back.room[size_t(s)]});
      for (const int32_t s : mine)
        if (options.equal)
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
    std::vector<Time> work(size_t(problem.ranks), 0);
    Time quantum = std::numeric_limits<Time>::max();
    for (int32_t s = 0; s < count; ++s) {
      work[size_t(problem.rankOf[size_t(s)])] +=
          out.length[size_t(s)] + back.length[size_t(s)] + (fused ? 0 : problem.stages[size_t(s)].backwardWeight);
      quantum = std::min({quantum, out.length[size_t(s)], back.length[size_t(s)]});
    }
    quantum = std::max<Time>(quantum / 8, 1);
    const double rate = std::max(double(*std::max_element(work.begin(), work.end())), least);
    const auto pace = Time(std::min(rate * options.pace / 100, double(limits::kTime)));
    const Time mostLag = *std::max_element(lag.begin(), lag.end());
    for (const std::vector<int32_t> &mine : stagesByRank) {
      head.push_back(std::numeric_limits<Time>::max());
      for (const int32_t s : mine)
        head.back() = std::min(head.back(), alone.out[size_t(s)] - (options.fromEnd ? mostLag : 0));
    }
    Time from = 0;
    for (int32_t n = 0; n < problem.microbatches; ++n) {
      std::optional<Path> best;
      double score = 0;
      int tries = 0;
      for (Time t = from; !best || (double(t) + least < score && tries < 24);) {
        Path path = pathFrom(t);
        ++tries;
        if (const std::optional<Time> shift = overAt(path)) {
          t += std::max<Time>(*shift, 1);
          continue;
        }
        const double mine = double(path.out[0]) + shareOf(path);
        if (!best || mine < score) {
          score = mine;
          best = path;
        }
        if (path.waited == 0)
          break;
        t = t + std::max(path.firstWait, quantum);
      }
      if (best->back[0] > limits::kTime)
        return std::nullopt;
      lay(*best);
      from = best->out[0] + pace;
      for (size_t r = 0; r < held.size(); ++r)
        held[r].forget(from + head[r]);
    }
    return wordsOf();
  }

private:
  struct Path {
    std::vector<Time> out, back;
    Time waited = 0, firstWait = 0;
  };
  const Problem &problem;
  const Capacities &capacities;
  const WeaveOptions &options;
  const bool fused;
  const bool followsWeights; // knows where W would go: not in rooms laid for them, nor where they come before their B
  const int32_t count;
  const std::vector<std::vector<int32_t>> stagesByRank;
  std::vector<Timeline> timelines;
  std::vector<Held> held;
  struct Arm {
    std::vector<Time> length, room; // of a pass, and of what is laid for it
    std::vector<Time> hop;          // between a stage and the next
  };
  Arm out, back; // F and B; B and F where it is laid from the end
  std::vector<Time> lag;
  std::vector<Path> laid;
  struct Weight {
    Time ready;
    int32_t stage;
  };
  struct Weights {
    std::vector<Weight> pending; // of B laid, ascending
    Time end = 0;                // of the last one before them
  };
  std::vector<Weights> weightsOf;
  std::vector<Time> head;            // of each rank: from a start to the first pass there, without waiting
  int32_t fullest = 0;               // the rank that refused last
  std::vector<Held::Change> changes; // of one rank
  std::vector<Time> own;             // of each rank: where the path's last pass on it ended, or the next one begins
  __int128 all = 0;                  // passes and transfers one after the other

  Timeline &timelineOf(int32_t s) { return timelines[size_t(problem.rankOf[size_t(s)])]; }

  Path pathFrom(Time t) {
    Path path;
    path.out.resize(size_t(count));
    path.back.resize(size_t(count));
    own.assign(size_t(problem.ranks), 0);
    Time ready = t;
    const auto place = [&](int32_t s, Time room) {
      Time &end = own[size_t(problem.rankOf[size_t(s)])];
      const Time start = timelineOf(s).earliest(std::max(ready, end), room);
      if (start > ready) {
        path.waited += start - ready;
        if (path.firstWait == 0)
          path.firstWait = start - ready;
      }
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
    if (path.waited > 0)
      tighten(path);
    return path;
  }

  /// Passes as late as the last one allows: what waits, waits before it starts.
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

  /// In order; without what W free, where these are followed, for all but what is to be judged.
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

  /// By how much later it has to start at least, where it would exceed some rank's capacity.
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

  /// The time for which all of the scarcest rank's memory would hold what the microbatch holds for its while.
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

  void lay(const Path &path) {
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
    laid.push_back(path);
  }

  /// Where the W of a rank would go, one after the other, into the first gaps after their B; what is before all that is
  /// still to come stays there.
  void layWeights(int32_t rank, const Path &path) {
    Weights &weights = weightsOf[size_t(rank)];
    Held &mine = held[size_t(rank)];
    Time frontier = std::numeric_limits<Time>::max();
    for (const int32_t s : stagesByRank[size_t(rank)]) {
      frontier = std::min(frontier, path.out[size_t(s)]);
      const Weight weight{path.back[size_t(s)] + back.length[size_t(s)], s};
      weights.pending.insert(std::upper_bound(weights.pending.begin(), weights.pending.end(), weight,
                                              [](const Weight &a, const Weight &b) { return a.ready < b.ready; }),
                             weight);
    }
    mine.expected.clear();
    size_t settled = 0;
    Time now = weights.end;
    for (const Weight &weight : weights.pending) {
      const Stage &stage = problem.stages[size_t(weight.stage)];
      now = timelines[size_t(rank)].earliest(std::max(now, weight.ready), stage.backwardWeight) + stage.backwardWeight;
      const Held::Change change{now, -Level(stage.context)};
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

  /// Each rank's F and B in their order; a W where it fits before the next of them, or an F needs its memory.
  Words wordsOf() const {
    struct Pass {
      Time start;
      Op op;
    };
    Words words;
    for (int32_t r = 0; r < problem.ranks; ++r) {
      std::vector<Pass> passes;
      for (const Path &path : laid)
        for (const int32_t s : stagesByRank[size_t(r)]) {
          const Time first = path.out[size_t(s)], last = path.back[size_t(s)];
          const Letter letter = fused ? Letter::BW : Letter::B;
          passes.push_back({options.fromEnd ? -last - back.length[size_t(s)] : first, {s, Letter::F}});
          passes.push_back({options.fromEnd ? -first - out.length[size_t(s)] : last, {s, letter}});
        }
      std::sort(passes.begin(), passes.end(), [](const Pass &a, const Pass &b) { return a.start < b.start; });
      Word &word = words.emplace_back();
      std::deque<int32_t> pending;
      Time now = passes.front().start;
      Level live = 0;
      const auto run = [&](const Op &op) {
        word.push_back(op);
        const Stage &stage = problem.stages[size_t(op.stage)];
        now += costOf(stage, op.letter);
        live += changeOf(stage, op.letter);
      };
      const auto weigh = [&] {
        run({pending.front(), Letter::W});
        pending.pop_front();
      };
      for (const Pass &pass : passes) {
        const Stage &stage = problem.stages[size_t(pass.op.stage)];
        while (!pending.empty() &&
               (now + problem.stages[size_t(pending.front())].backwardWeight <= pass.start ||
                (pass.op.letter == Letter::F && live + changeOf(stage, Letter::F) > capacities[size_t(r)])))
          weigh();
        now = std::max(now, pass.start);
        run(pass.op);
        if (pass.op.letter == Letter::B)
          pending.push_back(pass.op.stage);
      }
      while (!pending.empty())
        weigh();
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
