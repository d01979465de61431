// The catalogue's formulas of a schedule, with a problem's numbers put in.
#pragma once

#include "compiler/schedule/model/Problem.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pipec {

/// One of a schedule's formulas, with symbols and with this problem's numbers.
struct Formula {
  std::string text, here;
  std::vector<std::string> failing; // of its conditions
};
struct Formulas {
  Formula bubble, memory;
};

/// Nothing for a schedule that the catalogue does not have. `parameters`: those of the schedule that are numbers.
std::optional<Formulas> formulas(const std::string &name, const schedule::Problem &problem,
                                 const std::map<std::string, int64_t> &parameters);

} // namespace pipec
