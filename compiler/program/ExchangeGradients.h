// Puts an exchange into programs: cuts the passes at a step's ends into parts by layers, and adds sums, updates and
// gathers where their data are ready.
#pragma once

#include "compiler/program/ProgramSet.h"
#include "compiler/schedule/exchange/Exchange.h"

namespace pipec {

/// Adds the exchange to programs from buildPrograms() that have no transfers yet. The first forward of each stage is
/// cut where its dependences change, and the last backward (BW, or W) where collectives begin; a part takes the time of
/// its layers. The optimizer steps of the exchange replace those of the programs. O(instructions + parts).
void exchangeGradients(ProgramSet &set, const schedule::Replicas &replicas, const schedule::Exchange &exchange);

/// A plan's row for each layer, none of them sharded.
std::vector<plan::Layer> rowsOf(const schedule::Replicas &replicas);

} // namespace pipec
