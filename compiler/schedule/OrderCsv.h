// Orders as PyTorch writes them: the compute-only CSV of torch.distributed.pipelining
// (_PipelineScheduleRuntime._load_csv, format="compute_only"). A row a rank, a cell an action:
// `<stage><kind><microbatch>`, kinds F, B (the whole backward), I (for the input) and W (for the weights); an empty
// cell is idle.
#pragma once

#include "compiler/schedule/Problem.h"

#include <string>
#include <string_view>

namespace pipec::schedule {

struct Order {
  Words words;
  std::vector<int32_t> rankOf; // stage → rank
  int32_t microbatches = 0;
  BackwardMode backward = BackwardMode::Fused;
  bool lastMicrobatchFirst = false; // backwards run from the last microbatch to the first
};

/// A place in the file, both from 1; the column is that of the cell's first character.
struct OrderError {
  int line = 1, column = 1;
  std::string message;
};

/// Reads and checks an order: stages 0 to the largest each on one rank, each of its passes once a microbatch, F before
/// its backward before its W, microbatches of a (stage, kind) in order (or all backwards from the last). It does not
/// look for cycles between ranks: verify does. False after an error.
bool readOrder(std::string_view text, Order &order, OrderError &error);

} // namespace pipec::schedule
