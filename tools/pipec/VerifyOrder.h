// Order files of torch.distributed.pipelining on the command line: `pipec verify ORDER.csv`.
#pragma once

#include "tools/pipec/Commands.h"

namespace pipec {

/// Whether a file is meant as an order: by its suffix, or because it begins like one.
bool isOrder(const std::string &path);

int verifyOrderCommand(const CommandOptions &options);

} // namespace pipec
