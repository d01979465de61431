// Shards of a spec's ranks under each balance, and without slow ones.
#pragma once

#include "compiler/compare/Comparison.h"
#include "compiler/emit/BalanceReport.h"
#include "compiler/spec/Spec.h"

namespace pipec {

/// Adds to the report of a variant of this spec what else its shards could do: a row for each balance, that of the spec
/// with its parameters, and `without` slow shards, each compiled as the spec says. `plan` is its own.
void compareBalances(const spec::Spec &spec, const plan::Variant &own, const schedule::Problem &problem,
                     emit::BalanceReport &report);

} // namespace pipec
