// One simulated step in the page's format: a head of figures and tables, and columns of what ran and why not earlier.
// data.js reads this format; no other program does.
//
// A box is an instruction other than a transfer. Boxes are ordered by rank, or by process if ranks have shards
// (`shards`; place rank * shards + shard): first those of its devices in the order of their starts, which never
// overlap, then those of its communicators (collectives). A transfer is one item for both sides; transfers are ordered
// by link (a directed pair of ranks), then in order. Each column covers all items before the next column begins:
//   boxes:     operation, microbatch (from the last of the operation on the rank), start (from the end before), length
//              (from the operation's cost), cause
//   if ranks have shards, of each box: 0, or 1 + the shard that came last to its first sum, then how long before its
//              end it had come there itself, and they met
//   transfers: operation, microbatch, start, length of the wire, arrival (from the wire's end and latency), cause
//   a run's:   of boxes whether it ran, then of those that did start (from the last one's) and length; of transfers
//              the same of the send and of the receive; in separate units. Decisions are in its head.
// A cause is two columns: Why * 4 + the kind of item it refers to (0 nothing, 1 a box, 2 a send, 3 a receive); then, if
// it refers to an item, which one, counted from the last item referred to that way. A rank's `pieces` are in the head,
// and for a real run those that `ran`, as starts and ends in picoseconds. Times are in units of `unit` picoseconds,
// from the step's first start.
#pragma once

#include "compiler/pictures/Overlay.h"
#include "runtime/plan/Plan.h"
#include "runtime/simulate/Recording.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace pipec::emit::page {

/// The number of boxes and transfers in a step of a variant.
int64_t items(const plan::Variant &variant);

/// `run`: the same step of a real run, or null.
nlohmann::ordered_json frame(const plan::Variant &variant, const simulate::Recording &recording, int64_t step,
                             const RunStep *run, const Pieces &pieces);

} // namespace pipec::emit::page
