// Data parallelism in virtual time: a spec's replicas, the policies by which they may exchange gradients, and what a
// step takes under each.
#pragma once

#include "compiler/compare/Comparison.h"
#include "compiler/schedule/exchange/BoundsExchange.h"

namespace pipec {

/// One policy's step.
struct PolicyRow {
  std::string policy;
  plan::Time span = 0;
  plan::LeastTime bound; // of all exchanges that `may` and `mayShard` allow
  schedule::MayExchange may;
  bool mayShard = false;            // updates of layers may be divided among replicas
  plan::Time exposed = 0;           // the span less that of the same order with instant collectives
  std::vector<int64_t> collectives; // by rank
  schedule::Bytes bundle = -1;      // that `best` has found; -1: the policy has none, or was given one
  std::string wrong;                // why there are no figures; empty: there are
};

/// Whether what the rows say to be proven holds against all of them.
Status checkRows(const std::vector<PolicyRow> &rows);

/// A row for each policy, `auto` among them, the best first. False after an error, which has been said.
bool sweepDataParallel(const Source &source, const Say &say, std::vector<PolicyRow> &rows, Failure &failure);

} // namespace pipec
