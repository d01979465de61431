// Prices of a rank's memory and run time: what all microbatches together can do at most, in a given time, on a rank
// with several stages.
//
// Let T be the time of a rank from its first start to its own end. Each moment t of T gets a price y(t) >= 0 for all of
// the rank's memory and a price z(t) >= 0 for running. A microbatch pays y in proportion to the memory it holds: for
// each stage, a from the start of F to the end of B, and o from there to the end of W. It pays z while one of its
// passes runs. Since no moment can sell more than all memory and all run time, all microbatches together pay at most
// the integral of y + z. If each microbatch pays at least P, wherever its passes lie in T, and m P exceeds the
// integral, then T is too short. This proves the bound for any prices.
//
// The least payment of a microbatch: data forces least times between its passes. So the slack of a pass (its time less
// its earliest possible time) is at least the slack of the pass before. Prices are constant within each of the cells
// into which T is divided. So the payment of a pass is piecewise linear in its slack, and some cheapest choice of
// slacks lies where one of these functions bends or where T ends. All such choices are tried, in integers, from the
// last pass to the first: the cost of a pass plus the least cost of the passes that follow.
//
// Good prices are the dual prices of the linear program that packs as many microbatches, whole or in parts, into T as
// fit. Its columns are the cheapest choices of slacks at the prices so far, found by the same calculation.
#include "compiler/schedule/bounds/BoundsMemory.h"
#include "compiler/schedule/bounds/Packing.h"
#include "runtime/plan/Limits.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace pipec::schedule::bounds {

namespace {

constexpr Wide kWhole = Wide(1) << 30; // all memory of a rank; also all of its run time
constexpr Wide kPrice = Wide(1) << 20; // the highest price
constexpr int kCells = 64;

/// A pass of a microbatch on the rank. The time of a pass is its start (F) or its end (B, W), counted from the rank's
/// first start.
struct Pass {
  Wide earliest = 0; // its time if nothing waits
  Wide tail = 0;     // least time from its time to the rank's end
  Wide length = 0;
  Wide bytes = 0; // in units of 1 / kWhole of memory: taken at its time (F) or freed then (B, W)
  bool isForward = false;
  size_t after = 0; // the pass that it follows; the first pass follows itself
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

  /// Looks for prices that prove that m microbatches take more than T. Returns an upper estimate of how many fit into
  /// T, and whether the proof holds.
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
          price *= each; // at these prices a microbatch pays about 1
      }
      const double taken = packing.taken();
      if (taken > 1.02 * double(m) || taken > 0.998 * most)
        break;
      addThings(packing);
      packing.solve(400);
      // Uses the mean of the new prices and the best prices so far: the new prices of the program alone jump about.
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
  /// The price per picosecond in each cell, and the sum of prices before the start of each cell.
  struct Priced {
    std::vector<Wide> each, sum;
    Wide until(const Place &place) const { return sum[place.cell] + each[place.cell] * place.into; }
  };

  std::vector<Pass> passes;
  Wide time = 0;
  std::vector<Wide> edges;                  // borders of cells
  std::vector<Wide> points;                 // slacks to be tried
  std::vector<std::array<Place, 2>> places; // by pass, then point: where the pass starts and ends (first its time)
  Priced memory, running;
  /// By pass, then least slack: the least payment of the pass and those after it.
  std::vector<std::vector<Wide>> cost;
  std::vector<std::vector<size_t>> choice; // the slack that has that cost, as an index into `points`

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

  /// A time outside T is moved to the nearer end of T.
  Place placeOf(Wide at) const {
    at = std::clamp<Wide>(at, 0, time);
    const auto next = std::upper_bound(edges.begin() + 1, edges.end() - 1, at);
    return {size_t(next - edges.begin()) - 1, at - *(next - 1)};
  }

  /// Converts the program's prices, which are per cell, into integer prices per picosecond.
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

  /// For some least slacks of the first pass: adds the cheapest choice of slacks to the packing.
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
        // F: held from its time to the end. B, W: no longer held from its time on.
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

/// For the rank with the scarcest memory, starting at the best bound so far. After a proof that a step is too short,
/// the next, longer step is guessed from how many microbatches did not fit. Where memory alone takes far less time than
/// the bound so far, the search is skipped.
void prices(const View &view, Best &best) {
  constexpr int kTries = 4;
  // With one stage other arguments prove as much; the time grows with the square of the stages.
  constexpr size_t kStages = 2;
  const auto [rank, fill, work] = narrowest(view);
  if (!view.inOrder || !rank)
    return;
  const Wide head = view.stages[size_t(rank->first)].headF, m = view.microbatches;
  Wide proven = -1, proposed = std::min(best.span, best.makespan - head), refuted = kNever;
  if (4 * fill * m <= 3 * proposed || rank->stages.size() != kStages)
    return;
  Prices own(view, *rank);
  double fitting = 0; // how many microbatches fit into `proven`
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
