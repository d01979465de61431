#include "compiler/schedule/cut/Balance.h"

#include <algorithm>
#include <numeric>

namespace pipec::schedule {

namespace {

/// Whether cuts exist whose busiest rank has at most some work. `at(i)` is the work of the first i layers.
class Feasible {
public:
  explicit Feasible(const CutWork &work)
      : count(int64_t(work.layers.size())), stages(int64_t(work.stages())), perStage(work.perStage) {
    sums.assign(1, 0);
    for (const Time each : work.layers)
      sums.push_back(sums.back() + each);
    for (const int32_t rank : work.rankOf)
      ranks = std::max<int64_t>(ranks, rank + 1);
    const auto same = [&](auto partner) {
      for (int64_t s = 0; s != stages; ++s)
        if (work.rankOf[size_t(s)] != work.rankOf[size_t(partner(s))])
          return false;
      return true;
    };
    isSingle = work.copies == 1 && stages == ranks;
    copies = work.copies;
    isLoop = copies == 1 && stages == 2 * ranks && same([&](int64_t s) { return (s + ranks) % stages; });
    isBack = copies == 1 && stages == 2 * ranks && same([&](int64_t s) { return stages - 1 - s; });
  }

  const int64_t count, stages;
  int64_t ranks = 0;
  int32_t copies = 1;
  bool isSingle = false;               // one stage a rank
  bool isLoop = false, isBack = false; // two stages a rank: s and s + ranks, or s and the one as far from the end

  Work total() const { return (sums.back() + Work(perStage) * stages) * copies; }
  Work heaviest() const {
    Work most = 0;
    for (int64_t i = 0; i != count; ++i)
      most = std::max(most, sums[size_t(i + 1)] - sums[size_t(i)]);
    return most + perStage;
  }

  /// One stage a rank: each takes as many layers as it may.
  bool single(Work most, Cut *cut = nullptr) const {
    int64_t from = 0;
    for (int64_t s = 0; s != stages; ++s) {
      const int64_t to = std::min(upTo(from, most - perStage), count - (stages - 1 - s));
      if (to <= from)
        return false;
      if (cut)
        cut->push_back(to - from);
      from = to;
    }
    return from == count;
  }

  /// Two stages a rank in a V: the rank takes layers from the front and from the back. For each number of layers from
  /// the front, the most from the back.
  bool back(Work most, Cut *cut = nullptr) const {
    const auto taken = [&](int64_t from, Work left) { // from the back
      return count -
             int64_t(std::lower_bound(sums.begin(), sums.end(), sums[size_t(count - from)] - left) - sums.begin());
    };
    const auto end = [&](int64_t front, int64_t later) { return count - front - later; };
    return pairs(count, 0, most, taken, end, cut);
  }

  /// Two stages a rank in a loop: the first ranks' stages end with layer `middle`.
  bool loop(int64_t middle, Work most, Cut *cut = nullptr) const {
    const auto taken = [&](int64_t from, Work left) { return upTo(from, left); };
    const auto end = [&](int64_t, int64_t) { return count; };
    return pairs(middle, middle, most, taken, end, cut);
  }

private:
  /// The largest end of a stage that begins with layer `from` and has at most so much work.
  int64_t upTo(int64_t from, Work left) const {
    return int64_t(std::upper_bound(sums.begin() + from, sums.end(), sums[size_t(from)] + left) - sums.begin()) - 1;
  }

  /// Rank after rank takes layers [i, i') of the first side, which has `first`, and as many of the other as its work
  /// allows, maybe none (else more of them could be worse for those behind): `taken(j, left)` is how far that goes from
  /// j, at most to `end(i', ranks after it)`.
  template <typename Taken, typename End>
  bool pairs(int64_t first, int64_t other, Work most, Taken taken, End end, Cut *cut) const {
    constexpr int64_t kNot = -1;
    most -= 2 * Work(perStage);
    std::vector<int64_t> reach(size_t(first + 1), kNot), next; // by layers of the first side: the most of the other
    reach[0] = other;
    std::vector<std::vector<int64_t>> before; // by rank and i': i
    std::vector<std::vector<int64_t>> reached{reach};
    for (int64_t r = 0; r != ranks; ++r) {
      next.assign(reach.size(), kNot);
      std::vector<int64_t> from(reach.size(), kNot);
      for (int64_t i = 0; i < first; ++i)
        if (const int64_t held = reach[size_t(i)]; held != kNot)
          for (int64_t to = i + 1; to <= first && sums[size_t(to)] - sums[size_t(i)] <= most; ++to)
            if (const int64_t now =
                    std::min(taken(held, most - (sums[size_t(to)] - sums[size_t(i)])), end(to, ranks - 1 - r));
                now > next[size_t(to)]) {
              next[size_t(to)] = now;
              from[size_t(to)] = i;
            }
      reach = next;
      if (cut) {
        before.push_back(std::move(from));
        reached.push_back(reach);
      }
    }
    for (int64_t i = first; i > 0; --i)
      if (reach[size_t(i)] != kNot && reach[size_t(i)] == (isBack ? count - i : i == first ? count : kNot)) {
        if (cut)
          *cut = unwind(before, reached, i);
        return true;
      }
    return false;
  }

  Cut unwind(const std::vector<std::vector<int64_t>> &before, const std::vector<std::vector<int64_t>> &reached,
             int64_t front) const {
    Cut cut(static_cast<size_t>(stages));
    for (int64_t r = ranks; r-- > 0;) {
      const int64_t from = before[size_t(r)][size_t(front)];
      cut[size_t(r)] = front - from;
      cut[size_t(isBack ? stages - 1 - r : ranks + r)] =
          reached[size_t(r) + 1][size_t(front)] - reached[size_t(r)][size_t(from)];
      front = from;
    }
    return cut;
  }

  const Time perStage;
  std::vector<Work> sums;
};

constexpr int64_t kMostSteps = 40'000'000; // of a table

/// The textbook's dynamic program: `least[i]` is the slowest of so many stages over the first i layers, at best. Of
/// equal cuts the one whose last stage begins first, or last.
Cut fastestPrefixes(const CutWork &work, bool first) {
  const size_t count = work.layers.size(), stages = work.stages();
  std::vector<Work> sums(count + 1), least(count + 1), next;
  for (size_t i = 0; i != count; ++i)
    sums[i + 1] = sums[i] + work.layers[i];
  std::vector<std::vector<uint32_t>> from(stages, std::vector<uint32_t>(count + 1));
  least = sums; // one stage
  for (size_t s = 1; s != stages; ++s) {
    next.assign(count + 1, -1);
    for (size_t i = s + 1; i <= count; ++i)
      for (size_t j = s; j != i; ++j)
        if (const Work slowest = std::max(least[j], sums[i] - sums[j]);
            next[i] < 0 || (first ? slowest < next[i] : slowest <= next[i])) {
          next[i] = slowest;
          from[s][i] = uint32_t(j);
        }
    std::swap(least, next);
  }
  Cut cut(stages);
  for (size_t s = stages, end = count; s-- > 0;) {
    const size_t begin = s == 0 ? 0 : from[s][end];
    cut[s] = int64_t(end - begin);
    end = begin;
  }
  return cut;
}

/// The least work for which there is a cut; `fits` is monotone, and true for `most`.
template <typename Fits> Work least(Work low, Work most, Fits fits) {
  while (low < most) {
    const Work middle = low + (most - low) / 2;
    if (fits(middle))
      most = middle;
    else
      low = middle + 1;
  }
  return most;
}

} // namespace

Work busiest(const CutWork &work, const Cut &cut) {
  std::vector<Work> ofRank;
  size_t layer = 0;
  for (size_t s = 0; s != cut.size(); ++s) {
    Work own = work.perStage;
    for (int64_t i = 0; i != cut[s]; ++i)
      own += work.layers[layer++];
    for (size_t each = s; each < work.rankOf.size(); each += cut.size()) { // in each copy
      const auto rank = size_t(work.rankOf[each]);
      if (rank >= ofRank.size())
        ofRank.resize(rank + 1);
      ofRank[rank] += own;
    }
  }
  for (size_t rank = 0; rank != std::min(ofRank.size(), work.percent.size()); ++rank)
    ofRank[rank] = ofRank[rank] * work.percent[rank] / 100;
  return *std::max_element(ofRank.begin(), ofRank.end());
}

/// Of all work, what should go to a stage: the slower its rank, the less.
static Work shareOf(const CutWork &work, int64_t stage) {
  constexpr Work kShare = 1'000'000;
  return work.percent.empty() ? 1 : kShare / work.percent[size_t(work.rankOf[size_t(stage)])];
}

Cut sharedCut(const CutWork &work) {
  const auto count = int64_t(work.layers.size()), stages = int64_t(work.stages());
  const Work total = std::accumulate(work.layers.begin(), work.layers.end(), Work(0));
  Work all = 0; // shares
  for (int64_t s = 0; s != stages; ++s)
    all += shareOf(work, s);
  Cut cut;
  int64_t from = 0;
  Work done = 0, shares = 0;
  for (int64_t s = 0; s != stages; ++s) {
    shares += shareOf(work, s);
    int64_t to = from;
    while (to < count - (stages - 1 - s) &&
           (to == from || s + 1 == stages ||
            2 * (done * all) + Work(work.layers[size_t(to)]) * all <= 2 * (total * shares)))
      done += work.layers[size_t(to++)];
    cut.push_back(to - from);
    from = to;
  }
  return cut;
}

Balance balance(const CutWork &work) {
  const Feasible feasible(work);
  Balance made;
  made.cut = sharedCut(work);
  if (!work.percent.empty()) {
    Work speed = 0; // of all ranks, in parts of what one does that takes as much as its work says
    constexpr Work kParts = 1'000'000;
    for (const int64_t percent : work.percent)
      speed += (100 * kParts + percent - 1) / percent;
    made.least = feasible.total() * kParts / speed;
    return made;
  }
  const Work most = busiest(work, made.cut);
  made.least = std::max(feasible.heaviest(), (feasible.total() + feasible.ranks - 1) / feasible.ranks);
  const int64_t count = feasible.count, table = feasible.ranks * count * count / 2;
  Cut cut;
  if (feasible.isSingle) {
    made.least = least(made.least, most, [&](Work each) { return feasible.single(each); });
    feasible.single(made.least, &cut);
  } else if (feasible.isBack && table < kMostSteps / 8) {
    made.least = least(made.least, most, [&](Work each) { return feasible.back(each); });
    feasible.back(made.least, &cut);
  } else if (feasible.isLoop && table / 2 < kMostSteps / count) {
    const Work mean = made.least;
    made.least = most;
    int64_t best = -1;
    for (int64_t middle = feasible.ranks; middle <= count - feasible.ranks && made.least > mean; ++middle)
      if (feasible.loop(middle, made.least - 1)) {
        made.least = least(mean, made.least - 1, [&](Work each) { return feasible.loop(middle, each); });
        best = middle;
      }
    if (best >= 0)
      feasible.loop(best, made.least, &cut);
  }
  if (!cut.empty() && *std::min_element(cut.begin(), cut.end()) > 0)
    made.cut = std::move(cut);
  return made;
}

std::vector<Cut> slowestFastest(const CutWork &work) {
  CutWork each = work;
  each.percent.clear();
  each.copies = 1;
  each.rankOf.resize(work.stages());
  std::iota(each.rankOf.begin(), each.rankOf.end(), 0);
  std::vector<Cut> cuts;
  const auto add = [&](bool back) {
    std::vector<Cut> made{balance(each).cut};
    for (const bool first : {true, false})
      if (const int64_t count = int64_t(each.layers.size()); int64_t(each.stages()) * count < kMostSteps / count)
        made.push_back(fastestPrefixes(each, first));
    for (Cut &one : made) {
      if (back)
        std::reverse(one.begin(), one.end());
      cuts.push_back(std::move(one));
    }
  };
  add(false);
  std::reverse(each.layers.begin(), each.layers.end());
  add(true);
  return cuts;
}

int64_t countCuts(int64_t layers, int64_t stages, int64_t most) {
  __int128 count = 1; // of the layers - 1 places between layers, stages - 1 are chosen, or as well left out
  for (int64_t i = 1; i <= std::min(stages - 1, layers - stages) && count <= most; ++i)
    count = count * (layers - i) / i;
  return count > most ? most + 1 : int64_t(count);
}

} // namespace pipec::schedule
