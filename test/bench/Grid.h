// The grid on which the search and its bounds are measured: test/bench/catalogue.csv, complete and fixed. Equal stages;
// costs are of a whole rank, shared evenly by its chunks, and in nanoseconds; a microbatch holds two units a chunk, of
// which B and W free one each; the cap is in microbatches.
#pragma once

#include "compiler/schedule/model/Problem.h"

#include <array>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

namespace pipec::schedule::grid {

struct Row {
  int32_t p = 0, m = 0, cap = 0;
  Time f = 0, b = 0, w = 0, c = 0;
  std::string placement; // one: a stage a rank; loop, v: two
  bool span = false;     // else the makespan

  std::string csv() const {
    std::ostringstream out;
    out << p << ',' << m << ',' << cap << ',' << f << ',' << b << ',' << w << ',' << c << ',' << placement << ','
        << (span ? "span" : "makespan");
    return out.str();
  }
};

constexpr const char *kHeader = "p,m,cap,f,b,w,c,placement,objective";

inline std::vector<Row> all() {
  constexpr std::array<std::array<Time, 4>, 6> kCosts = {{{1000, 1000, 1000, 0},
                                                          {3000, 4000, 2000, 1000},
                                                          {2000, 3000, 3000, 0},
                                                          {10000, 11000, 8000, 1000},
                                                          {18522, 18086, 9336, 601}, // GPT 1.5B, measured
                                                          {2000, 3000, 1000, 100}}}; // long sequences
  std::vector<Row> rows;
  for (const int32_t p : {2, 4, 8, 16, 32, 64})
    for (const int32_t times : {2, 3, 4, 8})
      for (const int32_t hundredths : {25, 50, 75, 100, 125, 150, 200})
        for (const auto &[f, b, w, c] : kCosts)
          for (const char *placement : {"one", "loop", "v"})
            for (const bool span : {false, true}) {
              const int32_t least = placement[0] == 'o' ? 1 : 2;
              rows.push_back({p, times * p, std::max(least, p * hundredths / 100), f, b, w, c, placement, span});
            }
  return rows;
}

inline Problem problemOf(const Row &row) {
  const int32_t v = row.placement == "one" ? 1 : 2;
  Stage stage;
  stage.forward = row.f / v * 1000; // nanoseconds to picoseconds
  stage.backwardInput = row.b / v * 1000;
  stage.backwardWeight = row.w / v * 1000;
  stage.activation = stage.context = 1;
  Problem problem;
  problem.ranks = row.p;
  problem.microbatches = row.m;
  problem.backward = BackwardMode::Split;
  problem.stages.assign(size_t(v * row.p), stage);
  for (int32_t s = 0; s < v * row.p; ++s)
    problem.rankOf.push_back(row.placement == "v" && s >= row.p ? 2 * row.p - 1 - s : s % row.p);
  problem.link.latency = row.c * 1000;
  problem.memoryLimit = 2 * v * row.cap;
  return problem;
}

inline std::vector<Row> read(const std::string &path) {
  std::vector<Row> rows;
  std::ifstream file(path);
  std::string line;
  for (std::getline(file, line); std::getline(file, line);) {
    std::istringstream fields(line);
    std::vector<std::string> field(9);
    for (std::string &each : field)
      std::getline(fields, each, ',');
    Row row;
    row.p = std::stoi(field[0]), row.m = std::stoi(field[1]), row.cap = std::stoi(field[2]);
    row.f = std::stoll(field[3]), row.b = std::stoll(field[4]), row.w = std::stoll(field[5]),
    row.c = std::stoll(field[6]);
    row.placement = field[7];
    row.span = field[8] == "span";
    rows.push_back(row);
  }
  return rows;
}

} // namespace pipec::schedule::grid
