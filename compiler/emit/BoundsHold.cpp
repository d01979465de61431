#include "compiler/emit/BoundsHold.h"

#include "runtime/plan/Text.h"

#include <fmt/format.h>

#include <algorithm>

namespace pipec::emit {

namespace {

schedule::BackwardMode backwardOf(const Claim &claim) {
  return claim.wholeAsParts ? schedule::BackwardMode::Split : claim.problem->backward;
}

bool sameBackward(const Claim &one, const Claim &other) {
  return one.problem->mixed || (backwardOf(one) == backwardOf(other) && !other.problem->mixed);
}

bool samePlacement(const Claim &one, const Claim &other) {
  const schedule::Problem &problem = *other.problem;
  if (one.problem->rankOf == problem.rankOf)
    return true;
  const auto stages = int32_t(problem.rankOf.size());
  return one.ofAllPlacements && (problem.rankOf == schedule::placed(problem.ranks, stages, false) ||
                                 problem.rankOf == schedule::placed(problem.ranks, stages, true));
}

bool sameWork(const schedule::Problem &one, const schedule::Problem &other) {
  return one.stages == other.stages && one.link == other.link && one.links == other.links &&
         one.globalNorm == other.globalNorm && one.shared == other.shared && one.staticBytes == other.staticBytes &&
         one.workspace == other.workspace;
}

bool inNoMoreMemory(const schedule::Problem &one, const schedule::Problem &other) {
  return one.memoryLimit == 0 ||
         (other.memoryLimit != 0 && other.memoryLimit <= one.memoryLimit && one.withheld == other.withheld);
}

} // namespace

bool speaksOf(const Claim &one, const Claim &other) {
  if (&one == &other)
    return true;
  if (!one.problem || !other.problem)
    return false;
  const schedule::Problem &a = *one.problem, &b = *other.problem;
  if (one.wholeAsParts != other.wholeAsParts && (a.copies > 1 || a.slices > 1))
    return false; // there `auto` bounds the orders of one schedule of the catalogue
  return a.ranks == b.ranks && a.microbatches == b.microbatches && a.copies == b.copies && a.slices == b.slices &&
         a.backwardGroup == b.backwardGroup && a.stages.size() == b.stages.size() && one.cut == other.cut &&
         sameBackward(one, other) && samePlacement(one, other) && inNoMoreMemory(a, b) &&
         ((one.isOneSpec && other.isOneSpec) || sameWork(a, b));
}

Status checkBound(const std::string &name, const char *objective, plan::LeastTime bound, const std::string &other,
                  plan::Time taken) {
  if (!bound.isRefutedBy(taken))
    return {};
  return Status::check(fmt::format("internal: the bound of {}, {}, is not one: {} has a {} of {}; please report this "
                                   "spec",
                                   name, plan::timeText(bound.picoseconds()), other, objective, plan::timeText(taken)));
}

Status checkBounds(const std::vector<Claim> &claims) {
  for (const Claim &one : claims)
    for (const Claim &other : claims) {
      if (!speaksOf(one, other))
        continue;
      const plan::Certificate &says = *one.certificate, &has = *other.certificate;
      Status status = checkBound(one.name, "makespan", says.lowerBound, other.name, has.makespan);
      if (status.ok())
        status = checkBound(one.name, "span", says.spanLowerBound, other.name, has.span);
      if (!status.ok())
        return status;
    }
  return {};
}

static Status checkBalances(const std::vector<BalanceRow> &rows) {
  for (const BalanceRow &one : rows)
    for (const BalanceRow &other : rows) {
      const bool speaks = &one == &other || (one.name == "auto" && other.name == "even");
      if (!speaks || !one.wrong.empty() || !other.wrong.empty())
        continue;
      if (Status status = checkBound("balance " + one.name, "span", one.bound, "balance " + other.name, other.span);
          !status.ok())
        return status;
    }
  return {};
}

Status checkBounds(const PlanReport &report) {
  for (const Report &each : report.variants) {
    Status status = checkBalances(each.balance.rows);
    if (each.atOwnMemory && status.ok())
      status = checkBound("orders in as much memory", "makespan", each.atOwnMemory->makespan, "the plan",
                          each.certificate.makespan);
    if (each.atOwnMemory && status.ok())
      status =
          checkBound("orders in as much memory", "span", each.atOwnMemory->span, "the plan", each.certificate.span);
    if (!status.ok())
      return status;
  }
  return {};
}

} // namespace pipec::emit
