// An order file without a spec: reads it, checks its rules, proves that it ends, and turns it into a spec for
// everything that takes a spec.
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

/// Reads and proves an order file, with transfers queued by `communicator`. False after an error; `stop` and `code`
/// then say what is wrong: Input if the file cannot be read, Check if it must not run.
bool readOrderFile(const std::string &path, emit::Communicator communicator, OrderFile &order, emit::OrderStop &stop,
                   Code &code);

/// The path of a generated spec with this order, in which each F, B and W takes kOrderUnit and transfers take no time.
/// Its text is kept (Files.h), so that compile() finds it under that path.
std::string specOf(const std::string &path, const OrderFile &order);
inline constexpr const char *kOrderUnit = "1ms";

} // namespace pipec
