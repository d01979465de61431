// Gaps and levels are sorted lists. They are short to search, since what is laid is near their ends.
#include "compiler/schedule/evaluate/Timeline.h"

#include <algorithm>
#include <deque>

namespace pipec::schedule {

Timeline::Search::Search(const Timeline &timeline, Time ready)
    : busy(timeline.busy),
      next(std::partition_point(busy.begin(), busy.end(), [&](const Stretch &each) { return each.end <= ready; })) {}

Time Timeline::Search::earliest(Time ready, Time length) {
  for (; next != busy.end() && next->start < ready + length; ++next)
    ready = std::max(ready, next->end);
  return ready;
}

Time Timeline::latest(Time start, Time length, Time least) const {
  auto next =
      std::partition_point(busy.begin(), busy.end(), [&](const Stretch &each) { return each.start < start + length; });
  for (; next != busy.begin() && std::prev(next)->end > start; --next)
    start = std::prev(next)->start - length;
  return std::max(start, least);
}

void Timeline::add(Time start, Time length) {
  const auto at =
      std::partition_point(busy.begin(), busy.end(), [&](const Stretch &each) { return each.start < start; });
  busy.insert(at, {start, start + length});
}

std::optional<Time> Held::firstOver(const std::vector<Change> &more, Bytes capacity) const {
  Bytes level = base;
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

std::optional<Time> Held::nextRelease(Time after) const {
  std::optional<Time> first;
  for (const std::vector<Change> *each : {&changes, &expected})
    for (const Change &change : *each)
      if (change.at > after && change.bytes < 0) {
        first = first ? std::min(*first, change.at) : change.at;
        break;
      }
  return first;
}

void Held::add(const Change &change) {
  changes.insert(std::upper_bound(changes.begin(), changes.end(), change), change);
}

void Held::forget(Time before) {
  auto end = changes.begin();
  for (; end != changes.end() && end->at <= before; ++end)
    base += end->bytes;
  changes.erase(changes.begin(), end);
}

Word withWeights(const Problem &problem, Bytes capacity, std::vector<Timed> passes) {
  std::sort(passes.begin(), passes.end(), [](const Timed &a, const Timed &b) { return a.start < b.start; });
  Word word;
  std::deque<int32_t> pending;
  Time now = passes.front().start;
  __int128 live = 0;
  const auto run = [&](const Op &op) {
    word.push_back(op);
    const Stage &stage = problem.stages[size_t(op.stage)];
    now += costOf(stage, op.letter);
    live += changeOf(stage, op.letter);
  };
  const auto runWeight = [&] {
    run({pending.front(), Letter::W});
    pending.pop_front();
  };
  for (const Timed &pass : passes) {
    const __int128 added = changeOf(problem.stages[size_t(pass.op.stage)], pass.op.letter);
    while (!pending.empty() && (now + problem.stages[size_t(pending.front())].backwardWeight <= pass.start ||
                                (pass.op.letter == Letter::F && live + added > capacity)))
      runWeight();
    now = std::max(now, pass.start);
    run(pass.op);
    if (pass.op.letter == Letter::B)
      pending.push_back(pass.op.stage);
  }
  while (!pending.empty())
    runWeight();
  return word;
}

} // namespace pipec::schedule
