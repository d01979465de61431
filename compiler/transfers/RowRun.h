// How long rows last as PyTorch runs them: a transfer also waits for every pass before it in its row, and a pass for
// nothing but what it takes.
#pragma once

#include "compiler/transfers/Traffic.h"

#include <optional>

namespace pipec {

/// First start to last end of a pass; nothing where the rows stop. O(cells).
std::optional<plan::Time> makespanOf(const Traffic &traffic, const Rows &rows);

} // namespace pipec
