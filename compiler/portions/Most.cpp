#include "compiler/portions/Most.h"

#include "compiler/portions/Ranges.h"

#include <algorithm>

namespace pipec::portions {
namespace {

/// The part of a program that concerns one split. A maximum that the split shares with other splits counts as if the
/// others did not exist.
Program alone(const Program &program, int32_t split) {
  Program part;
  part.factors = program.factors;
  part.units = {program.units[size_t(split)]};
  for (const Maximum &maximum : program.maxima)
    for (const Term &term : maximum.terms)
      if (term.split == split && term.parts.front().by == Part::By::Kept) {
        Maximum own = maximum;
        if (maximum.terms.size() > 1)
          own.fixed.assign(program.shards(), 0);
        own.terms = {term};
        own.terms[0].split = 0;
        part.maxima.push_back(std::move(own));
      }
  return part;
}

} // namespace

int64_t leftOf(int64_t units, int64_t part) {
  return int64_t((__int128(units) * (1'000'000 - part) + 999'999) / 1'000'000);
}

std::vector<int64_t> keptUnits(const Group &group, int64_t most, Solver &solver) {
  std::vector<int64_t> all;
  for (const SplitAt &at : splitsOf(group))
    all.push_back(splitAt(group, at).units);
  if (most == 0)
    return all;
  Group healthy = group;
  healthy.factors.assign(group.factors.size(), kNoSlower);
  const Program program = ownedProgram(group, all), without = ownedProgram(healthy, all);
  std::vector<int64_t> kept;
  for (int32_t split = 0; split != int32_t(all.size()); ++split) {
    const int64_t units = all[size_t(split)], fewest = leftOf(units, most);
    const Program even = alone(without, split);
    Program own = alone(program, split);
    own.units[0] = fewest;
    const Least least = solver.inAnyMemory(own);
    const Wide time = std::max(valueOf(even, {equalCounts(units, group.shards())}), valueOf(own, least.counts));
    int64_t fits = fewest, tooMany = units + 1;
    while (tooMany - fits > 1) {
      own.units[0] = fits + (tooMany - fits) / 2;
      (solver.canTake(own, time) ? fits : tooMany) = own.units[0];
    }
    kept.push_back(fits);
  }
  return kept;
}

} // namespace pipec::portions
