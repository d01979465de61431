// Compares the balances of a spec's shards with each other and with shards that are not slow.
#pragma once

#include "compiler/compare/Comparison.h"
#include "compiler/emit/BalanceReport.h"
#include "compiler/spec/Spec.h"

namespace pipec {

/// Adds to the report of a variant of this spec: a row for each balance (the spec's own with its parameters), and a row
/// without slow shards, each compiled as the spec says. `own` is the variant's plan.
void compareBalances(const spec::Spec &spec, const plan::Variant &own, const schedule::Problem &problem,
                     emit::BalanceReport &report);

} // namespace pipec
