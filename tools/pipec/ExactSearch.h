// `pipec search --exact`.
#pragma once

#include "tools/pipec/Commands.h"

namespace pipec {

/// The table of `pipec search` with the best order that a proof could be had for in the time given; the exit code.
int searchExactly(const CommandOptions &options);

} // namespace pipec
