#include "compiler/schedule/exchange/ChooseExchange.h"

#include "compiler/schedule/model/Random.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>

namespace pipec::schedule {
namespace {

/// A hash of 128 bits, which stands for the exchange.
using Digest = std::pair<uint64_t, uint64_t>;

Digest digestOf(const Exchange &exchange) {
  Digest digest{1, 2};
  const auto add = [&](int64_t value) {
    digest = {mixed(digest.first, uint64_t(value)), mixed(digest.second, ~uint64_t(value))};
  };
  for (const std::vector<Collective> &queue : exchange.queues) {
    add(int64_t(queue.size()));
    for (const Collective &each : queue)
      for (const int64_t value : {int64_t(each.kind), int64_t(each.stage), int64_t(each.firstLayer),
                                  int64_t(each.layers), each.begin, each.end, each.rounds})
        add(value);
  }
  add(int64_t(exchange.updates));
  add((exchange.sharded ? 8 : 0) + (exchange.atEnd ? 4 : 0) + (exchange.barrier ? 2 : 0) + (exchange.ahead ? 1 : 0));
  for (const int32_t tail : exchange.tails)
    add(tail);
  return digest;
}

class Chooser {
public:
  Chooser(const ExchangeInput &input, const ExchangeChoice &choice, const JudgeExchange &judge)
      : input(input), choice(choice), judge(judge) {
    for (const std::vector<ExchangedLayer> &layers : input.replicas.layers) {
      std::vector<int32_t> &own = withGradients.emplace_back();
      for (size_t layer = 0; layer != layers.size(); ++layer)
        if (layers[layer].gradients() > 0)
          own.push_back(int32_t(layer));
    }
  }

  ChosenExchange run() {
    best.time = std::numeric_limits<Time>::max();
    begin();
    // The best of the beginnings are improved each by itself.
    std::sort(tried.begin(), tried.end(), [](const Tried &one, const Tried &other) {
      return std::pair(one.time, one.number) < std::pair(other.time, other.number);
    });
    constexpr size_t kBeginnings = 8;
    for (size_t i = 0; i < std::min(kBeginnings, tried.size()) && !done() && !choice.fusion; ++i) {
      current = tried[i].bundling;
      currentTime = tried[i].time;
      while (!done() && judged < choice.most / 3 && improve()) {
      }
      if (i == 0 || currentTime < bestBundling.time)
        bestBundling = {currentTime, current, judged};
    }
    if (!choice.fusion && !tried.empty()) {
      anneal();
      while (!done() && improve()) {
      }
      swapNeighbours();
    }
    best.judged = judged;
    return best;
  }

  Bundling decouple(const Bundling &from, Time now) {
    improveFrom(from, now);
    takesEqual = true;
    Bundling all = current;
    for (StageBundles &stage : all.stages)
      stage.whole.assign(stage.whole.size(), false);
    if (all.stages == from.stages)
      return from;
    for (const int32_t patience : kPatience) {
      all.patience = patience;
      attempt(all);
    }
    if (current.stages == all.stages)
      return current;
    for (size_t s = 0; s != current.stages.size(); ++s)
      for (size_t i = 0; i != current.stages[s].sums.size(); ++i)
        if (current.stages[s].whole[i])
          toggle(s, i);
    return current;
  }

  Bundling fuse(const Bundling &from, Time now) {
    improveFrom(from, now);
    for (const int32_t patience : kPatience) {
      const Bundling before = current;
      current.patience = patience;
      bool any = false;
      while (joinSome())
        any = true;
      if (!any)
        current = before;
    }
    return current;
  }

private:
  using Firsts = std::vector<int32_t>; // of bundles
  static constexpr std::array<int32_t, 5> kPatience = {0, 20, 40, 70, 100};

  void improveFrom(const Bundling &from, Time now) {
    current = from;
    currentTime = best.time = now;
    beginning = false;
  }

  /// One round of joins. False: none helped.
  bool joinSome() {
    bool any = false;
    for (size_t s = 0; s != current.stages.size(); ++s)
      for (const bool sums : {true, false})
        for (size_t i = 1; i < firstsOf(current, s, sums).size();)
          if (mayJoin(current.stages[s], sums, i) && join(s, sums, i))
            any = true;
          else
            ++i;
    return any;
  }

  /// An all-reduce and a half are not joined.
  static bool mayJoin(const StageBundles &stage, bool sums, size_t i) {
    return !sums || stage.whole[i] == stage.whole[i - 1];
  }

  bool done() const {
    const bool isFound = best.time != std::numeric_limits<Time>::max();
    return judged >= choice.most || best.time <= choice.lower || (isFound && choice.stop.stop_requested());
  }

  /// Many moves lead to an exchange that has been judged before.
  Time judgeOf(Exchange exchange) {
    ++judged;
    const auto [known, isNew] = times.try_emplace(digestOf(exchange));
    if (!isNew)
      return known->second;
    const Time time = known->second = judge(exchange);
    if (time < best.time) {
      best.time = time;
      best.exchange = std::move(exchange);
    }
    return time;
  }

  /// Takes the bundling if it is better than the current one.
  bool attempt(const Bundling &bundling) {
    if (done())
      return false;
    const Time time = judgeOf(inOrderOfNeed(input, bundling, input.replicas.mayShard));
    if (beginning)
      tried.push_back({time, bundling, judged});
    if (time > currentTime || (time == currentTime && !takesEqual))
      return false;
    currentTime = time;
    current = bundling;
    return true;
  }

  /// Of each stage, bundles that it makes.
  template <typename Make> std::vector<Firsts> ofStages(Make make) const {
    std::vector<Firsts> all;
    for (const std::vector<ExchangedLayer> &layers : input.replicas.layers)
      all.push_back(make(layers));
    return all;
  }

  Bundling bundlingOf(const std::vector<Firsts> &sums, const std::vector<Firsts> &gathers, bool whole,
                      int32_t patience = 0) const {
    Bundling bundling{std::vector<StageBundles>(sums.size()), patience};
    for (size_t s = 0; s != sums.size(); ++s) {
      bundling.stages[s].sums = sums[s];
      bundling.stages[s].gathers = gathers[s];
      bundling.stages[s].whole.assign(sums[s].size(), whole);
    }
    return bundling;
  }

  /// Bundles whose sizes grow: the first layers', for which the next forward waits and which are summed last, are the
  /// smallest.
  static Firsts growing(const std::vector<ExchangedLayer> &layers, Bytes first, int64_t percent, Bytes most) {
    Firsts firsts{0};
    Bytes bytes = 0, size = first;
    for (size_t layer = 0; layer != layers.size(); ++layer) {
      const Bytes own = layers[layer].gradients();
      if (bytes > 0 && own > 0 && bytes + own > size) {
        firsts.push_back(int32_t(layer));
        bytes = 0;
        size = Bytes(std::min<__int128>(most, __int128(size) * percent / 100));
      }
      bytes += own;
    }
    return firsts;
  }

  void begin() {
    std::vector<bool> wholes;
    if (choice.mayDecouple)
      wholes.push_back(false);
    if (choice.mayReduce)
      wholes.push_back(true);
    if (choice.fusion) {
      const auto bundles = ofStages([&](const auto &layers) { return bundlesBelow(layers, *choice.fusion); });
      for (const bool whole : wholes)
        attempt(bundlingOf(bundles, bundles, whole));
      return;
    }
    Bytes all = 1;
    for (const std::vector<ExchangedLayer> &layers : input.replicas.layers)
      all = std::max(all, offsetsOf(layers).back());
    std::vector<Bytes> sizes{0};
    for (Bytes size = all; size > all / 400 && size > 0; size = size * 2 / 3)
      sizes.push_back(size);
    Bytes sumSize = 0, gatherSize = 0;
    for (const bool whole : wholes)
      for (const Bytes size : sizes) {
        const auto bundles = ofStages([&](const auto &layers) { return bundlesBelow(layers, size); });
        if (attempt(bundlingOf(bundles, bundles, whole)))
          sumSize = gatherSize = size;
      }
    if (!choice.mayDecouple) {
      beginning = false;
      return;
    }
    // Sums and gathers by sizes of their own, growing at several rates; by turns.
    const std::vector<int64_t> rates = {100, 125, 160, 220, 350};
    const std::vector<Bytes> firsts = {all / 400, all / 150, all / 60, all / 25};
    std::vector<std::vector<Firsts>> shapes;
    for (const Bytes first : firsts)
      for (const int64_t rate : rates)
        for (const Bytes most : {all / 12, all / 5, all})
          shapes.push_back(
              ofStages([&](const auto &layers) { return growing(layers, std::max<Bytes>(first, 1), rate, most); }));
    for (const Bytes size : {sumSize, gatherSize})
      shapes.push_back(ofStages([&](const auto &layers) { return bundlesBelow(layers, size); }));
    std::vector<Firsts> sums = shapes.back(), gathers = shapes.back();
    for (const int32_t patience : {0, 40, 100}) {
      for (const auto &shape : shapes)
        if (attempt(bundlingOf(shape, gathers, false, patience)))
          sums = shape;
      for (const auto &shape : shapes)
        if (attempt(bundlingOf(sums, shape, false, patience)))
          gathers = shape;
    }
    beginning = false;
  }

  /// Random changes of the best bundling, of which worse ones are taken too, the rarer the later.
  void anneal() {
    current = bestBundling.bundling;
    currentTime = bestBundling.time;
    const int64_t first = judged, last = choice.most * 5 / 6;
    constexpr int64_t kInVain = 1000; // one after the other: there is next to nothing to change
    int64_t inVain = 0;
    while (judged < last && inVain < kInVain && !done()) {
      Bundling other = current;
      ++inVain;
      if (!change(other))
        continue;
      inVain = 0;
      const Time time = judgeOf(inOrderOfNeed(input, other, input.replicas.mayShard));
      // From a hundredth of the time down to none.
      const double heat = double(bestBundling.time) * 0.01 * double(last - judged) / double(last - first);
      if (time >= currentTime && double(time - currentTime) > heat * double(random() % 1000) / 1000)
        continue;
      current = std::move(other);
      currentTime = time;
      if (time < bestBundling.time)
        bestBundling = {time, current, judged};
    }
    current = bestBundling.bundling;
    currentTime = bestBundling.time;
  }

  uint64_t random() { // xorshift: the same everywhere
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
  }

  /// A change at random; false: it changed nothing.
  bool change(Bundling &bundling) {
    const size_t s = random() % bundling.stages.size();
    StageBundles &stage = bundling.stages[s];
    const std::vector<int32_t> &all = withGradients[s];
    const bool sums = random() % 2 == 0;
    Firsts &firsts = sums ? stage.sums : stage.gathers;
    const auto insert = [&](int32_t layer) {
      const auto at = std::lower_bound(firsts.begin(), firsts.end(), layer);
      if (layer <= firsts.front() || (at != firsts.end() && *at == layer))
        return false;
      if (sums)
        stage.whole.insert(stage.whole.begin() + (at - firsts.begin()),
                           bool(stage.whole[size_t(at - firsts.begin()) - 1]));
      firsts.insert(at, layer);
      return true;
    };
    const auto erase = [&](size_t i) {
      firsts.erase(firsts.begin() + ptrdiff_t(i));
      if (sums)
        stage.whole.erase(stage.whole.begin() + ptrdiff_t(i));
    };
    if (all.size() < 2)
      return false;
    switch (random() % 8) {
    case 0:
      return insert(all[random() % all.size()]);
    case 1:
      if (firsts.size() < 2)
        return false;
      return erase(1 + random() % (firsts.size() - 1)), true;
    case 2: {
      const int32_t patience = bundling.patience;
      bundling.patience = int32_t(random() % 11) * 10;
      return bundling.patience != patience;
    }
    case 3:
      if (!choice.mayReduce || !choice.mayDecouple || !sums)
        return false;
      return stage.whole[random() % stage.whole.size()].flip(), true;
    default: { // a boundary moves, mostly not far
      if (firsts.size() < 2)
        return false;
      const size_t i = 1 + random() % (firsts.size() - 1);
      const auto from = std::lower_bound(all.begin(), all.end(), firsts[i]) - all.begin();
      const auto far = 1 + ptrdiff_t(random() % (1 + all.size() / (2 + random() % 60)));
      const auto to = std::clamp<ptrdiff_t>(random() % 2 == 0 ? from + far : from - far, 0, ptrdiff_t(all.size()) - 1);
      erase(i);
      return insert(all[size_t(to)]);
    }
    }
  }

  /// One round of small changes, each kept if it helps. False: none did.
  bool improve() {
    bool any = false;
    for (const int32_t patience : kPatience) {
      Bundling other = current;
      other.patience = patience;
      any |= patience != current.patience && attempt(other);
    }
    for (size_t s = 0; s != current.stages.size() && !done(); ++s)
      for (const bool sums : {true, false}) {
        // From the first layers on, which matter most.
        for (size_t i = 1; i < firstsOf(current, s, sums).size() && !done(); ++i)
          any |= moveBoundary(s, sums, i);
        for (size_t i = 0; i < firstsOf(current, s, sums).size() && !done(); ++i)
          any |= splitBundle(s, sums, i);
        if (sums && choice.mayReduce && choice.mayDecouple)
          for (size_t i = 0; i < current.stages[s].sums.size() && !done(); ++i)
            any |= toggle(s, i);
      }
    return any;
  }

  static Firsts &firstsOf(Bundling &bundling, size_t s, bool sums) {
    return sums ? bundling.stages[s].sums : bundling.stages[s].gathers;
  }

  bool moveBoundary(size_t s, bool sums, size_t i) {
    const std::vector<int32_t> &all = withGradients[s];
    for (const int by : {1, -1, 2, -2, 5, -5}) {
      Bundling other = current;
      Firsts &firsts = firstsOf(other, s, sums);
      const auto at = std::lower_bound(all.begin(), all.end(), firsts[i]) - all.begin() + by;
      if (at < 0 || at >= ptrdiff_t(all.size()))
        continue;
      firsts[i] = all[size_t(at)];
      if (firsts[i] <= firsts[i - 1] || (i + 1 != firsts.size() && firsts[i] >= firsts[i + 1]))
        continue;
      if (attempt(other))
        return true;
    }
    return join(s, sums, i);
  }

  /// Joins a bundle to the one before it.
  bool join(size_t s, bool sums, size_t i) {
    Bundling other = current;
    Firsts &firsts = firstsOf(other, s, sums);
    firsts.erase(firsts.begin() + ptrdiff_t(i));
    if (sums)
      other.stages[s].whole.erase(other.stages[s].whole.begin() + ptrdiff_t(i));
    return attempt(other);
  }

  bool splitBundle(size_t s, bool sums, size_t i) {
    const Firsts &firsts = firstsOf(current, s, sums);
    const std::vector<int32_t> &all = withGradients[s];
    const auto begin = std::upper_bound(all.begin(), all.end(), firsts[i]) - all.begin();
    const auto end = i + 1 == firsts.size() ? ptrdiff_t(all.size())
                                            : std::lower_bound(all.begin(), all.end(), firsts[i + 1]) - all.begin();
    std::set<ptrdiff_t> places{begin, begin + (end - begin) / 4, (begin + end) / 2, end - 1};
    for (const ptrdiff_t place : places) {
      if (place < begin || place >= end)
        continue;
      Bundling other = current;
      Firsts &own = firstsOf(other, s, sums);
      own.insert(own.begin() + ptrdiff_t(i) + 1, all[size_t(place)]);
      if (sums)
        other.stages[s].whole.insert(other.stages[s].whole.begin() + ptrdiff_t(i), bool(other.stages[s].whole[i]));
      if (attempt(other))
        return true;
    }
    return false;
  }

  /// Collectives that stand next to each other change places, where that helps.
  void swapNeighbours() {
    for (bool any = true; any && !done();) {
      any = false;
      for (size_t rank = 0; rank != best.exchange.queues.size(); ++rank)
        for (size_t i = 0; i + 1 < best.exchange.queues[rank].size() && !done(); ++i) {
          Exchange other = best.exchange;
          std::swap(other.queues[rank][i], other.queues[rank][i + 1]);
          const Collective &first = other.queues[rank][i], &second = other.queues[rank][i + 1];
          const bool apart = first.stage != second.stage || first.firstLayer > second.lastLayer() ||
                             second.firstLayer > first.lastLayer();
          if (!first.isSum() && second.isSum() && !apart) // a gather behind what it gathers
            continue;
          const Time before = best.time;
          any |= judgeOf(std::move(other)) < before;
        }
    }
  }

  bool toggle(size_t s, size_t i) {
    Bundling other = current;
    other.stages[s].whole[i] = !other.stages[s].whole[i];
    return attempt(other);
  }

  const ExchangeInput &input;
  const ExchangeChoice &choice;
  const JudgeExchange &judge;
  std::vector<std::vector<int32_t>> withGradients; // of each stage
  struct Tried {
    Time time = 0;
    Bundling bundling;
    int64_t number = 0; // of all that were judged
  };
  std::vector<Tried> tried; // beginnings
  Tried bestBundling{};
  uint64_t seed = 0x9e3779b97f4a7c15u;
  bool beginning = true;
  bool takesEqual = false; // a change that makes the step no longer is taken too
  Bundling current;
  Time currentTime = std::numeric_limits<Time>::max();
  ChosenExchange best;
  std::map<Digest, Time> times; // of what has been judged
  int64_t judged = 0;
};

} // namespace

ChosenExchange chooseExchange(const ExchangeInput &input, const ExchangeChoice &choice, const JudgeExchange &judge) {
  return Chooser(input, choice, judge).run();
}

Bundling decoupled(const ExchangeInput &input, const Bundling &from, Time now, const JudgeExchange &judge) {
  const ExchangeChoice choice;
  return Chooser(input, choice, judge).decouple(from, now);
}

Bundling fused(const ExchangeInput &input, const Bundling &from, Time now, const JudgeExchange &judge) {
  const ExchangeChoice choice;
  return Chooser(input, choice, judge).fuse(from, now);
}

} // namespace pipec::schedule
