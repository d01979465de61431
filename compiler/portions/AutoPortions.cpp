#include "compiler/portions/Fixed.h"
#include "compiler/portions/Most.h"
#include "compiler/portions/Policies.h"
#include "compiler/portions/Ranges.h"
#include "compiler/portions/Timing.h"

namespace pipec::portions {
namespace {

Chosen withKept(const Group &group, const std::vector<int64_t> &kept, Solver &solver) {
  const Program program = ownedProgram(group, kept);
  Least least = solver.inMemory(group, program, solver.inAnyMemory(program));
  Chosen chosen{.portions = {}, .time = 0, .lower = asTime(least.lower), .shortage = least.shortage};
  size_t next = 0;
  chosen.portions = eachSplit(group, [&](size_t, size_t, size_t, const Split &split) {
    const std::vector<int64_t> &own = least.counts[next++];
    return ownedPortions(inProportion(split.units, own), own);
  });
  return chosen;
}

} // namespace

Chosen chooseAuto(const Group &group, int64_t most, Solver &solver) {
  Chosen chosen = withKept(group, keptUnits(group, most, solver), solver);
  if (!chosen.shortage || most == 0)
    return chosen;
  // With fewer units kept, the portions may fit into memory.
  std::vector<int64_t> fewest;
  for (const SplitAt &at : splitsOf(group))
    fewest.push_back(leftOf(splitAt(group, at).units, most));
  return withKept(group, fewest, solver);
}

} // namespace pipec::portions
