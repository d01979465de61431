// The 230 instances of test/data/optima.csv, optima proven by Z3: equal stages, one a rank; a microbatch holds mem_B
// until its B ends and mem_W until its W does; the cap bounds what each rank holds.
#pragma once

#include "test/schedule/Support.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace pipec::schedule::test {

struct Optimum {
  Problem problem;
  bool span = false; // else the makespan
  Time optimum = 0;
  std::string row;
};

inline std::vector<Optimum> readOptima(const std::string &path = PIPEC_SOURCE_DIR "/test/data/optima.csv") {
  std::vector<Optimum> optima;
  std::ifstream file(path);
  std::string line;
  for (std::getline(file, line); std::getline(file, line);) {
    std::istringstream fields(line);
    std::vector<int64_t> value;
    for (std::string field; std::getline(fields, field, ',');)
      value.push_back(std::stoll(field));
    Problem problem = uniform(static_cast<int32_t>(value.at(0)), static_cast<int32_t>(value.at(1)), value.at(2),
                              value.at(3), value.at(4), value.at(5), BackwardMode::Split);
    for (Stage &stage : problem.stages) {
      stage.activation = value.at(7);
      stage.context = value.at(8);
    }
    problem.memoryLimit = value.at(6);
    optima.push_back({std::move(problem), value.at(9) == 1, value.at(11), line});
  }
  return optima;
}

} // namespace pipec::schedule::test
