// How near the search comes to its bounds on the grid of test/bench/catalogue.csv:
//   bench-search --grid                          writes the grid itself
//   bench-search CATALOGUE.csv [MOST_RANKS]      solves it, each row as CSV on standard output, then the shares of gap
//                                                zero, at most 1 %, 5 % and 10 % for each band of cap over ranks
#include "compiler/schedule/Search.h"
#include "test/bench/Grid.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <map>

namespace schedule = pipec::schedule;
namespace grid = pipec::schedule::grid;

namespace {

struct Shares {
  int rows = 0, zero = 0, one = 0, five = 0, ten = 0;
  double sum = 0, most = 0;
  std::string worst;

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

} // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: bench-search --grid | CATALOGUE.csv [MOST_RANKS]\n");
    return 2;
  }
  if (std::string(argv[1]) == "--grid") {
    fmt::print("{}\n", grid::kHeader);
    for (const grid::Row &row : grid::all())
      fmt::print("{}\n", row.csv());
    return 0;
  }
  const int most = argc > 2 ? std::atoi(argv[2]) : 64;
  std::map<std::string, Shares> bands;
  bool right = true;
  fmt::print("{},bound,time,gap,source\n", grid::kHeader);
  for (const grid::Row &row : grid::read(argv[1])) {
    if (row.p > most)
      continue;
    const schedule::Problem problem = grid::problemOf(row);
    schedule::SolveOptions options;
    options.objective = row.span ? schedule::Objective::Span : schedule::Objective::Makespan;
    const std::optional<schedule::Solution> solution = schedule::solve(problem, options);
    if (!solution || solution->bound > solution->time) {
      fmt::print(stderr, "wrong: {}\n", row.csv());
      right = false;
      continue;
    }
    const double gap = double(solution->time) / double(solution->bound) - 1;
    fmt::print("{},{},{},{:.4f},{}\n", row.csv(), solution->bound, solution->time, gap, solution->source);
    const double over = double(row.cap) / row.p;
    const char *band = over < 0.45 ? "< 0.45" : over < 0.8 ? "0.45-0.8" : over < 1.2 ? "0.8-1.2" : ">= 1.2";
    for (const std::string &name : {fmt::format("{} {}", row.placement, band), row.placement, std::string("all")})
      bands[name].add(gap, row.csv());
  }
  fmt::print(stderr, "{:<14} {:>5} {:>6} {:>6} {:>6} {:>6} {:>7} {:>7}  {}\n", "band", "rows", "gap 0", "<= 1 %",
             "<= 5 %", "<= 10%", "mean %", "max %", "worst");
  for (const auto &[name, shares] : bands)
    shares.print(name);
  return right ? 0 : 1;
}
