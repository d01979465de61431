// An event is a time at which a rank may become able to start something. A rank takes a forward only if its bytes fit
// and the state stays safe (Dijkstra's banker). A state is safe if, for each stage of the rank, two things fit
// together: the bytes of all microbatches that have begun a lower stage of the rank and not this stage, and the bytes
// of one microbatch on this stage and all higher stages of the rank. Then the oldest unfinished microbatch can always
// go on, so there is no deadlock.
#include "compiler/schedule/construct/ListSchedule.h"

#include <algorithm>
#include <limits>
#include <queue>

namespace pipec::schedule {

namespace {

constexpr Time kUnknown = std::numeric_limits<Time>::max();

struct StageState {
  Time f, b, w, down, up;
  Bytes a, o;
  int32_t rank = 0;
  int32_t forwards = 0, backwards = 0, weights = 0;
  /// When data arrives at this stage, by microbatch, as far as known.
  std::vector<Time> forwardArrival, backwardArrival;

  Bytes held() const { return a + o; }
};

struct RankState {
  std::vector<int32_t> stages;
  Time free = 0;     // end of the pass that it runs
  Time wake = -1;    // time of its earliest pending event; kUnknown: none
  __int128 live = 0; // bytes; sizes within the limits times the microbatches may exceed 2^63
  int32_t flight = 0, mostFlight = std::numeric_limits<int32_t>::max();
  bool lastWasBackward = false;
};

class Scheduler {
public:
  Scheduler(const Problem &problem, const Capacities &capacities, const Policy &policy)
      : problem(problem), capacities(capacities), policy(policy), fused(problem.backward == BackwardMode::Fused),
        words(size_t(problem.ranks)), ranks(size_t(problem.ranks)) {
    const auto count = static_cast<int32_t>(problem.stages.size());
    for (int32_t s = 0; s < count; ++s) {
      const Stage &stage = problem.stages[size_t(s)];
      StageState state;
      state.f = stage.forward;
      state.b = problem.backwardTime(stage);
      state.w = problem.weightTime(stage);
      state.a = fused ? stage.activation + stage.context : stage.activation;
      state.o = fused ? 0 : stage.context;
      state.down = problem.after(s) >= 0 ? problem.handOver(s, s + 1) : 0;
      state.up = problem.before(s) >= 0 ? problem.handOver(s, s - 1) : 0;
      state.rank = problem.rankOf[size_t(s)];
      state.forwardArrival.reserve(size_t(problem.microbatches));
      state.backwardArrival.reserve(size_t(problem.microbatches));
      if (problem.before(s) < 0)
        state.forwardArrival.assign(size_t(problem.microbatches), 0);
      stages.push_back(std::move(state));
      ranks[size_t(problem.rankOf[size_t(s)])].stages.push_back(s);
    }
    for (int32_t r = 0; r < problem.ranks; ++r) {
      RankState &rank = ranks[size_t(r)];
      words[size_t(r)].reserve(rank.stages.size() * size_t(problem.microbatches) * (fused ? 2 : 3));
      if (policy.base != 0 || policy.slope != 0) {
        const int64_t most = (policy.base + int64_t(policy.slope) * (problem.ranks - 1 - r)) / 100;
        rank.mostFlight = static_cast<int32_t>(
            std::clamp<int64_t>(most, int64_t(rank.stages.size()), std::numeric_limits<int32_t>::max()));
      }
    }
  }

  std::optional<Words> run() {
    for (int32_t r = 0; r < problem.ranks; ++r)
      wakeAt(r, 0);
    while (!events.empty()) {
      const auto [time, r] = events.top();
      events.pop();
      RankState &rank = ranks[size_t(r)];
      if (rank.wake != time)
        continue; // an earlier event did its work
      rank.wake = kUnknown;
      now = time;
      decide(r);
    }
    for (const StageState &stage : stages)
      if (stage.backwards < problem.microbatches || (!fused && stage.weights < problem.microbatches))
        return std::nullopt;
    return std::move(words);
  }

private:
  struct Event {
    Time time;
    int32_t rank;
    bool operator>(const Event &other) const { return time != other.time ? time > other.time : rank > other.rank; }
  };
  struct Choice {
    int32_t stage = -1;
    Time ready = kUnknown; // earliest known arrival still to come, over the stages of the rank
  };

  const Problem &problem;
  const Capacities &capacities;
  const Policy &policy;
  const bool fused;
  Words words;
  std::vector<StageState> stages;
  std::vector<RankState> ranks;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  Time now = 0;

  void wakeAt(int32_t r, Time time) {
    RankState &rank = ranks[size_t(r)];
    time = std::max(time, rank.free);
    if (rank.wake >= 0 && rank.wake <= time)
      return;
    rank.wake = time;
    events.push({time, r});
  }

  Bytes capacity(int32_t r) const {
    return capacities.empty() ? std::numeric_limits<Bytes>::max() : capacities[size_t(r)];
  }

  bool fits(int32_t r, int32_t s) const {
    const RankState &rank = ranks[size_t(r)];
    return rank.live + stages[size_t(s)].held() <= capacity(r);
  }

  /// Whether the state after a forward of s is safe, for each higher stage of the rank.
  bool isSafe(int32_t r, int32_t s) const {
    const RankState &rank = ranks[size_t(r)];
    if (rank.stages.size() == 1 || capacities.empty())
      return true;
    __int128 above = 0;
    for (size_t i = rank.stages.size(); i-- > 0 && rank.stages[i] > s;) {
      const StageState &next = stages[size_t(rank.stages[i])];
      above += next.held();
      __int128 begun = 0;
      for (size_t k = 0; k < i; ++k) {
        const StageState &lower = stages[size_t(rank.stages[k])];
        const int32_t forwards = lower.forwards + (rank.stages[k] == s);
        begun += __int128(lower.held()) * (forwards - next.forwards);
      }
      if (begun + above > capacity(r))
        return false;
    }
    return true;
  }

  /// Whether stage `s`, with `count` such passes done, is a better choice than stage `than` of the same rank.
  bool isBetter(int32_t s, int32_t count, int32_t than, int32_t thanCount) const {
    if (than < 0 || policy.deepest)
      return true; // callers visit the stages in ascending order
    return count <= thanCount && s != than;
  }

  Choice backwardOf(const RankState &rank) const {
    Choice choice;
    for (const int32_t s : rank.stages) {
      const StageState &stage = stages[size_t(s)];
      const auto j = static_cast<size_t>(stage.backwards);
      if (j >= stage.backwardArrival.size())
        continue;
      if (stage.backwardArrival[j] > now)
        choice.ready = std::min(choice.ready, stage.backwardArrival[j]);
      else if (isBetter(s, stage.backwards, choice.stage,
                        choice.stage < 0 ? 0 : stages[size_t(choice.stage)].backwards))
        choice.stage = s;
    }
    return choice;
  }

  /// Sets `blocked` if a forward has arrived but memory or `mostOfStage` has no room for it.
  Choice forwardOf(int32_t r, bool &blocked) const {
    const RankState &rank = ranks[size_t(r)];
    Choice choice;
    for (const int32_t s : rank.stages) {
      const StageState &stage = stages[size_t(s)];
      const auto j = static_cast<size_t>(stage.forwards);
      if (j >= stage.forwardArrival.size())
        continue;
      if (stage.forwardArrival[j] > now) {
        choice.ready = std::min(choice.ready, stage.forwardArrival[j]);
        continue;
      }
      if (rank.flight >= rank.mostFlight && s == rank.stages.front())
        continue;
      if (!policy.mostOfStage.empty() &&
          stage.forwards - (fused ? stage.backwards : stage.weights) >= policy.mostOfStage[size_t(s)]) {
        blocked |= !fused && stage.weights < stage.backwards;
        continue;
      }
      if (!isSafe(r, s))
        continue;
      if (!fits(r, s)) {
        blocked = true;
        continue;
      }
      if (isBetter(s, stage.forwards, choice.stage, choice.stage < 0 ? 0 : stages[size_t(choice.stage)].forwards))
        choice.stage = s;
    }
    return choice;
  }

  int32_t weightOf(const RankState &rank, int32_t &pending) const {
    int32_t best = -1;
    pending = 0;
    if (fused)
      return best;
    for (const int32_t s : rank.stages) {
      const StageState &stage = stages[size_t(s)];
      pending += stage.backwards - stage.weights;
      if (stage.weights < stage.backwards && (best < 0 || stage.weights < stages[size_t(best)].weights))
        best = s;
    }
    return best;
  }

  /// Whether a pass of this length may start although another pass becomes ready at `arrival`; see Policy::patience.
  bool mayStart(Time length, Time arrival, int32_t patience) const {
    return arrival == kUnknown || __int128(now + length - arrival) * 100 <= __int128(length) * patience;
  }

  void decide(int32_t r) {
    RankState &rank = ranks[size_t(r)];
    bool blocked = false;
    int32_t pending = 0;
    const Choice backward = backwardOf(rank);
    const Choice forward = forwardOf(r, blocked);
    const int32_t weight = weightOf(rank, pending);
    const bool forwardFirst =
        policy.first == Policy::First::Forward || (policy.first == Policy::First::Alternate && rank.lastWasBackward);
    const auto forwardNow = [&] {
      if (forward.stage < 0 || pending > policy.mostWeights)
        return false;
      return backward.stage >= 0 || mayStart(stages[size_t(forward.stage)].f, backward.ready, policy.patience);
    };
    if (backward.stage >= 0 && !(forwardFirst && forwardNow()))
      return start(r, backward.stage, Letter::B);
    if (forwardNow())
      return start(r, forward.stage, Letter::F);
    if (weight >= 0) {
      const Time length = stages[size_t(weight)].w;
      const bool forced = blocked || pending > policy.mostWeights;
      const Time next = std::min(backward.ready, blocked ? kUnknown : forward.ready);
      if (mayStart(length, next, forced ? std::max(policy.weightPatience, 50) : policy.weightPatience))
        return start(r, weight, Letter::W);
    }
    // Nothing starts now. A forward that would delay a backward waits for that backward.
    if (const Time next = std::min(backward.ready, forward.ready); next != kUnknown)
      wakeAt(r, next);
  }

  void start(int32_t r, int32_t s, Letter letter) {
    RankState &rank = ranks[size_t(r)];
    StageState &stage = stages[size_t(s)];
    Time cost = stage.w;
    words[size_t(r)].push_back({s, letter == Letter::B && fused ? Letter::BW : letter});
    if (letter == Letter::F) {
      cost = stage.f;
      ++stage.forwards;
      ++rank.flight;
      rank.live += stage.held();
      rank.free = now + cost;
      if (problem.after(s) >= 0) {
        stages[size_t(s) + 1].forwardArrival.push_back(rank.free + stage.down);
        wakeAt(stages[size_t(s) + 1].rank, rank.free + stage.down);
      } else {
        stage.backwardArrival.push_back(rank.free);
      }
    } else if (letter == Letter::B) {
      cost = stage.b;
      ++stage.backwards;
      --rank.flight;
      rank.live -= stage.a;
      rank.free = now + cost;
      if (problem.before(s) >= 0) {
        stages[size_t(s) - 1].backwardArrival.push_back(rank.free + stage.up);
        wakeAt(stages[size_t(s) - 1].rank, rank.free + stage.up);
      }
    } else {
      ++stage.weights;
      rank.live -= stage.o;
      rank.free = now + cost;
    }
    rank.lastWasBackward = letter == Letter::B;
    wakeAt(r, rank.free);
  }
};

} // namespace

std::optional<Words> listSchedule(const Problem &problem, const Capacities &capacities, const Policy &policy) {
  return Scheduler(problem, capacities, policy).run();
}

} // namespace pipec::schedule
