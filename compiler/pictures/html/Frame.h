// One simulated step as the page holds it: a head of figures and tables, and columns of what ran and why not earlier.
// data.js reads them; the two are one format, which no other program reads.
//
// A box is an instruction that is no transfer. Boxes go rank by rank, or process by process where ranks have shards
// (`shards`; place rank * shards + shard): first those of its devices in the order of their starts, which never
// overlap, then those of its communicators (collectives). A transfer is one item, whichever side is asked: they go link
// by link (a directed pair of ranks), in order. Columns, each for all items before the next:
//   boxes:     operation, microbatch (from the last of the operation on the rank), start (from the end before), length
//              (from the operation's cost), cause
//   where ranks have shards, of each box: 0, or 1 + the shard that came last to its first sum, then how long before its
//              end it had come there itself, and they met
//   transfers: operation, microbatch, start, length of the wire, arrival (from the wire's end and latency), cause
//   a run's:   of boxes whether it ran, then of those that did start (from the last one's) and length; of transfers
//              the same of the send and of the receive; in units of their own. Decisions stand in its head.
// A cause is two columns: Why * 4 + what it refers to (0 nothing, 1 a box, 2 a send, 3 a receive), then, where it
// refers to something, which item, from the last one referred to that way. A rank's `pieces` stand in the head, and of
// a real run those that `ran`, as starts and ends in picoseconds. Times are in units of `unit` picoseconds, from the
// step's first start.
#pragma once

#include "compiler/pictures/Overlay.h"
#include "runtime/plan/Plan.h"
#include "runtime/simulate/Recording.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace pipec::emit::page {

/// How many boxes and transfers a step of a variant has.
int64_t items(const plan::Variant &variant);

/// `run`: the same step of a real run, or null.
nlohmann::ordered_json frame(const plan::Variant &variant, const simulate::Recording &recording, int64_t step,
                             const RunStep *run, const Pieces &pieces);

} // namespace pipec::emit::page
