// Passes going down the ranks and passes going up meet without waiting if the starts in each direction differ by a
// multiple of a *beat*: the time that a pass down and a pass up take with their transfers. So a round is a whole number
// of beats long. In each beat each rank has room for a pass down and a pass up. A microbatch waits for a free beat only
// where it turns or begins its next chunk. Where the beats of a round would take less time than a rank's work, the
// beats are made longer. Each W goes into what is left.
#include "compiler/schedule/construct/Rounds.h"

#include "compiler/schedule/construct/RoundShape.h"
#include "compiler/schedule/evaluate/Timeline.h"
#include "compiler/schedule/model/Circle.h"

#include <algorithm>
#include <limits>

namespace pipec::schedule {

namespace {

using Wide = __int128;

struct Path {
  std::vector<Time> forward, backward, weight; // starts, by stage
};

class Round {
public:
  /// `left`: how many passes the search may still place. The round subtracts the passes that it tries.
  Round(const RoundShape &shape, const Capacities &capacities, const RoundSize &size, int64_t &left)
      : shape(shape), capacities(capacities), left(left), beat(size.beat), beats(size.beats),
        microbatches(size.microbatches), length(beat * beats), circles(size_t(shape.problem.ranks), Circle(length)) {
    const Time spare = beat - shape.down - shape.up;
    down = shape.down + spare / 2;
    up = beat - down;
  }

  /// The least time per microbatch, in picoseconds, at which the capacities hold all microbatches of a round.
  double leastEach() {
    double most = 0;
    left -= 2 * shape.count;
    const std::optional<Path> alone = pathFrom(0);
    for (int32_t r = 0; r < shape.problem.ranks && alone; ++r) {
      const double each = double(areaOf(r, *alone)) / double(std::max<Bytes>(capacities[size_t(r)], 1));
      if (each <= most)
        continue;
      most = each;
      scarce = r;
    }
    return alone ? most : std::numeric_limits<double>::max();
  }

  /// Places each microbatch where its waiting takes the least memory, over time, of the scarcest rank.
  bool lay() {
    const std::optional<Path> alone = pathFrom(0);
    const Wide least = areaOf(scarce, *alone);
    for (int32_t i = 0; i < microbatches; ++i) {
      std::optional<Path> best;
      Wide bestArea = 0;
      const int32_t first = int32_t(int64_t(i) * beats / microbatches);
      for (int32_t j = 0; j < beats && left > 0; ++j) {
        left -= 2 * shape.count;
        std::optional<Path> path = pathFrom(Time((first + j) % beats) * beat);
        if (!path)
          continue;
        const Wide area = areaOf(scarce, *path);
        if (best && area >= bestArea)
          continue;
        best = std::move(path);
        bestArea = area;
        if (area <= least)
          break;
      }
      if (!best)
        return false;
      for (int32_t s = 0; s < shape.count; ++s) {
        circleOf(s).add(best->forward[size_t(s)], shape.forward(s));
        circleOf(s).add(best->backward[size_t(s)], shape.backward(s));
      }
      laid.push_back(std::move(*best));
    }
    std::sort(laid.begin(), laid.end(), [](const Path &a, const Path &b) { return a.forward[0] < b.forward[0]; });
    return layWeights() && fits();
  }

  Words words() const {
    Words words;
    std::vector<Timed> passes;
    for (int32_t r = 0; r < shape.problem.ranks; ++r) {
      passes.clear();
      for (int32_t n = 0; n < shape.problem.microbatches; ++n) {
        const Path &path = laid[size_t(n % microbatches)];
        const Time from = n / microbatches * length;
        for (const int32_t s : shape.stagesByRank[size_t(r)]) {
          passes.push_back({from + path.forward[size_t(s)], {s, Letter::F}});
          passes.push_back({from + path.backward[size_t(s)], {s, shape.fused ? Letter::BW : Letter::B}});
          if (!shape.fused)
            passes.push_back({from + path.weight[size_t(s)], {s, Letter::W}});
        }
      }
      std::sort(passes.begin(), passes.end(), [](const Timed &a, const Timed &b) {
        return a.start < b.start; // all starts differ
      });
      Word &word = words.emplace_back();
      for (const Timed &pass : passes)
        word.push_back(pass.op);
    }
    return words;
  }

private:
  const RoundShape &shape;
  const Capacities &capacities;
  int64_t &left;
  const Time beat;
  const int32_t beats, microbatches;
  const Time length;
  Time down = 0, up = 0; // from a start on one rank to the start on the next
  int32_t scarce = 0;    // the rank with the scarcest memory
  std::vector<Circle> circles;
  std::vector<Path> laid;

  Circle &circleOf(int32_t s) { return circles[size_t(shape.problem.rankOf[size_t(s)])]; }

  /// Whether a pass would overlap, modulo the round, with a pass of the same path on the same rank.
  bool meetsItself(const Path &path, int32_t s, bool isForward, Time start, Time duration) const {
    const auto meets = [&](Time other, Time otherDuration) {
      const Time since = (start - other) % length;
      return since < otherDuration || length - since < duration;
    };
    for (const int32_t each : shape.stagesByRank[size_t(shape.problem.rankOf[size_t(s)])]) {
      if ((!isForward || each < s) && meets(path.forward[size_t(each)], shape.forward(each)))
        return true;
      if (!isForward && each > s && meets(path.backward[size_t(each)], shape.backward(each)))
        return true;
    }
    return false;
  }

  std::optional<Time> place(const Path &path, int32_t s, bool isForward, Time ready) const {
    const bool isDown = (isForward ? shape.forwardIsDown : shape.backwardIsDown)[size_t(s)];
    const Time duration = isForward ? shape.forward(s) : shape.backward(s);
    const Problem &problem = shape.problem;
    const Time rank = problem.rankOf[size_t(s)], last = problem.ranks - 1;
    const Time phase = isDown ? rank * down : shape.longestDown + last * down + (last - rank) * up;
    const Time behind = (ready - phase) % beat;
    Time start = ready + (behind == 0 ? 0 : behind < 0 ? -behind : beat - behind);
    for (int32_t i = 0; i < beats; ++i, start += beat)
      if (circles[size_t(rank)].isFree(start, duration) && !meetsItself(path, s, isForward, start, duration))
        return start;
    return std::nullopt;
  }

  std::optional<Path> pathFrom(Time ready) const {
    Path path;
    path.forward.resize(size_t(shape.count));
    path.backward.resize(size_t(shape.count));
    path.weight.resize(size_t(shape.count));
    for (int32_t s = 0; s < shape.count; ++s) {
      const std::optional<Time> start = place(path, s, true, ready);
      if (!start)
        return std::nullopt;
      path.forward[size_t(s)] = *start;
      ready = *start + shape.forward(s) + (s + 1 < shape.count ? shape.problem.handOver(s, s + 1) : 0);
    }
    for (int32_t s = shape.count; s-- > 0;) {
      const std::optional<Time> start = place(path, s, false, ready);
      if (!start)
        return std::nullopt;
      path.backward[size_t(s)] = *start;
      ready = *start + shape.backward(s) + (s > 0 ? shape.problem.handOver(s, s - 1) : 0);
    }
    return path;
  }

  /// Bytes times picoseconds that a rank holds for a path, if each W ran right after its B.
  Wide areaOf(int32_t r, const Path &path) const {
    Wide area = 0;
    for (const int32_t s : shape.stagesByRank[size_t(r)]) {
      const Stage &stage = shape.problem.stages[size_t(s)];
      const Wide held = path.backward[size_t(s)] + shape.backward(s) - path.forward[size_t(s)];
      area += stage.activation * held + stage.context * (held + (shape.fused ? 0 : stage.backwardWeight));
    }
    return area;
  }

  /// Places each W into the first gap after its B, in the order of the B.
  bool layWeights() {
    if (shape.fused)
      return true;
    for (int32_t r = 0; r < shape.problem.ranks; ++r) {
      struct Pending {
        Time ready;
        size_t path;
        int32_t stage;
      };
      std::vector<Pending> pending;
      for (size_t i = 0; i < laid.size(); ++i)
        for (const int32_t s : shape.stagesByRank[size_t(r)])
          pending.push_back({laid[i].backward[size_t(s)] + shape.backward(s), i, s});
      std::sort(pending.begin(), pending.end(),
                [&](const Pending &a, const Pending &b) { return a.ready % length < b.ready % length; });
      for (const Pending &each : pending) {
        const Time duration = std::max<Time>(shape.problem.stages[size_t(each.stage)].backwardWeight, 1);
        const std::optional<Time> start = circles[size_t(r)].earliest(each.ready, duration);
        if (!start)
          return false;
        circles[size_t(r)].add(*start, duration);
        laid[each.path].weight[size_t(each.stage)] = *start;
      }
    }
    return true;
  }

  /// Whether no rank ever holds more than its capacity.
  bool fits() const {
    struct Change {
      Time at;
      Wide bytes;
      bool operator<(const Change &other) const { return at != other.at ? at < other.at : bytes < other.bytes; }
    };
    for (int32_t r = 0; r < shape.problem.ranks; ++r) {
      std::vector<Change> changes;
      Wide live = 0; // bytes held when the round begins
      const auto hold = [&](Time from, Time to, Wide bytes) {
        live += bytes * (to / length - from / length);
        changes.push_back({from % length, bytes});
        changes.push_back({to % length, -bytes});
      };
      for (const Path &path : laid)
        for (const int32_t s : shape.stagesByRank[size_t(r)]) {
          const auto i = size_t(s);
          const Stage &stage = shape.problem.stages[i];
          const Time end = path.backward[i] + shape.backward(s);
          hold(path.forward[i], end, stage.activation);
          hold(path.forward[i], shape.fused ? end : path.weight[i] + stage.backwardWeight, stage.context);
        }
      std::sort(changes.begin(), changes.end());
      for (const Change &change : changes)
        if ((live += change.bytes) > capacities[size_t(r)])
          return false;
    }
    return true;
  }
};

} // namespace

std::optional<Words> rounds(const Problem &problem, const Capacities &capacities, const RoundOptions &options) {
  if (capacities.empty() || problem.copies > 1 || problem.slices > 1 || problem.backwardGroup > 1 ||
      !isNeverTooLong(problem))
    return std::nullopt;
  constexpr int kTried = 30;
  constexpr double kStep = 1.003; // least ratio of the times per microbatch of two sizes tried
  constexpr int64_t kMostLaid = 2'000'000, kLaid = 20;
  const RoundShape shape(problem);
  int64_t left = std::min(kMostLaid, kLaid * 3 * shape.count * problem.microbatches);
  int tried = 0;
  double last = 0;
  const std::vector<RoundSize> sizes = sizesOf(shape, options);
  if (sizes.empty())
    return std::nullopt;
  RoundSize shortest = sizes.front();
  for (const RoundSize &size : sizes)
    if (size.beat < shortest.beat || (size.beat == shortest.beat && size.beats > shortest.beats))
      shortest = size;
  const double least = Round(shape, capacities, shortest, left).leastEach();
  for (const RoundSize &size : sizes) {
    if (size.each < std::max(kStep * last, least))
      continue;
    Round round(shape, capacities, size, left);
    if (round.leastEach() > size.each)
      continue;
    last = size.each;
    if (round.lay())
      return round.words();
    if (++tried == kTried || left <= 0)
      break;
  }
  return std::nullopt;
}

} // namespace pipec::schedule
