// The catalogue's formulas of a schedule, evaluated for a problem.
#pragma once

#include "compiler/schedule/model/Problem.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pipec {

/// A formula of a schedule, with symbols and with this problem's numbers.
struct Formula {
  std::string text, here;
  std::vector<std::string> failing; // conditions of the formula that the problem does not meet
};
struct Formulas {
  Formula bubble, memory;
};

/// The formulas of a schedule; none if the catalogue does not have it. `parameters`: the schedule's number parameters.
std::optional<Formulas> formulas(const std::string &name, const schedule::Problem &problem,
                                 const std::map<std::string, int64_t> &parameters);

} // namespace pipec
