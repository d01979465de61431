// Data parallelism in virtual time: a spec's replicas, the policies by which the replicas may exchange gradients, and
// the time of a step under each policy.
#pragma once

#include "compiler/compare/Comparison.h"
#include "compiler/schedule/exchange/BoundsExchange.h"

namespace pipec {

/// The step under one policy.
struct PolicyRow {
  std::string policy;
  plan::Time span = 0;
  plan::LeastTime bound; // lower bound for all exchanges that `may` and `mayShard` allow
  schedule::MayExchange may;
  bool mayShard = false;            // updates of layers may be divided among replicas
  plan::Time exposed = 0;           // the span less that of the same order with instant collectives
  std::vector<int64_t> collectives; // by rank
  /// Bundle size that `best` found, in bytes; -1: the policy has none, or the spec gives it.
  schedule::Bytes bundle = -1;
  std::string wrong; // why there are no figures; empty: there are
};

/// Checks the proven bounds of the rows against all rows.
Status checkRows(const std::vector<PolicyRow> &rows);

/// A row for each policy, including `auto`, the best first. Returns false after an error; the error has
/// been printed then.
bool sweepDataParallel(const Source &source, const Say &say, std::vector<PolicyRow> &rows, Failure &failure);

} // namespace pipec
