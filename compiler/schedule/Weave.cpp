#include "compiler/schedule/Weave.h"

#include "runtime/plan/Limits.h"

#include <algorithm>
#include <deque>
#include <limits>

namespace pipec::schedule {

namespace {

using Level = __int128;

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
  /// When it would first be more than `capacity` with `more`, ascending; none: never.
  std::optional<Time> firstOver(const std::vector<Change> &more, Level capacity) const {
    Level level = base;
    auto mine = changes.begin();
    auto theirs = more.begin();
    while (theirs != more.end()) {
      const bool own = mine != changes.end() && !(*theirs < *mine);
      const Change &next = own ? *mine++ : *theirs++;
      level += next.bytes;
      if (level > capacity && next.at >= more.front().at)
        return next.at;
    }
    return std::nullopt;
  }
  std::optional<Time> nextRelease(Time after) const {
    for (const Change &each : changes)
      if (each.at > after && each.bytes < 0)
        return each.at;
    return std::nullopt;
  }
  void add(const std::vector<Change> &more) {
    for (const Change &each : more)
      changes.insert(std::upper_bound(changes.begin(), changes.end(), each), each);
  }
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
        count(static_cast<int32_t>(problem.stages.size())), stagesByRank(problem.stagesByRank()),
        timelines(size_t(problem.ranks)), held(size_t(problem.ranks)) {
    for (int32_t s = 0; s < count; ++s) {
      const Stage &stage = problem.stages[size_t(s)];
      down.push_back(s + 1 < count ? problem.handOver(s, s + 1) : 0);
      up.push_back(s > 0 ? problem.handOver(s, s - 1) : 0);
      const Time weight = fused ? 0 : stage.backwardWeight;
      forward.push_back(std::max<Time>(stage.forward, 1));
      backward.push_back(std::max<Time>(fused ? stage.backward : stage.backwardInput, 1));
      forwardRoom.push_back(forward.back() + (options.room == WeaveOptions::Room::Forward ? weight : 0));
      backwardRoom.push_back(backward.back() + (options.room == WeaveOptions::Room::Backward ? weight : 0));
      lag.push_back(weight * options.weightLag);
    }
    for (const std::vector<int32_t> &mine : stagesByRank) {
      Time longest = 0;
      for (const int32_t s : mine)
        longest = std::max({longest, forwardRoom[size_t(s)], backwardRoom[size_t(s)]});
      for (const int32_t s : mine)
        if (options.equal)
          for (std::vector<Time> *lengths : {&forward, &backward, &forwardRoom, &backwardRoom})
            (*lengths)[size_t(s)] = longest;
    }
    for (size_t s = 0; s < size_t(count); ++s)
      all += __int128(problem.microbatches) * (forwardRoom[s] + backwardRoom[s] + lag[s] + down[s] + up[s]);
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
          forward[size_t(s)] + backward[size_t(s)] + (fused ? 0 : problem.stages[size_t(s)].backwardWeight);
      quantum = std::min({quantum, forward[size_t(s)], backward[size_t(s)]});
    }
    quantum = std::max<Time>(quantum / 8, 1);
    const double rate = std::max(double(*std::max_element(work.begin(), work.end())), least);
    const auto pace = Time(std::min(rate * options.pace / 100, double(limits::kTime)));
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
        const double mine = double(path.forwards[0]) + shareOf(path);
        if (!best || mine < score) {
          score = mine;
          best = path;
        }
        if (path.waited == 0)
          break;
        t = t + std::max(path.firstWait, quantum);
      }
      if (best->backwards[0] > limits::kTime)
        return std::nullopt;
      lay(*best);
      from = best->forwards[0] + pace;
      for (Held &each : held)
        each.forget(best->forwards[0]);
    }
    return wordsOf();
  }

private:
  struct Path {
    std::vector<Time> forwards, backwards;
    Time waited = 0, firstWait = 0;
  };
  const Problem &problem;
  const Capacities &capacities;
  const WeaveOptions &options;
  const bool fused;
  const int32_t count;
  const std::vector<std::vector<int32_t>> stagesByRank;
  std::vector<Timeline> timelines;
  std::vector<Held> held;
  std::vector<Time> down, up, forward, backward, forwardRoom, backwardRoom, lag;
  std::vector<Path> laid;
  __int128 all = 0; // passes and transfers one after the other

  Timeline &timelineOf(int32_t s) { return timelines[size_t(problem.rankOf[size_t(s)])]; }

  Path pathFrom(Time t) {
    Path path;
    path.forwards.resize(size_t(count));
    path.backwards.resize(size_t(count));
    std::vector<Time> own(size_t(problem.ranks), 0); // ends of its own passes
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
      path.forwards[size_t(s)] = place(s, forwardRoom[size_t(s)]);
      ready = path.forwards[size_t(s)] + forward[size_t(s)] + down[size_t(s)];
    }
    for (int32_t s = count; s-- > 0;) {
      path.backwards[size_t(s)] = place(s, backwardRoom[size_t(s)]);
      ready = path.backwards[size_t(s)] + backward[size_t(s)] + up[size_t(s)];
    }
    if (path.waited > 0)
      tighten(path);
    return path;
  }

  /// Passes as late as the last one allows: what waits, waits before it starts.
  void tighten(Path &path) {
    std::vector<Time> own(size_t(problem.ranks), std::numeric_limits<Time>::max() / 2);
    Time due = path.backwards[0] + backward[0];
    const auto place = [&](int32_t s, Time length, Time room, Time &start) {
      Time &limit = own[size_t(problem.rankOf[size_t(s)])];
      start = timelineOf(s).latest(std::min(due - length, limit - room), room, start);
      limit = start;
    };
    for (int32_t s = 0; s < count; ++s) {
      place(s, backward[size_t(s)], backwardRoom[size_t(s)], path.backwards[size_t(s)]);
      due = path.backwards[size_t(s)] - (s + 1 < count ? up[size_t(s + 1)] : 0);
    }
    for (int32_t s = count; s-- > 0;) {
      place(s, forward[size_t(s)], forwardRoom[size_t(s)], path.forwards[size_t(s)]);
      due = path.forwards[size_t(s)] - (s > 0 ? down[size_t(s - 1)] : 0);
    }
  }

  std::vector<Held::Change> changesOn(int32_t rank, const Path &path) const {
    std::vector<Held::Change> changes;
    for (const int32_t s : stagesByRank[size_t(rank)]) {
      const auto i = size_t(s);
      const Stage &stage = problem.stages[i];
      const Time end = path.backwards[i] + backward[i];
      changes.push_back({path.forwards[i], Level(stage.activation) + stage.context});
      changes.push_back({end, -Level(stage.activation)});
      changes.push_back({end + lag[i], -Level(stage.context)});
    }
    std::sort(changes.begin(), changes.end());
    return changes;
  }

  /// By how much later it has to start at least, where it would exceed some rank's capacity.
  std::optional<Time> overAt(const Path &path) const {
    for (int32_t r = 0; r < problem.ranks; ++r) {
      const std::optional<Time> over = held[size_t(r)].firstOver(changesOn(r, path), capacities[size_t(r)]);
      if (!over)
        continue;
      Time shift = std::numeric_limits<Time>::max();
      for (const int32_t s : stagesByRank[size_t(r)]) {
        const auto i = size_t(s);
        if (path.forwards[i] < *over && *over < path.backwards[i] + backward[i] + lag[i])
          shift = std::min(shift, *over - path.forwards[i]);
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
        const double whole = double(path.backwards[i] + backward[i] - path.forwards[i]);
        sum += double(stage.activation) * whole + double(stage.context) * (whole + double(lag[i]));
      }
      most = std::max(most, sum / double(std::max<Bytes>(capacities[size_t(r)], 1)));
    }
    return most;
  }

  void lay(const Path &path) {
    for (int32_t s = 0; s < count; ++s) {
      timelineOf(s).add(path.forwards[size_t(s)], forwardRoom[size_t(s)]);
      timelineOf(s).add(path.backwards[size_t(s)], backwardRoom[size_t(s)]);
    }
    for (int32_t r = 0; r < problem.ranks; ++r)
      held[size_t(r)].add(changesOn(r, path));
    laid.push_back(path);
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
          passes.push_back({path.forwards[size_t(s)], {s, Letter::F}});
          passes.push_back({path.backwards[size_t(s)], {s, fused ? Letter::BW : Letter::B}});
        }
      std::sort(passes.begin(), passes.end(), [](const Pass &a, const Pass &b) { return a.start < b.start; });
      Word &word = words.emplace_back();
      std::deque<int32_t> pending;
      Time now = 0;
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
