// An order file as a schedule: the words of its rows, and where a compute_comms file places its transfers.
#pragma once

#include "compiler/torch/OrderCells.h"

namespace pipec::schedule {

/// One action of a compute_comms row that the plan has too: a pass, in the order of the word, a transfer, or the wait
/// until a send has ended.
struct RowAction {
  Action action = Action::F;
  int32_t stage = 0, microbatch = 0;
};

/// What a spec says of an order and no file does.
struct OrderShape {
  int32_t copies = 1; // of each stage; those of the second go on from the first's, microbatches are of a copy
  int32_t slices = 1; // of a microbatch, each with a number of its own: microbatch · slices + slice
};

struct Order {
  Words words;
  std::vector<int32_t> rankOf; // stage → rank
  int32_t microbatches = 0;
  BackwardMode backward = BackwardMode::Fused;
  /// In groups of how many microbatches backwards run, the last of a group first: slices, or all.
  int32_t backwardGroup = 1;
  /// Each rank's passes, transfers and waits as the file has them; empty where it leaves transfers to the reader.
  std::vector<std::vector<RowAction>> rows;
};

/// Reads and checks an order by every rule of OrderRules.h, and by what a plan can say: microbatches
/// of a (stage, kind) in order (or all backwards from the last; of slices, each microbatch's from its last). It does
/// not look for cycles between ranks: verify does. False after an error.
bool readOrder(std::string_view text, Order &order, OrderError &error, const OrderShape &shape = {});

} // namespace pipec::schedule
