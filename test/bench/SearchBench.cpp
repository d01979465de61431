// How near the search comes to its bounds on the grid of test/bench/catalogue.csv:
//   bench-search --grid                          writes the grid itself
//   bench-search CATALOGUE.csv [MOST_RANKS]      solves it, each row as CSV on standard output, then the shares of gap
//                                                zero, at most 1 %, 5 % and 10 % for each band of cap over ranks
//   bench-search CATALOGUE.csv MOST_RANKS MOST_MICROBATCHES MILLISECONDS
//                                                asks the exact search for so long about each row with a gap: how much
//                                                of it is the schedule's fault, how much the bound's, of those it
//                                                closes
//   bench-search CATALOGUE.csv --ablate [STRIDE [WAY…]]
//                                                leaves out one way of the search after another (Ways.h), or those
//                                                named, on every STRIDE-th row: which rows get worse, and by how much
//   bench-search CATALOGUE.csv --mixed [STRIDE]  with whole backwards that take 0.9 (B + W): backward: mixed beside
//   split
//                                                and fused, on every STRIDE-th row; fails where it is longer
//   bench-search --small                         proves all 460 of the family that optima.csv is half of, and times it
#include "compiler/schedule/exact/Exact.h"
#include "compiler/schedule/overlap/Pairing.h"
#include "compiler/schedule/search/Ways.h"
#include "test/bench/Grid.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <thread>

namespace schedule = pipec::schedule;
namespace grid = pipec::schedule::grid;

namespace {

struct Shares {
  int rows = 0, zero = 0, one = 0, five = 0, ten = 0;
  double sum = 0, most = 0;
  std::string worst;
  // Of rows with a gap that the exact search was asked about.
  int asked = 0, closed = 0, scheduleRight = 0, boundRight = 0;
  double scheduleFault = 0, boundFault = 0, left = 0;

  void ask(const schedule::Exact &found, schedule::Time time, schedule::Time bound) {
    ++asked;
    if (!found.bound.isReachedBy(found.time)) {
      left += found.bound.gap(found.time);
      return;
    }
    ++closed;
    scheduleRight += found.time == time;
    boundRight += found.bound.picoseconds() == bound;
    scheduleFault += double(time) / double(found.time) - 1;
    boundFault += double(found.time) / double(bound) - 1;
  }
  void printFaults(const std::string &name) const {
    if (asked > 0)
      fmt::print(stderr, "{:<14} {:>5} {:>6} {:>9} {:>8.2f} {:>9} {:>8.2f} {:>8.2f}\n", name, asked, closed,
                 scheduleRight, closed ? 100 * scheduleFault / closed : 0, boundRight,
                 closed ? 100 * boundFault / closed : 0, asked > closed ? 100 * left / (asked - closed) : 0);
  }

  void add(double gap, const std::string &row) {
    ++rows;
    zero += gap == 0;
    one += gap <= 0.01;
    five += gap <= 0.05;
    ten += gap <= 0.10;
    sum += gap;
    if (gap > most) {
      most = gap;
      worst = row;
    }
  }
  void print(const std::string &name) const {
    const auto share = [&](int count) { return 100.0 * count / rows; };
    fmt::print(stderr, "{:<14} {:>5} {:>6.1f} {:>6.1f} {:>6.1f} {:>6.1f} {:>7.2f} {:>7.2f}  {}\n", name, rows,
               share(zero), share(one), share(five), share(ten), 100 * sum / rows, 100 * most, worst);
  }
};

/// p 2 to 4, m 2 to 8, five cost vectors, every cap that matters, both objectives.
int proveSmall() {
  constexpr schedule::Time kCosts[][4] = {{1, 1, 1, 0}, {10, 11, 7, 1}, {2, 3, 3, 0}, {3, 4, 2, 1}, {4, 5, 3, 2}};
  int rows = 0, proven = 0, optimal = 0;
  double sum = 0, most = 0;
  for (const int32_t p : {2, 3, 4})
    for (const int32_t m : {2, 4, 6, 8})
      for (const auto &[f, b, w, c] : kCosts)
        for (int32_t cap = 1; cap <= std::min(m, 2 * p - 1); ++cap)
          for (const bool span : {false, true}) {
            grid::Row row{p, m, cap, 1000 * f, 1000 * b, 1000 * w, 1000 * c, "one", span};
            schedule::Problem problem = grid::problemOf(row);
            const auto objective = span ? schedule::Objective::Span : schedule::Objective::Makespan;
            const std::optional<schedule::Solution> solution = schedule::solvePaired(problem, {.objective = objective});
            const auto begin = std::chrono::steady_clock::now();
            const std::optional<schedule::Exact> found =
                schedule::exact({schedule::byItself(problem)}, {.objective = objective, .milliseconds = 60'000});
            const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
            ++rows;
            proven += found && found->bound.isReachedBy(found->time);
            optimal += solution && found && solution->time == found->time;
            sum += took;
            most = std::max(most, took);
          }
  fmt::print("{} of {} proven, {:.3f} s each, {:.2f} s at most; the search by itself is optimal on {}\n", proven, rows,
             sum / rows, most, optimal);
  return proven == rows ? 0 : 1;
}

/// Solves each of some rows, side by side.
template <typename Solve> void each(size_t rows, Solve solve) {
  std::atomic<size_t> next = 0;
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i)
    threads.emplace_back([&] {
      for (size_t row = next++; row < rows; row = next++)
        solve(row);
    });
}

/// A way can only have helped where it took part in the end, so only these rows are solved again without it.
int ablate(const std::string &catalogue, size_t stride, std::vector<std::string> ways) {
  std::vector<grid::Row> rows;
  for (const grid::Row &row : grid::read(catalogue))
    rows.push_back(row);
  for (size_t i = 0; i * stride < rows.size(); ++i)
    rows[i] = rows[i * stride];
  rows.resize((rows.size() + stride - 1) / stride);
  const auto solve = [&](const grid::Row &row, const std::vector<std::string> &without) {
    schedule::SolveOptions options;
    options.objective = row.span ? schedule::Objective::Span : schedule::Objective::Makespan;
    options.without = without;
    return schedule::solve(grid::problemOf(row), options);
  };
  std::vector<std::optional<schedule::Solution>> with(rows.size());
  each(rows.size(), [&](size_t i) { with[i] = solve(rows[i], {}); });
  double gaps = 0;
  for (const std::optional<schedule::Solution> &found : with)
    gaps += found ? double(found->time) / double(found->bound) - 1 : 0;
  fmt::print("{} rows, a mean gap of {:.3f} %\n{:<70} {:>6} {:>6} {:>7} {:>8} {:>8} {:>6}  {}\n", rows.size(),
             100 * gaps / double(rows.size()), "without", "asked", "worse", "%", "mean %", "most %", "better",
             "worst row");
  if (ways.empty())
    ways = schedule::allWays();
  for (const std::string &way : ways) {
    std::vector<size_t> asked;
    for (size_t i = 0; i < rows.size(); ++i)
      if (with[i] && with[i]->ways.contains(way))
        asked.push_back(i);
    std::vector<double> worse(asked.size(), 0);
    each(asked.size(), [&](size_t i) {
      const std::optional<schedule::Solution> found = solve(rows[asked[i]], {way});
      worse[i] = found ? double(found->time) / double(with[asked[i]]->time) - 1 : 1;
    });
    int lost = 0, gained = 0;
    double sum = 0, most = 0;
    std::string worst;
    for (size_t i = 0; i < asked.size(); ++i) {
      gained += worse[i] < 0;
      if (worse[i] <= 0)
        continue;
      ++lost;
      sum += worse[i];
      if (worse[i] > most) {
        most = worse[i];
        worst = rows[asked[i]].csv();
      }
    }
    fmt::print("{:<70} {:>6} {:>6} {:>7.2f} {:>8.3f} {:>8.2f} {:>6}  {}\n", way, asked.size(), lost,
               100.0 * lost / double(rows.size()), lost ? 100 * sum / lost : 0, 100 * most, gained, worst);
    std::fflush(stdout);
  }
  return 0;
}

int mix(const std::string &catalogue, size_t stride) {
  int64_t rows = 0, longer = 0;
  std::array<double, 2> gain{}, most{}; // over split, over fused
  const std::vector<grid::Row> all = grid::read(catalogue);
  for (size_t i = 0; i < all.size(); i += stride) {
    const schedule::SolveOptions options{all[i].span ? schedule::Objective::Span : schedule::Objective::Makespan};
    schedule::Problem split = grid::problemOf(all[i]);
    for (schedule::Stage &stage : split.stages)
      stage.backward = (stage.backwardInput + stage.backwardWeight) * 9 / 10;
    schedule::Problem fused = split, mixed = split;
    fused.backward = schedule::BackwardMode::Fused;
    mixed.mixed = true;
    const std::optional<schedule::Solution> both = schedule::solve(mixed, options);
    const std::optional<schedule::Solution> others[] = {schedule::solve(split, options),
                                                        schedule::solve(fused, options)};
    if (!both)
      continue;
    ++rows;
    for (size_t k = 0; k != 2; ++k)
      if (others[k]) {
        longer += both->time > others[k]->time;
        const double its = double(others[k]->time) / double(both->time) - 1;
        gain[k] += its;
        most[k] = std::max(most[k], its);
      }
  }
  fmt::print("{} rows, mixed is longer on {}; split takes {:.2f} % more (at most {:.1f}), fused {:.2f} % (at most "
             "{:.1f})\n",
             rows, longer, 100 * gain[0] / double(rows), 100 * most[0], 100 * gain[1] / double(rows), 100 * most[1]);
  return longer != 0;
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: bench-search --grid | --small | CATALOGUE.csv [MOST_RANKS [MOST_MICROBATCHES "
                       "MILLISECONDS]] | CATALOGUE.csv --ablate [STRIDE [WAY...]] | CATALOGUE.csv --mixed [STRIDE]\n");
    return 2;
  }
  if (std::string(argv[1]) == "--small")
    return proveSmall();
  if (std::string(argv[1]) == "--grid") {
    fmt::print("{}\n", grid::kHeader);
    for (const grid::Row &row : grid::all())
      fmt::print("{}\n", row.csv());
    return 0;
  }
  if (argc > 2 && std::string(argv[2]) == "--ablate")
    return ablate(argv[1], argc > 3 ? size_t(std::max(1, std::atoi(argv[3]))) : 1,
                  {argv + std::min(argc, 4), argv + argc});
  if (argc > 2 && std::string(argv[2]) == "--mixed")
    return mix(argv[1], argc > 3 ? size_t(std::max(1, std::atoi(argv[3]))) : 1);
  const int most = argc > 2 ? std::atoi(argv[2]) : 64;
  const int mostMicrobatches = argc > 3 ? std::atoi(argv[3]) : 1 << 20,
            milliseconds = argc > 4 ? std::atoi(argv[4]) : 0;
  std::map<std::string, Shares> bands;
  bool right = true;
  fmt::print("{},bound,time,gap,source\n", grid::kHeader);
  for (const grid::Row &row : grid::read(argv[1])) {
    if (row.p > most || row.m > mostMicrobatches)
      continue;
    const schedule::Problem problem = grid::problemOf(row);
    schedule::SolveOptions options;
    options.objective = row.span ? schedule::Objective::Span : schedule::Objective::Makespan;
    const std::optional<schedule::Solution> solution = schedule::solvePaired(problem, options);
    if (!solution || solution->bound > solution->time) {
      fmt::print(stderr, "wrong: {}\n", row.csv());
      right = false;
      continue;
    }
    const double gap = double(solution->time) / double(solution->bound) - 1;
    fmt::print("{},{},{},{:.4f},{}\n", row.csv(), solution->bound, solution->time, gap, solution->source);
    const double over = double(row.cap) / row.p;
    const char *band = over < 0.45 ? "< 0.45" : over < 0.8 ? "0.45-0.8" : over < 1.2 ? "0.8-1.2" : ">= 1.2";
    std::optional<schedule::Exact> found;
    if (milliseconds > 0 && gap > 0)
      found = schedule::exact({schedule::byItself(problem)},
                              {.objective = options.objective, .milliseconds = milliseconds});
    for (const std::string &name : {fmt::format("{} {}", row.placement, band), row.placement, std::string("all")}) {
      bands[name].add(gap, row.csv());
      if (found)
        bands[name].ask(*found, solution->time, solution->bound);
    }
  }
  fmt::print(stderr, "{:<14} {:>5} {:>6} {:>6} {:>6} {:>6} {:>7} {:>7}  {}\n", "band", "rows", "gap 0", "<= 1 %",
             "<= 5 %", "<= 10%", "mean %", "max %", "worst");
  for (const auto &[name, shares] : bands)
    shares.print(name);
  if (milliseconds > 0)
    fmt::print(stderr, "{:<14} {:>5} {:>6} {:>9} {:>8} {:>9} {:>8} {:>8}\n", "with a gap", "rows", "closed", "schedule",
               "fault %", "bound", "fault %", "left %");
  for (const auto &[name, shares] : bands)
    shares.printFaults(name);
  return right ? 0 : 1;
}
