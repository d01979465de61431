// An order file as a schedule: the words of its rows, and where a compute_comms file places its transfers.
#pragma once

#include "compiler/torch/OrderCells.h"

namespace pipec::schedule {

/// One action of a compute_comms row that a plan has too: a pass, a transfer, or the wait until a send has ended.
struct RowAction {
  Action action = Action::F;
  int32_t stage = 0, microbatch = 0;
};

/// What an order file leaves open and the spec says.
struct OrderShape {
  int32_t copies = 1; // of each stage; those of the second go on from the first's, microbatches are of a copy
  int32_t slices = 1; // of a microbatch, each with a number of its own: microbatch · slices + slice
};

struct Order {
  Words words;
  std::vector<int32_t> rankOf; // stage → rank
  int32_t microbatches = 0;
  BackwardMode backward = BackwardMode::Fused;
  /// Backwards run in groups of this many microbatches, the last of each group first: a sequence's slices, or all.
  int32_t backwardGroup = 1;
  /// Each rank's passes, transfers and waits as the file has them; empty where it leaves transfers to the reader.
  std::vector<std::vector<RowAction>> rows;
};

/// Reads an order and checks it by every rule of OrderRules.h, and for what a plan can express: passes of one stage and
/// kind run in the order of microbatches (or all backwards from the last one on; with slices, each sequence's from its
/// last slice on). Does not look for cycles between ranks: schedule::verify does. False after an error.
bool readOrder(std::string_view text, Order &order, OrderError &error, const OrderShape &shape = {});

} // namespace pipec::schedule
