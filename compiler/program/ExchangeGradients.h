// From an exchange to programs: the passes at a step's ends are cut into parts by layers, and sums, updates and gathers
// are added where their data are ready.
#pragma once

#include "compiler/program/ProgramSet.h"
#include "compiler/schedule/exchange/Exchange.h"

namespace pipec {

/// Adds the exchange to programs that buildPrograms() has made and that have no transfers yet. The first forward of
/// each stage is cut where what it waits for changes, the last backward (BW, or W) where collectives begin; a part has
/// the time of its layers. The programs' optimizer steps give way to those of the exchange. O(instructions + parts).
void exchangeGradients(ProgramSet &set, const schedule::Replicas &replicas, const schedule::Exchange &exchange);

/// A row of a plan for each layer, none of them sharded.
std::vector<plan::Layer> rowsOf(const schedule::Replicas &replicas);

} // namespace pipec
