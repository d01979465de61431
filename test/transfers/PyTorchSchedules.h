// PyTorch's schedules at the costs by which placements are compared: F = 1, B = 2 (or B = W = 1), a transfer of 0.05 by
// bandwidth; lowered by all passes, and by PyTorch's placement.
#pragma once

#include "compiler/passes/Lowered.h"
#include "test/transfers/PyTorchRows.h"

#include "mlir/IR/MLIRContext.h"

#include <optional>
#include <vector>

namespace pipec::test {

struct PyTorchSchedule {
  const char *name; // of the catalogue
  int32_t chunks;
  int64_t steps[3]; // of its dry run with our transfers, as published for p = 8, 32 and 64; 0: not published
};
const std::vector<PyTorchSchedule> &pyTorchSchedules();

/// One of them on p ranks with 2p microbatches.
struct PyTorchCase {
  const PyTorchSchedule &schedule;
  schedule::Problem problem;
  schedule::Words words;
  plan::Time ideal = 0; // makespan where queues are never held
};
PyTorchCase caseOf(const PyTorchSchedule &schedule, int32_t ranks);

/// What all passes make of it; what they say if they fail.
std::optional<Lowered> lower(mlir::MLIRContext &context, const PyTorchCase &each, Queues queues, std::string &errors);

/// As the simulator finds; nothing if it stops.
std::optional<plan::Time> makespanOf(const plan::Variant &variant);

} // namespace pipec::test
