#include "runtime/simulate/Price.h"

#include "runtime/plan/Limits.h"
#include "runtime/simulate/Simulate.h"

#include <algorithm>

namespace pipec::simulate {

std::optional<__int128> priceOf(plan::Variant variant) {
  Result predicted, slow;
  if (!simulate(variant, {}, predicted).ok())
    return std::nullopt;
  for (plan::Program &program : variant.programs)
    for (plan::Operation &operation : program.operations)
      if (plan::isTransfer(operation.kind))
        operation.cost = std::min(operation.cost, limits::kTime / kSlower) * kSlower;
  if (!simulate(variant, {}, slow).ok())
    return std::nullopt;
  return priceOf(predicted.makespan, slow.makespan);
}

} // namespace pipec::simulate
