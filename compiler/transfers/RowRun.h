// The time of rows as PyTorch runs them: a transfer waits for every pass before it in its row, a pass only for its
// inputs.
#pragma once

#include "compiler/transfers/Traffic.h"

#include <optional>

namespace pipec {

/// The time from the first start of a pass to the last end of a pass; none if the rows stop. O(cells).
std::optional<plan::Time> makespanOf(const Traffic &traffic, const Rows &rows);

} // namespace pipec
