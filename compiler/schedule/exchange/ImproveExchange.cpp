#include "compiler/schedule/exchange/ImproveExchange.h"

#include <algorithm>
#include <limits>
#include <set>

namespace pipec::schedule {
namespace {

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
    while (!done() && !choice.fusion && improve()) {
    }
    best.judged = judged;
    return best;
  }

private:
  using Firsts = std::vector<int32_t>; // of bundles

  bool done() const { return judged >= choice.most || best.time <= choice.lower; }

  bool attempt(const Bundling &bundling) {
    if (done())
      return false;
    Exchange exchange = inOrderOfNeed(input, bundling, input.replicas.mayShard);
    ++judged;
    const Time time = judge(exchange);
    if (time >= best.time)
      return false;
    best.time = time;
    best.exchange = std::move(exchange);
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

  Bundling bundlingOf(const std::vector<Firsts> &sums, const std::vector<Firsts> &gathers, bool whole) const {
    Bundling bundling(sums.size());
    for (size_t s = 0; s != sums.size(); ++s) {
      bundling[s].sums = sums[s];
      bundling[s].gathers = gathers[s];
      bundling[s].whole.assign(sums[s].size(), whole);
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
    if (!choice.mayDecouple)
      return;
    // Sums and gathers by sizes of their own, growing at several rates; by turns.
    const std::vector<int64_t> rates = {100, 125, 160, 220, 350};
    const std::vector<Bytes> firsts = {all / 400, all / 150, all / 60, all / 25};
    std::vector<std::vector<Firsts>> shapes;
    for (const Bytes first : firsts)
      for (const int64_t rate : rates)
        for (const Bytes most : {all / 12, all / 5, all})
          shapes.push_back(ofStages([&](const auto &layers) { return growing(layers, std::max<Bytes>(first, 1), rate, most); }));
    for (const Bytes size : {sumSize, gatherSize})
      shapes.push_back(ofStages([&](const auto &layers) { return bundlesBelow(layers, size); }));
    std::vector<Firsts> sums = shapes.back(), gathers = shapes.back();
    for (int turn = 0; turn != 2; ++turn) {
      for (const auto &shape : shapes)
        if (attempt(bundlingOf(shape, gathers, false)))
          sums = shape;
      for (const auto &shape : shapes)
        if (attempt(bundlingOf(sums, shape, false)))
          gathers = shape;
    }
  }

  /// One round of small changes, each kept if it helps. False: none did.
  bool improve() {
    bool any = false;
    for (size_t s = 0; s != current.size() && !done(); ++s)
      for (const bool sums : {true, false}) {
        // From the first layers on, which matter most.
        for (size_t i = 1; i < firstsOf(current, s, sums).size() && !done(); ++i)
          any |= moveBoundary(s, sums, i);
        for (size_t i = 0; i < firstsOf(current, s, sums).size() && !done(); ++i)
          any |= splitBundle(s, sums, i);
        if (sums && choice.mayReduce && choice.mayDecouple)
          for (size_t i = 0; i < current[s].sums.size() && !done(); ++i)
            any |= toggle(s, i);
      }
    return any;
  }

  static Firsts &firstsOf(Bundling &bundling, size_t s, bool sums) {
    return sums ? bundling[s].sums : bundling[s].gathers;
  }

  bool moveBoundary(size_t s, bool sums, size_t i) {
    const std::vector<int32_t> &all = withGradients[s];
    for (const int by : {1, -1, 2, -2, 5, -5, 0}) { // 0: it goes
      Bundling other = current;
      Firsts &firsts = firstsOf(other, s, sums);
      if (by == 0) {
        firsts.erase(firsts.begin() + ptrdiff_t(i));
        if (sums)
          other[s].whole.erase(other[s].whole.begin() + ptrdiff_t(i));
      } else {
        const auto at = std::lower_bound(all.begin(), all.end(), firsts[i]) - all.begin() + by;
        if (at < 0 || at >= ptrdiff_t(all.size()))
          continue;
        firsts[i] = all[size_t(at)];
        if (firsts[i] <= firsts[i - 1] || (i + 1 != firsts.size() && firsts[i] >= firsts[i + 1]))
          continue;
      }
      if (attempt(other))
        return true;
    }
    return false;
  }

  bool splitBundle(size_t s, bool sums, size_t i) {
    const Firsts &firsts = firstsOf(current, s, sums);
    const std::vector<int32_t> &all = withGradients[s];
    const auto begin = std::upper_bound(all.begin(), all.end(), firsts[i]) - all.begin();
    const auto end = i + 1 == firsts.size()
                         ? ptrdiff_t(all.size())
                         : std::lower_bound(all.begin(), all.end(), firsts[i + 1]) - all.begin();
    std::set<ptrdiff_t> places{begin, begin + (end - begin) / 4, (begin + end) / 2, end - 1};
    for (const ptrdiff_t place : places) {
      if (place < begin || place >= end)
        continue;
      Bundling other = current;
      Firsts &own = firstsOf(other, s, sums);
      own.insert(own.begin() + ptrdiff_t(i) + 1, all[size_t(place)]);
      if (sums)
        other[s].whole.insert(other[s].whole.begin() + ptrdiff_t(i), bool(other[s].whole[i]));
      if (attempt(other))
        return true;
    }
    return false;
  }

  bool toggle(size_t s, size_t i) {
    Bundling other = current;
    other[s].whole[i] = !other[s].whole[i];
    return attempt(other);
  }

  const ExchangeInput &input;
  const ExchangeChoice &choice;
  const JudgeExchange &judge;
  std::vector<std::vector<int32_t>> withGradients; // of each stage
  Bundling current;
  ChosenExchange best;
  int64_t judged = 0;
};

} // namespace

ChosenExchange chooseExchange(const ExchangeInput &input, const ExchangeChoice &choice, const JudgeExchange &judge) {
  return Chooser(input, choice, judge).run();
}

} // namespace pipec::schedule
