// What the search tries, each a recipe that makes words for any number of microbatches.
#pragma once

#include "compiler/schedule/catalogue/Catalogue.h"
#include "compiler/schedule/construct/ListSchedule.h"
#include "compiler/schedule/construct/Modulo.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace pipec::schedule {

struct Candidate {
  std::string way;  // its row (Ways.h)
  std::string name; // for people
  /// The words, which may still break the capacities; nothing where the recipe does not go with the problem.
  std::function<std::optional<Words>(const Problem &problem, const Capacities &capacities)> make;
  bool placesWeights = false; // it chooses itself where W go
};

/// Most promising first of each kind; the kinds take turns.
std::vector<Candidate> candidatesOf(const Problem &problem, const Capacities &capacities);

/// For each stage, how many microbatches of it a rank should hold: the rank's capacity, shared among its stages by how
/// long each holds a microbatch; at least one. Empty where no rank has several stages, or nothing limits memory.
std::vector<int32_t> sharesOf(const Problem &problem, const Capacities &capacities);

} // namespace pipec::schedule
