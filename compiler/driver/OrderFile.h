// An order file on its own: read, held to the rules and proven to end, and as a spec, so that whatever takes a spec
// takes it.
#pragma once

#include "compiler/torch/OrderProof.h"
#include "compiler/torch/OrderRules.h"
#include "runtime/plan/Status.h"

#include <string>

namespace pipec {

struct OrderFile {
  schedule::OrderCells cells;
  schedule::OrderIndex index;
};

/// Reads and proves an order file whose transfers queue in this way. False after an error; `stop` and `code` then say
/// what is wrong: Input where it cannot be read, Check where it must not run.
bool readOrderFile(const std::string &path, emit::Communicator communicator, OrderFile &order, emit::OrderStop &stop,
                   Code &code);

/// The path of a spec that is made, not read: of this order, where each F, B and W takes kOrderUnit and transfers take
/// no time. Its text is kept (Files.h), so that compile() finds it under that path.
std::string specOf(const std::string &path, const OrderFile &order);
inline constexpr const char *kOrderUnit = "1ms";

} // namespace pipec
