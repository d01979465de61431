#include "compiler/widths/CompileBurst.h"

#include "compiler/burst/Front.h"
#include "compiler/burst/PaperPlan.h"
#include "compiler/widths/PlaceSums.h"

#include <algorithm>

namespace pipec::widths {
namespace {

/// The plan that a spec asks for.
class Choice {
public:
  Choice(const spec::Spec &spec, const burst::Problem &problem, mlir::Location place)
      : spec(spec), problem(problem), place(place) {}

  Placed run() {
    const spec::Burst &asked = *spec.burst;
    if (asked.planner == spec::Planner::Given)
      return placed(burst::planOf(problem, asked.widths));
    if (asked.planner == spec::Planner::Paper)
      return placed(burst::paperPlan(problem, asked.amplification));
    return exact();
  }

private:
  static constexpr int64_t kWalked = int64_t(1) << 24; // instructions, some seconds; the last plan is finished

  Placed placed(const burst::Plan &plan) { return placedSums(spec, problem, plan.widths, place, left); }

  plan::Time limitOf(plan::Time parallel) const {
    return plan::Time(std::min<__int128>(__int128(parallel) * 1'000'000 / spec.burst->foreground, burst::kMostTime));
  }

  /// Of the plans of the front the one that keeps ranks least of those that are no longer than the limit: by the
  /// planner's sums or, with all-reduces beside backwards, which make steps shorter than these, by walks, as far as
  /// there is time for them. Data parallelism is one of them.
  Placed exact() {
    const burst::Plan parallel = burst::dataParallel(problem);
    const burst::Front front(problem);
    if (spec.burst->sync == spec::Sync::End)
      return placed(front.within(limitOf(parallel.cost.time)).value_or(parallel));
    Placed all = placed(parallel);
    const plan::Time limit = limitOf(all.span);
    for (size_t point = front.costs().size(); point-- != 0 && left > 0;) {
      const burst::Plan plan = front.plan(point);
      if (plan.cost.device >= parallel.cost.device)
        break;
      if (leastOf(spec, problem, plan.widths) > limit)
        continue;
      if (Placed other = placed(plan); other.span <= limit)
        return other;
    }
    const std::optional<burst::Plan> shorter = left > 0 ? std::nullopt : front.within(limit);
    return shorter ? placed(*shorter) : all;
  }

  const spec::Spec &spec;
  const burst::Problem &problem;
  mlir::Location place;
  int64_t left = kWalked;
};

} // namespace

BurstLowering compileBurst(const spec::Spec &spec, mlir::Location place, bool keepVisits) {
  place.getContext()->loadDialect<pipe::PipeDialect>();
  const burst::Problem problem = problemOf(spec);
  const Placed chosen = Choice(spec, problem, place).run();
  BurstLowering made;
  burst::Widths widths;
  for (const Stage &stage : chosen.stages) {
    made.cut.push_back(int32_t(stage.end - stage.first));
    widths.insert(widths.end(), stage.end - stage.first, stage.width);
  }
  made.set = programsOf(spec, problem, chosen.stages, chosen.sums, place);
  made.least = leastOf(spec, problem, widths);
  const Lowered &lowered = made.lowered.emplace(made.set, keepVisits);
  if (failed(checkLength(made.set, lowered)))
    made.code = Code::Input;
  else if (failed(checkMemory(made.set, lowered)) || failed(checkDeadlock(made.set, lowered, place)))
    made.code = Code::Check;
  return made;
}

} // namespace pipec::widths
