// Order files of torch.distributed.pipelining on the command line: `pipec verify ORDER.csv`.
#pragma once

#include "tools/pipec/Commands.h"

namespace pipec {

int verifyOrderCommand(const CommandOptions &options);

} // namespace pipec
