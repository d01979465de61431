// How long rows last as PyTorch runs them: a transfer waits for every pass before it in its row, a pass only for what
// it takes.
#pragma once

#include "compiler/transfers/Traffic.h"

#include <optional>

namespace pipec {

/// From the first start of a pass to the last end of one; nothing where the rows stop. O(cells).
std::optional<plan::Time> makespanOf(const Traffic &traffic, const Rows &rows);

} // namespace pipec
