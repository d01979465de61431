// An order file as a schedule: the words of its rows, and the places of transfers in a compute_comms file.
#pragma once

#include "compiler/torch/OrderCells.h"

namespace pipec::schedule {

/// One action of a compute_comms row that plans have too: a pass, a transfer, or the wait for the end of a send.
struct RowAction {
  Action action = Action::F;
  int32_t stage = 0, microbatch = 0;
};

/// Numbers that an order file does not contain; the spec gives them.
struct OrderShape {
  /// Copies of each stage; stages of the second copy are numbered after the first; microbatches count per copy.
  int32_t copies = 1;
  int32_t slices = 1; // slices of a microbatch, each with its own number: microbatch · slices + slice
};

struct Order {
  Words words;
  std::vector<int32_t> rankOf; // stage → rank
  int32_t microbatches = 0;
  BackwardMode backward = BackwardMode::Fused;
  /// Backwards run in groups of this many microbatches, the last of each group first: a sequence's slices, or all.
  int32_t backwardGroup = 1;
  /// By rank: passes, transfers and waits as in the file; empty if the file leaves transfers to its reader.
  std::vector<std::vector<RowAction>> rows;
};

/// Reads an order. Checks it by every rule of OrderRules.h, and that a plan can express it: passes of one stage and
/// kind run in the order of microbatches (or all backwards from the last microbatch on; with slices, each sequence's
/// backwards from its last slice on). Does not look for deadlock between ranks: schedule::verify does. False after an
/// error.
bool readOrder(std::string_view text, Order &order, OrderError &error, const OrderShape &shape = {});

} // namespace pipec::schedule
