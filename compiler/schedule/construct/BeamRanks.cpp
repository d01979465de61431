// Choices of a rank that are left out, without loss of makespan or span:
// - After a wait, a letter that could have started before the wait. Starting it earlier delays nothing, since the
//   rank's memory changes only with the rank's own letters.
// - A wait long enough for a backward or W that could have run. Running it then delays nothing and frees its bytes
//   sooner. A forward is different: other letters may need its bytes.
// - Of several W with equal lengths and sizes, all but the W of the stage with the fewest W done, since any two of
//   these W can change places.
// - A forward after which the rank cannot go on (Dijkstra's banker, as in ListSchedule.cpp). For each stage of the
//   rank, the rank must at some time hold at once what has begun below that stage and one microbatch from that stage
//   on.
#include "compiler/schedule/construct/BeamRanks.h"

#include "compiler/schedule/model/Random.h"
#include "runtime/plan/Limits.h"

#include <algorithm>

namespace pipec::schedule {

namespace {

constexpr size_t kMostStages = 20; // of a rank; kRefused has three bits for each
constexpr Time kIdle = -1;         // kFree of a rank that runs no letter

Time later(Time time, Time by) { return time > BeamRanks::kNever - by ? BeamRanks::kNever : time + by; }

} // namespace

bool BeamRanks::canView(const Problem &problem) {
  const bool fused = problem.backward == BackwardMode::Fused;
  __int128 work = 0;
  for (int32_t s = 0; s < static_cast<int32_t>(problem.stages.size()); ++s) {
    const Stage &stage = problem.stages[size_t(s)];
    if (std::min(stage.forward, fused ? stage.backward : std::min(stage.backwardInput, stage.backwardWeight)) <= 0)
      return false;
    work += stage.forward + (fused ? stage.backward : __int128(stage.backwardInput) + stage.backwardWeight);
    for (const int32_t next : {problem.before(s), problem.after(s)})
      work += next < 0 ? 0 : problem.handOver(s, next);
  }
  size_t most = 0;
  for (const std::vector<int32_t> &mine : problem.stagesByRank())
    most = std::max(most, mine.size());
  return problem.backwardGroup == 1 && most <= kMostStages &&
         work * problem.microbatches * problem.ranks <= limits::kTime;
}

BeamRanks::BeamRanks(const Problem &problem, const Capacities &capacities, const std::vector<int32_t> &mostOfStage)
    : microbatches(problem.microbatches), fused(problem.backward == BackwardMode::Fused), ranks(size_t(problem.ranks)) {
  for (int32_t s = 0; s < static_cast<int32_t>(problem.stages.size()); ++s) {
    const Stage &stage = problem.stages[size_t(s)];
    StageView &view = stages.emplace_back();
    view.cost = {stage.forward, problem.backwardTime(stage), problem.weightTime(stage)};
    view.activation = stage.activation + (fused ? __int128(stage.context) : 0);
    view.context = fused ? 0 : stage.context;
    if (!mostOfStage.empty())
      view.most = mostOfStage[size_t(s)];
    view.rank = problem.rankOf[size_t(s)];
    RankView &rank = ranks[size_t(view.rank)];
    view.place = rank.stages.size();
    rank.stages.push_back(s);
    rank.work += microbatches * (view.cost[0] + view.cost[1] + view.cost[2]);
    rank.optimizer += stage.optimizer;
    least = std::min({least, view.cost[0], view.cost[1], fused ? kNever : view.cost[2]});
  }
  const auto send = [&](int32_t from, size_t letter, int32_t to, Count which) {
    StageView &stage = stages[size_t(from)];
    const StageView &other = stages[size_t(to)];
    const Time handOver = from == to ? 0 : problem.handOver(from, to);
    stage.consumers[letter] = {other.rank, place(other.place, which), handOver};
    Time &soonest = ranks[size_t(other.rank)].soonestNew;
    if (other.rank != stage.rank)
      soonest = std::min(soonest, stage.cost[letter] + handOver);
  };
  for (int32_t s = 0; s < static_cast<int32_t>(stages.size()); ++s) {
    const int32_t before = problem.before(s), after = problem.after(s);
    send(s, 0, after < 0 ? s : after, after < 0 ? kBackwardsHere : kForwardsHere);
    if (before >= 0)
      send(s, 1, before, kBackwardsHere);
  }
  for (int32_t r = 0; r < problem.ranks; ++r) {
    RankView &rank = ranks[size_t(r)];
    rank.capacity = capacities.empty() ? __int128(1) << 100 : capacities[size_t(r)];
    const StageView &first = stages[size_t(rank.stages.front())];
    for (const int32_t s : rank.stages)
      rank.sameWeights &= stages[size_t(s)].cost[2] == first.cost[2] && stages[size_t(s)].context == first.context;
    if (problem.copies > 1)
      continue; // with copies, the last backward of the lowest stage need not be the rank's last
    int32_t s = rank.stages.front();
    for (; problem.before(s) >= 0; --s)
      rank.tail += problem.handOver(s, s - 1) + stages[size_t(s) - 1].cost[1];
    rank.tail += stages[size_t(s)].cost[2];
  }
  slots.assign(1 << 10, 0);
}

BeamRanks::View BeamRanks::initial(int32_t rank) {
  const RankView &mine = ranks[size_t(rank)];
  draft.assign(underWay(mine), 0);
  draft[kDeadline] = kNever;
  for (size_t i = 0; i < mine.stages.size(); ++i) {
    const auto s = size_t(mine.stages[i]);
    draft[place(i, kForwardsHere)] = stages[s].consumers[1].rank < 0 ? microbatches : 0;
  }
  settle(mine, draft);
  return number(draft);
}

bool BeamRanks::mayForward(const RankView &rank, const Draft &view, size_t stage) const {
  const Time forwards = view[place(stage, kForwards)];
  if (forwards == microbatches || forwards >= view[place(stage, kForwardsHere)] ||
      forwards - view[place(stage, kBackwards)] >= stages[size_t(rank.stages[stage])].most)
    return false;
  const auto begun = [&](size_t i) { return view[place(i, kForwards)] + (i == stage); };
  __int128 live = 0;
  for (size_t i = 0; i < rank.stages.size(); ++i) {
    const StageView &each = stages[size_t(rank.stages[i])];
    live += each.activation * (begun(i) - view[place(i, kBackwards)]);
    live += each.context * (begun(i) - view[place(i, kWeights)]);
  }
  if (live > rank.capacity)
    return false;
  __int128 above = 0;
  for (size_t i = rank.stages.size(); --i > stage;) {
    const StageView &higher = stages[size_t(rank.stages[i])];
    above += higher.activation + higher.context;
    __int128 held = above;
    for (size_t k = 0; k < i; ++k) {
      const StageView &lower = stages[size_t(rank.stages[k])];
      held += (lower.activation + lower.context) * (begun(k) - view[place(i, kForwards)]);
    }
    if (held > rank.capacity)
      return false;
  }
  return true;
}

/// Calls `offer(index of the stage in the rank, letter)` for every letter that an idle rank may start, except the
/// letters that the rank has refused.
template <class Function> void BeamRanks::eachOption(const RankView &rank, const Draft &view, Function &&offer) const {
  const auto isRefused = [&](size_t i, int letter) { return (view[kRefused] >> (3 * i + size_t(letter)) & 1) != 0; };
  const size_t count = rank.stages.size();
  size_t weight = count; // the stage with the fewest W done
  for (size_t i = 0; i < count; ++i) {
    if (!isRefused(i, 0) && mayForward(rank, view, i))
      offer(i, Letter::F);
    if (!isRefused(i, 1) && view[place(i, kBackwards)] < view[place(i, kBackwardsHere)])
      offer(i, Letter::B);
    if (fused || view[place(i, kWeights)] == view[place(i, kBackwards)])
      continue;
    if (!rank.sameWeights && !isRefused(i, 2))
      offer(i, Letter::W);
    if (weight == count || view[place(i, kWeights)] < view[place(weight, kWeights)])
      weight = i;
  }
  if (rank.sameWeights && weight != count && !isRefused(weight, 2))
    offer(weight, Letter::W);
}

/// Counts the results that arrive up to `until` as arrived.
void BeamRanks::receive(const RankView &rank, Draft &view, Time until) const {
  const auto begin = view.begin() + std::ptrdiff_t(underWay(rank));
  auto at = begin;
  for (; at != view.end() && *at <= until; at += 2)
    ++view[size_t(at[1])];
  view.erase(begin, at);
}

/// Computes the derived fields of a view, kEvent and kSoonest.
void BeamRanks::settle(const RankView &rank, Draft &view) {
  const bool isIdle = view[kFree] == kIdle;
  const size_t first = underWay(rank);
  const Time arrival = first < view.size() ? view[first] : kNever;
  const bool isDone = view[kWorked] == rank.work;
  view[kEvent] = isDone ? kNever : isIdle ? std::min(arrival, view[kDeadline]) : view[kFree];
  view[kSoonest] = kNever;
  bool any = false;
  if (!isIdle)
    eachOption(rank, view, [&](size_t, Letter) { any = true; });
  if (any)
    view[kSoonest] = view[kFree];
  if (any || isDone)
    return;
  ahead = view;
  for (size_t i = first; i < view.size() && !any; i += 2) {
    receive(rank, ahead, view[i]);
    eachOption(rank, ahead, [&](size_t, Letter) { any = true; });
    if (any)
      view[kSoonest] = view[i];
  }
}

void BeamRanks::choices(int32_t rank, View view, Time begin, Time end, std::vector<Choice> &result) {
  const RankView &mine = ranks[size_t(rank)];
  load(view, draft);
  while (true) {
    const Time now = draft[kEvent];
    if (now >= end) {
      result.push_back({.view = number(draft)});
      return;
    }
    if (now >= draft[kDeadline])
      return;
    if (draft[kFree] != kIdle) {
      draft[kFree] = kIdle;
      draft[kRefused] = 0;
      draft[kDeadline] = kNever;
    }
    receive(mine, draft, now);
    Time refused = draft[kRefused], deadline = draft[kDeadline];
    eachOption(mine, draft, [&](size_t i, Letter letter) {
      const int32_t s = mine.stages[i];
      const StageView &stage = stages[size_t(s)];
      const Time free = now + stage.cost[size_t(letter)];
      next = draft;
      next[kFree] = free;
      next[kRefused] = 0;
      next[kDeadline] = kNever;
      next[kWorked] += stage.cost[size_t(letter)];
      ++next[place(i, static_cast<Count>(letter))];
      if (const Consumer &to = consumer(s, letter); to.rank == rank)
        ++next[to.field];
      receive(mine, next, free);
      settle(mine, next);
      result.push_back({number(next), s, letter == Letter::B && fused ? Letter::BW : letter, free});
      refused |= Time(1) << (3 * i + size_t(letter));
      if (letter != Letter::F)
        deadline = std::min(deadline, free);
    });
    draft[kRefused] = refused;
    draft[kDeadline] = deadline;
    const size_t first = underWay(mine);
    const Time arrival = std::min(first < draft.size() ? draft[first] : kNever, later(begin, mine.soonestNew));
    if (arrival >= deadline)
      return;
    settle(mine, draft);
  }
}

BeamRanks::View BeamRanks::withArrival(View view, const Consumer &consumer, Time arrival) {
  const RankView &rank = ranks[size_t(consumer.rank)];
  load(view, draft);
  if (arrival <= draft[kFree]) {
    ++draft[consumer.field];
  } else {
    const auto field = static_cast<Time>(consumer.field);
    size_t at = underWay(rank);
    while (at < draft.size() && (draft[at] < arrival || (draft[at] == arrival && draft[at + 1] < field)))
      at += 2;
    draft.insert(draft.begin() + std::ptrdiff_t(at), {arrival, field});
  }
  settle(rank, draft);
  return number(draft);
}

Time BeamRanks::idleUntil(int32_t rank, View view, Time now) const {
  const Time *it = &fields[offsets[view]];
  return std::max(it[kFree], std::min(later(now, ranks[size_t(rank)].soonestNew), it[kSoonest]));
}

Time BeamRanks::leastEnd(int32_t rank, View view, Time now) const {
  const RankView &mine = ranks[size_t(rank)];
  const Time *it = &fields[offsets[view]];
  const Time left = mine.work - it[kWorked];
  if (left == 0)
    return end(rank, view);
  const Time start = idleUntil(rank, view, now);
  if (it[place(0, kBackwards)] == microbatches)
    return start + left + mine.optimizer;
  Time weights = 0;
  for (size_t i = 0; i < mine.stages.size(); ++i)
    weights += (microbatches - it[place(i, kWeights)]) * stages[size_t(mine.stages[i])].cost[2];
  return start + std::max(left + mine.optimizer, left - weights + mine.tail);
}

std::pair<const Time *, const Time *> BeamRanks::extent(View view) const {
  const size_t end = size_t(view) + 1 < offsets.size() ? offsets[view + 1] : fields.size();
  return {&fields[offsets[view]], fields.data() + end};
}

void BeamRanks::load(View view, Draft &into) const {
  const auto [begin, end] = extent(view);
  into.assign(begin, end);
}

BeamRanks::View BeamRanks::number(const Draft &view) {
  uint64_t hash = view.size();
  for (const Time field : view)
    hash = mixed(hash, static_cast<uint64_t>(field));
  size_t slot = hash & (slots.size() - 1);
  for (; slots[slot] != 0; slot = (slot + 1) & (slots.size() - 1)) {
    const View other = slots[slot] - 1;
    const auto [begin, end] = extent(other);
    if (hashes[other] == hash && std::equal(view.begin(), view.end(), begin, end))
      return other;
  }
  slots[slot] = static_cast<View>(offsets.size() + 1);
  offsets.push_back(fields.size());
  hashes.push_back(hash);
  fields.insert(fields.end(), view.begin(), view.end());
  if (2 * offsets.size() > slots.size())
    rehash(2 * slots.size());
  return static_cast<View>(offsets.size() - 1);
}

void BeamRanks::rehash(size_t size) {
  slots.assign(size, 0);
  for (size_t view = 0; view < hashes.size(); ++view) {
    size_t slot = hashes[view] & (size - 1);
    while (slots[slot] != 0)
      slot = (slot + 1) & (size - 1);
    slots[slot] = static_cast<View>(view + 1);
  }
}

void BeamRanks::forgetBut(std::vector<View> &kept) {
  std::vector<View> numbers(offsets.size(), 0); // new number plus one; 0: not kept so far
  const std::vector<Time> old = std::move(fields);
  const std::vector<size_t> places = std::move(offsets);
  const std::vector<uint64_t> oldHashes = std::move(hashes);
  fields.clear();
  offsets.clear();
  hashes.clear();
  for (View &view : kept) {
    View &number = numbers[view];
    if (number == 0) {
      const size_t end = size_t(view) + 1 < places.size() ? places[view + 1] : old.size();
      offsets.push_back(fields.size());
      hashes.push_back(oldHashes[view]);
      fields.insert(fields.end(), old.begin() + std::ptrdiff_t(places[view]), old.begin() + std::ptrdiff_t(end));
      number = static_cast<View>(offsets.size());
    }
    view = number - 1;
  }
  rehash(slots.size());
}

} // namespace pipec::schedule
