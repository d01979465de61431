// Prices of a rank's memory and running: what a rank of several stages can do at most in a given time, all its
// microbatches together.
//
// Let T be a rank's time from its first start to its own end. Give each moment t of it a price y(t) >= 0 for all of its
// memory and a price z(t) >= 0 for its running. A microbatch pays y for the share of the memory that it holds: of each
// stage a from the start of F to the end of B, o from there to the end of W; and z while one of its passes runs. No
// moment sells more than all of its memory and all of its running, so all microbatches together pay no more than the
// integral of y + z. If each of them pays P at least, wherever in T its passes lie, and m P is more than that integral,
// then T is too short. This proves the bound, whatever the prices are.
//
// What a microbatch pays at least: data need least times between its passes. So the slack of a pass, its time less the
// earliest possible, is no less than that of the pass before it. Prices are constant in each of some cells of T, so
// what a pass pays is piecewise linear in its slack, and some cheapest choice of slacks lies where one of these
// functions bends or where T ends. All such choices are tried, in integers, from the last pass to the first: a pass's
// cost plus the least cost of what follows it.
//
// Good prices are the dual prices of the linear program that packs as many microbatches, or parts of them, into T as
// fit. Its columns are the cheapest choices of slacks at the prices so far, found by the same calculation.
#include "compiler/schedule/bounds/BoundsMemory.h"
#include "compiler/schedule/bounds/Packing.h"
#include "runtime/plan/Limits.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace pipec::schedule::bounds {

namespace {

constexpr Wide kWhole = Wide(1) << 30; // a rank's memory, and its running
constexpr Wide kPrice = Wide(1) << 20; // the highest
constexpr int kCells = 64;

/// A pass of a microbatch on the rank. Its time is its start (F) or its end (B, W), from the rank's first start on.
struct Pass {
  Wide earliest = 0; // its time, where nothing waits
  Wide tail = 0;     // least from its time to the rank's end
  Wide length = 0;
  Wide bytes = 0; // of kWhole, held from its time on (F), or free from then on
  bool isForward = false;
  size_t after = 0; // the pass before it; of the first, itself
};

class Prices {
public:
  Prices(const View &view, const RankView &rank) {
    const auto share = [&](Wide bytes) { return bytes * kWhole / rank.capacity; };
    const Wide origin = view.stages[size_t(rank.first)].headF;
    for (const int32_t s : rank.stages) {
      const StageView &stage = view.stages[size_t(s)];
      passes.push_back({.earliest = stage.headF - origin,
                        .length = stage.f,
                        .bytes = share(stage.a) + share(stage.o),
                        .isForward = true,
                        .after = passes.empty() ? 0 : passes.size() - 1});
    }
    size_t before = passes.size() - 1;
    for (size_t i = rank.stages.size(); i-- > 0;) {
      const StageView &stage = view.stages[size_t(rank.stages[i])];
      const Wide end = stage.headB + stage.b - origin;
      passes.push_back({end, stage.rankTail, stage.b, share(stage.a), false, before});
      before = passes.size() - 1;
      if (stage.w > 0 || stage.o > 0)
        passes.push_back({end + stage.w, rank.optimizer, stage.w, share(stage.o), false, before});
    }
  }

  /// Looks for prices that prove that m microbatches take more than T. Returns about how many fit into T at most, and
  /// whether the proof holds.
  std::pair<double, bool> fitting(Wide newTime, Wide m) {
    time = newTime;
    makePoints();
    Packing packing(2 * cells());
    std::vector<double> prices(2 * cells(), 1.0), best = prices;
    double most = 2.0 * double(limits::kMicrobatches);
    bool isProven = false;
    for (int round = 0; round < kRounds; ++round) {
      setPrices(prices);
      const Wide least = cheapest(), sold = kWhole * (memory.sum.back() + running.sum.back());
      if (least >= kNever)
        return {0, true}; // not even one fits
      isProven = isProven || least > sold / m;
      if (const double fits = double(sold) / double(least); fits < most) {
        most = fits;
        const double each = most / std::accumulate(prices.begin(), prices.end(), 0.0);
        best = prices;
        for (double &price : best)
          price *= each; // a microbatch then pays 1 about
      }
      const double taken = packing.taken();
      if (taken > 1.02 * double(m) || taken > 0.998 * most)
        break;
      addThings(packing);
      packing.solve(400);
      // Between those and the best so far: the program's own leap about.
      for (size_t i = 0; i < prices.size(); ++i)
        prices[i] = (best[i] + std::max(0.0, packing.prices()[i])) / 2;
    }
    return {most, isProven};
  }

private:
  static constexpr int kRounds = 60;

  struct Place {
    size_t cell = 0;
    Wide into = 0;
  };
  /// A price for each cell, and that of everything before its start.
  struct Priced {
    std::vector<Wide> each, sum;
    Wide until(const Place &place) const { return sum[place.cell] + each[place.cell] * place.into; }
  };

  std::vector<Pass> passes;
  Wide time = 0;
  std::vector<Wide> edges;                  // of cells
  std::vector<Wide> points;                 // slacks to be tried
  std::vector<std::array<Place, 2>> places; // pass by pass, point by point: its time, and its other end
  Priced memory, running;
  std::vector<std::vector<Wide>> cost;     // pass by pass, by least slack: the least that it and those behind it pay
  std::vector<std::vector<size_t>> choice; // and its slack there

  size_t cells() const { return edges.size() - 1; }

  void makePoints() {
    edges.clear();
    for (int i = 0; i <= kCells; ++i)
      if (const Wide edge = time * i / kCells; edges.empty() || edge > edges.back())
        edges.push_back(edge);
    points.assign(1, 0);
    for (const Pass &pass : passes) {
      points.push_back(time - pass.tail - pass.earliest);
      for (const Wide edge : edges)
        for (const Wide at : {edge, pass.isForward ? edge - pass.length : edge + pass.length})
          points.push_back(at - pass.earliest);
    }
    std::erase_if(points, [&](Wide point) { return point < 0 || point > time; });
    std::sort(points.begin(), points.end());
    points.erase(std::unique(points.begin(), points.end()), points.end());
    places.clear();
    for (const Pass &pass : passes)
      for (const Wide point : points) {
        const Wide at = pass.earliest + point;
        places.push_back({placeOf(at), placeOf(pass.isForward ? at + pass.length : at - pass.length)});
      }
  }

  /// Of what lies outside T, its end.
  Place placeOf(Wide at) const {
    at = std::clamp<Wide>(at, 0, time);
    const auto next = std::upper_bound(edges.begin() + 1, edges.end() - 1, at);
    return {size_t(next - edges.begin()) - 1, at - *(next - 1)};
  }

  /// In integers, as those of the program are of all of a cell.
  void setPrices(const std::vector<double> &prices) {
    const double shortest = double(time) / double(cells()) / 2,
                 largest = *std::max_element(prices.begin(), prices.end());
    const double *from = prices.data();
    for (Priced *priced : {&memory, &running}) {
      priced->each.clear();
      priced->sum.assign(1, 0);
      for (size_t i = 0; i < cells(); ++i) {
        const Wide length = edges[i + 1] - edges[i];
        const double part = shortest / std::max(double(length), shortest);
        priced->each.push_back(Wide(std::max(*from++, 0.0) / largest * part * double(kPrice)));
        priced->sum.push_back(priced->sum.back() + priced->each.back() * length);
      }
    }
  }

  Wide cheapest() {
    cost.assign(passes.size(), std::vector<Wide>(points.size(), 0));
    choice.assign(passes.size(), std::vector<size_t>(points.size(), 0));
    for (size_t k = passes.size(); k-- > 0;) {
      const Pass &pass = passes[k];
      std::vector<Wide> &own = cost[k];
      for (size_t i = points.size(); i-- > 0;) {
        const auto &[at, other] = places[k * points.size() + i];
        const Wide paid = pass.bytes * memory.until(at) + kWhole * (running.until(at) - running.until(other));
        const bool fits = own[i] < kNever && pass.earliest + points[i] + pass.tail <= time;
        own[i] = fits ? own[i] + (pass.isForward ? -paid : paid) : kNever;
        choice[k][i] = i;
        if (i + 1 < points.size() && own[i + 1] < own[i]) {
          own[i] = own[i + 1];
          choice[k][i] = choice[k][i + 1];
        }
      }
      for (size_t i = 0; k > 0 && i < points.size(); ++i)
        cost[pass.after][i] += own[i];
    }
    return cost[0][0];
  }

  /// Of some least slacks of the first pass, the cheapest choice.
  void addThings(Packing &packing) const {
    constexpr size_t kThings = 12;
    size_t last = points.size();
    for (size_t n = 0; n < kThings; ++n) {
      const size_t start = choice[0][points.size() * n / kThings];
      if (start == last || cost[0][start] >= kNever)
        continue;
      last = start;
      std::vector<double> sizes(2 * cells(), 0.0);
      std::vector<size_t> slack(passes.size(), start);
      for (size_t k = 0; k < passes.size(); ++k) {
        const Pass &pass = passes[k];
        slack[k] = choice[k][k == 0 ? start : slack[pass.after]];
        const Wide at = pass.earliest + points[slack[k]];
        // Held from its time to the end, or no longer so.
        spread(&sizes[0], at, time, double(pass.bytes) / double(kWhole) * (pass.isForward ? 1 : -1));
        spread(&sizes[cells()], pass.isForward ? at : at - pass.length, pass.isForward ? at + pass.length : at, 1);
      }
      packing.add(std::move(sizes));
    }
  }

  void spread(double *sizes, Wide from, Wide to, double amount) const {
    for (size_t i = 0; i < cells(); ++i)
      if (const Wide part = std::min(to, edges[i + 1]) - std::max(from, edges[i]); part > 0)
        sizes[i] += amount * double(part) / double(edges[i + 1] - edges[i]);
  }
};

} // namespace

/// For the narrowest rank, from the bound that other arguments have proven on. If a step is shown to be too short, how
/// much longer the next one to try is, is guessed from how many microbatches did not fit. Where memory alone takes far
/// less time than others have proven, there is nothing to find.
void prices(const View &view, Best &best) {
  constexpr int kTries = 4;
  constexpr size_t kStages = 2; // of one, others prove as much; of more, the time it takes is their number squared
  const auto [rank, fill, work] = narrowest(view);
  if (!view.inOrder || !rank)
    return;
  const Wide head = view.stages[size_t(rank->first)].headF, m = view.microbatches;
  Wide proven = -1, proposed = std::min(best.span, best.makespan - head), refuted = kNever;
  if (4 * fill * m <= 3 * proposed || rank->stages.size() != kStages)
    return;
  Prices own(view, *rank);
  double fitting = 0; // into `proven`
  for (int n = 0; n < kTries && proposed < limits::kTime; ++n) {
    const auto [most, isProven] = own.fitting(proposed, m);
    if (isProven) {
      proven = proposed;
      fitting = most;
    } else if (proven < 0) {
      return;
    } else {
      refuted = proposed;
    }
    proposed = refuted == kNever
                   ? proven + Wide(std::max(0.0, double(m) * 0.995 - fitting) * double(std::max(fill, work)))
                   : proven + (refuted - proven) * 3 / 4;
    if (proposed - proven < proven / 500)
      break;
  }
  if (proven >= 0)
    best.offer(head + proven + 1, proven + 1, Argument::Area);
}

} // namespace pipec::schedule::bounds
