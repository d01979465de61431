#include "compiler/jobs/ChooseWindows.h"

#include "compiler/jobs/Gaps.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Unroll.h"
#include "runtime/simulate/Pieces.h"
#include "runtime/simulate/Simulate.h"

#include <algorithm>
#include <map>
#include <queue>
#include <utility>

namespace pipec::jobs {

using plan::Time;

namespace {

constexpr size_t kThresholds = 4096, kTried = 32;
constexpr int64_t kSizes = 512, kNear = 1000;

/// So many of them, the least and the greatest among them.
template <typename T> std::vector<T> spread(std::vector<T> values, size_t most) {
  if (values.size() <= most)
    return values;
  std::vector<T> some;
  for (size_t i = 0; i != most; ++i)
    some.push_back(values[i * (values.size() - 1) / (most - 1)]);
  return some;
}

/// How many waits of each length there are, on the ranks of one job.
using Lengths = std::map<Time, int64_t, std::greater<>>;

class Choice {
public:
  Choice(const Jobs &jobs, const std::vector<int32_t> &jobOf, plan::Variant &variant)
      : jobs(jobs), jobOf(jobOf), variant(variant), lengths(jobs.work.size()) {}

  Status run(std::vector<Unused> &unused) {
    for (plan::Program &program : variant.programs)
      program = plan::unrolled(program);
    if (Status status = gapsOf(variant, !jobs.fillsCollectives, gaps); !status.ok())
      return status;
    for (std::vector<Gap> &own : gaps)
      for (Gap &each : own) // P54: a window ends in a step
        each.length = std::min(each.length, variant.certificate.span - each.from);
    for (size_t rank = 0; rank != jobOf.size(); ++rank)
      for (const Gap &each : gaps[rank])
        if (jobOf[rank] >= 0 && each.length >= job(size_t(jobOf[rank])).shortest())
          ++lengths[size_t(jobOf[rank])][each.length];
    openAll();
    if (Status status = choose(); !status.ok())
      return status;
    if (Status status = explain(unused); !status.ok())
      return status;
    open();
    if (Status status = simulate::delay(variant, variant.certificate.delay); !status.ok())
      return status;
    variant.certificate.delayProven = simulate::delayHoldsInAnyTiming(variant);
    return {};
  }

private:
  const Job &job(size_t index) const { return jobs.work[index]; }
  Time timeOf(size_t index, int64_t atoms) const { return atoms * job(index).row.atom + job(index).row.overhead; }
  /// In how many atoms a job runs where a piece takes at most so long, its overhead included; 0: in none.
  int64_t atomsWithin(size_t index, Time most) const {
    if (most < job(index).shortest())
      return 0;
    return job(index).piece ? *job(index).piece : (most - job(index).row.overhead) / job(index).row.atom;
  }

  /// All waits as windows, to count with.
  void openAll() {
    for (size_t rank = 0; rank != gaps.size(); ++rank)
      for (const Gap &each : gaps[rank])
        variant.programs[rank].windows.push_back({each.instruction, each.length, each.from});
  }

  /// Resumes that lie one behind the other, a step, in millionths: of windows of such a length or longer, on the ranks
  /// of jobs, or of one of them.
  Status resumes(Time threshold, int32_t only, Time &millionths) const {
    constexpr Time kOne = 1'000'000;
    const auto cost = [&](const simulate::Resume &at) {
      const int32_t own = jobOf[size_t(at.place)];
      const bool counts =
          own >= 0 && (only < 0 || own == only) && at.window >= std::max(threshold, job(size_t(own)).shortest());
      return counts ? kOne : 0;
    };
    return simulate::spanOfResumes(variant, cost, millionths);
  }

  /// Useful time of a step with pieces that take at most so long.
  __int128 useful(Time threshold, Time most) const {
    __int128 time = 0;
    for (size_t index = 0; index != lengths.size(); ++index) {
      const int64_t atoms = atomsWithin(index, most);
      if (atoms == 0)
        continue;
      const Time piece = timeOf(index, atoms);
      for (const auto &[length, count] : lengths[index]) {
        if (length < std::max(threshold, piece))
          break;
        time += __int128(length / piece) * count * atoms * job(index).row.atom;
      }
    }
    return time;
  }

  Status choose() {
    std::vector<Time> thresholds;
    for (const Lengths &each : lengths)
      for (const auto &[length, count] : each)
        thresholds.push_back(length);
    std::sort(thresholds.begin(), thresholds.end());
    thresholds.erase(std::unique(thresholds.begin(), thresholds.end()), thresholds.end());
    thresholds = spread(std::move(thresholds), kThresholds);
    if (thresholds.empty())
      return {};
    // The lower the threshold, the more resumes lie one behind the other, and the shorter a piece has to be.
    Time least = 0, most = 0;
    if (Status status = tryOne(thresholds.back(), least); !status.ok() || thresholds.size() == 1)
      return status;
    if (Status status = tryOne(thresholds.front(), most); !status.ok())
      return status;
    return tryBetween(thresholds, {0, most}, {thresholds.size() - 1, least});
  }

  /// The longest piece that keeps the promise where so many resumes, in millionths, lie one behind the other.
  Time longestWith(Time count) const {
    const auto budget = __int128(variant.certificate.span) * jobs.slowDown / 1'000'000;
    // Where no step waits for what jobs delay, only the windows themselves say how long a piece may be.
    return count == 0 ? limits::kTime : Time(std::min<__int128>(budget * 1'000'000 / count, limits::kTime));
  }

  /// The best size of a piece with a threshold, up to so long, and its useful time.
  std::pair<__int128, Time> bestOf(Time each, Time most) const {
    std::pair<__int128, Time> found{0, 0};
    for (const Time size : sizesWithin(most))
      if (const __int128 time = useful(each, size); time > found.first)
        found = {time, size};
    return found;
  }

  Status tryOne(Time each, Time &count) {
    if (Status status = resumes(each, -1, count); !status.ok())
      return status;
    if (const auto [time, size] = bestOf(each, longestWith(count)); time > best) {
      best = time;
      threshold = each;
      longest = size;
    }
    return {};
  }

  /// A threshold that was tried, and the resumes that it has.
  struct Tried {
    size_t index;
    Time count;
  };
  struct Between {
    __int128 most; // no threshold between the two has more useful time
    Tried low, high;
    bool operator<(const Between &other) const { return most < other.most; }
  };
  Between between(const std::vector<Time> &thresholds, Tried low, Tried high) const {
    // Where both have as many resumes, the lower one has more windows than all between.
    const bool none = high.index - low.index < 2 || low.count == high.count;
    return {none ? 0 : mostUseful(thresholds[low.index + 1], longestWith(high.count)), low, high};
  }
  /// Those between two that may be better than what is known, the most promising first.
  Status tryBetween(const std::vector<Time> &thresholds, Tried low, Tried high) {
    std::priority_queue<Between> open;
    open.push(between(thresholds, low, high));
    for (size_t tried = 0; tried != kTried && open.top().most > best + best / kNear; ++tried) {
      const Between own = open.top();
      open.pop();
      Tried middle{(own.low.index + own.high.index) / 2, 0};
      if (Status status = tryOne(thresholds[middle.index], middle.count); !status.ok())
        return status;
      open.push(between(thresholds, own.low, middle));
      open.push(between(thresholds, middle, own.high));
    }
    return {};
  }

  /// No pieces that take at most so long have more useful time in windows of such a length or longer.
  __int128 mostUseful(Time threshold, Time most) const {
    __int128 time = 0;
    for (size_t index = 0; index != lengths.size(); ++index)
      if (const int64_t atoms = atomsWithin(index, most); atoms != 0)
        for (const auto &[length, count] : lengths[index])
          if (length >= threshold)
            time += __int128(length) * count * (atoms * job(index).row.atom) / timeOf(index, atoms) + 1;
    return time;
  }

  /// How long a piece of any job may take, up to so long and to the longest window.
  std::vector<Time> sizesWithin(Time most) const {
    std::vector<Time> sizes;
    for (size_t index = 0; index != lengths.size(); ++index) {
      if (lengths[index].empty())
        continue;
      const int64_t all = atomsWithin(index, std::min(most, lengths[index].begin()->first));
      std::vector<int64_t> atoms; // of the larger half of the sizes that are tried each
      for (int64_t each = std::max<int64_t>(all - kSizes / 2, 0); each != all; ++each)
        atoms.push_back(each + 1);
      for (int64_t i = 0, rest = all - kSizes / 2, count = std::min(kSizes / 2, rest); i < count; ++i)
        atoms.push_back(rest - i * (rest / count));
      if (job(index).piece && all > 0)
        atoms = {all};
      for (const int64_t each : atoms)
        sizes.push_back(timeOf(index, each));
    }
    return sizes;
  }

  /// Whether a window of the choice is there for a job.
  bool isUsed(size_t index) const {
    const int64_t atoms = atomsWithin(index, longest);
    return atoms != 0 && !lengths[index].empty() &&
           lengths[index].begin()->first >= std::max(threshold, timeOf(index, atoms));
  }

  /// Writes the choice into the programs.
  void open() {
    for (size_t rank = 0; rank != jobOf.size(); ++rank) {
      plan::Program &program = variant.programs[rank];
      program.windows.clear();
      program.job = jobOf[rank];
      if (program.job < 0)
        continue;
      const auto index = size_t(program.job);
      program.piece = atomsWithin(index, std::max(longest, job(index).shortest()));
      if (longest < job(index).shortest())
        continue;
      const Time piece = timeOf(index, program.piece);
      for (const Gap &each : gaps[rank])
        if (each.length >= std::max(threshold, piece))
          program.windows.push_back({each.instruction, each.length, each.from});
    }
  }

  Status explain(std::vector<Unused> &unused) const {
    for (size_t index = 0; index != jobs.work.size(); ++index) {
      if (isUsed(index) || std::ranges::find(jobOf, int32_t(index)) == jobOf.end())
        continue;
      Unused own{index, 0, 0};
      for (size_t rank = 0; rank != jobOf.size(); ++rank)
        for (const Gap &each : gaps[rank])
          if (jobOf[rank] == int32_t(index))
            own.longest = std::max(own.longest, each.length);
      if (own.longest >= job(index).shortest()) {
        Time count = 0;
        if (Status status = resumes(own.longest, int32_t(index), count); !status.ok())
          return status;
        const auto span = std::max<Time>(variant.certificate.span, 1);
        const auto up = [](__int128 value, int64_t by) { return (value + by - 1) / by; };
        own.least = int64_t(up(up(__int128(count) * job(index).shortest(), 1'000'000) * 1'000'000, span));
      }
      unused.push_back(own);
    }
    return {};
  }

  const Jobs &jobs;
  const std::vector<int32_t> &jobOf;
  plan::Variant &variant;
  std::vector<std::vector<Gap>> gaps; // by rank
  std::vector<Lengths> lengths;       // by job, of those that its shortest piece fits
  __int128 best = 0;                  // useful time of the choice
  Time threshold = 0, longest = 0;    // the choice: of a window at least, of a piece with its overhead at most
};

} // namespace

Status chooseWindows(const Jobs &jobs, const std::vector<int32_t> &jobOf, plan::Variant &variant,
                     std::vector<Unused> &unused) {
  variant.jobs.clear();
  for (const Job &each : jobs.work)
    variant.jobs.push_back(each.row);
  variant.slowDown = jobs.slowDown;
  return Choice(jobs, jobOf, variant).run(unused);
}

} // namespace pipec::jobs
