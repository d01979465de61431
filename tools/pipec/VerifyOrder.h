// Order files of torch.distributed.pipelining on the command line: `pipec verify ORDER.csv`, `pipec show ORDER.csv`.
#pragma once

#include "compiler/driver/OrderFile.h"
#include "tools/pipec/Commands.h"

namespace pipec {

/// Reads and proves an order file. False after printing what is wrong, with a caret under the cell; then `code` is the
/// exit code.
bool obtainOrder(const CommandOptions &options, const std::string &path, emit::Communicator communicator,
                 OrderFile &order, int &code);

int verifyOrderCommand(const CommandOptions &options);

} // namespace pipec
