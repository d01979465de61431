#include "compiler/compare/Balances.h"

#include "compiler/driver/Compile.h"
#include "compiler/portions/Timing.h"
#include "compiler/shards/ShardedRanks.h"
#include "compiler/spec/Keys.h"

#include <algorithm>

namespace pipec {

namespace {

/// What the shards of all ranks send each other in a step for units that are worked elsewhere than they are owned.
plan::Bytes movedBytes(const spec::Spec &spec, const plan::Variant &variant, const schedule::Problem &problem) {
  const ShardedRanks ranks(spec, problem, {variant.cut.begin(), variant.cut.end()}, variant.portions);
  __int128 all = 0;
  for (size_t stage = 0; stage != ranks.stages(); ++stage)
    all += portions::movedOf(ranks.groupOf(stage), ranks.stageAt(stage), ranks.portionsAt(stage)).all;
  return plan::Bytes(std::min<__int128>(all, INT64_MAX));
}

emit::BalanceRow rowOf(const spec::Spec &spec, const plan::Variant &variant, const schedule::Problem &problem) {
  emit::BalanceRow row;
  row.span = variant.certificate.span;
  row.bound = variant.certificate.spanLowerBound;
  row.dropped = emit::droppedOf(variant);
  row.moved = movedBytes(spec, variant, problem);
  return row;
}

emit::BalanceRow compiled(const spec::Spec &spec) {
  Compiled made;
  made.encodes = false;
  Failure failure;
  if (!compile(spec, made, failure, Said::Nothing)) {
    emit::BalanceRow row;
    row.wrong = failure.message;
    return row;
  }
  return rowOf(spec, made.plan.variants.front(), made.problems.front());
}

} // namespace

void compareBalances(const spec::Spec &spec, const plan::Variant &own, const schedule::Problem &problem,
                     emit::BalanceReport &report) {
  const std::vector<std::string_view> &names = spec::findKey("tensor_parallel.balance")->choices;
  for (size_t kind = 0; kind != names.size(); ++kind) {
    spec::Spec other = spec;
    if (spec::BalanceKind(kind) != spec.tensorParallel.balance.kind.value) {
      other.tensorParallel.balance = {};
      other.tensorParallel.balance.kind.value = spec::BalanceKind(kind);
      report.rows.push_back(compiled(other));
    } else {
      report.rows.push_back(rowOf(spec, own, problem));
    }
    report.rows.back().name = names[kind];
  }
  spec::Spec healthy = spec;
  healthy.tensorParallel.slow.clear();
  healthy.tensorParallel.balance = {};
  healthy.tensorParallel.balance.kind.value = spec::BalanceKind::Even;
  report.rows.push_back(compiled(healthy));
  report.rows.back().name = "without";
  const emit::BalanceRow &least = report.rows.back(), &even = report.rows[size_t(spec::BalanceKind::Even)];
  report.healthy = least.span;
  const double lost = double(even.span) - double(least.span);
  for (emit::BalanceRow &row : report.rows)
    if (row.wrong.empty() && even.wrong.empty() && least.wrong.empty() && lost > 0)
      row.wonBack = (double(even.span) - double(row.span)) / lost;
  report.own = report.rows[size_t(spec.tensorParallel.balance.kind.value)];
}

} // namespace pipec
