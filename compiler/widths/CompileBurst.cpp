#include "compiler/widths/CompileBurst.h"

#include "compiler/burst/Front.h"
#include "compiler/burst/PaperPlan.h"

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
  static constexpr int kTries = 4;                     // plans in a row that are too long, and then no more
  static constexpr int64_t kWalked = int64_t(1) << 24; // instructions, some seconds; the last plan is finished

  Placed placed(const burst::Plan &plan) { return placedSums(spec, problem, plan.widths, place, left); }

  plan::Time limitOf(plan::Time parallel) const {
    return plan::Time(std::min<__int128>(__int128(parallel) * 1'000'000 / spec.burst->foreground, burst::kMostTime));
  }

  /// By the planner's sums, of which data parallelism keeps the limit. All-reduces beside backwards make steps shorter
  /// than these: then of the plans of the front the one that keeps ranks least and, walked, is no longer than the
  /// limit.
  Placed exact() {
    const burst::Plan parallel = burst::dataParallel(problem);
    const burst::Front front(problem);
    const plan::Time limit = limitOf(parallel.cost.time);
    Placed best = placed(front.within(limit).value_or(parallel));
    if (spec.burst->sync == spec::Sync::End)
      return best;
    const plan::Time walked = limitOf(placed(parallel).span);
    const auto first = std::ranges::upper_bound(front.costs(), limit, {}, &burst::Cost::time);
    int tooLong = 0;
    for (auto point = size_t(first - front.costs().begin());
         point < front.costs().size() && tooLong != kTries && left > 0; ++point)
      if (Placed other = placed(front.plan(point)); other.span <= walked) {
        best = std::move(other);
        tooLong = 0;
      } else {
        ++tooLong;
      }
    return best;
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
  for (const Stage &stage : stagesOf(chosen.widths))
    made.cut.push_back(int32_t(stage.end - stage.first));
  made.set = programsOf(spec, problem, chosen.widths, chosen.sums, place);
  made.least = leastOf(made.set);
  const Lowered &lowered = made.lowered.emplace(made.set, keepVisits);
  if (failed(checkLength(made.set, lowered)))
    made.code = Code::Input;
  else if (failed(checkMemory(made.set, lowered)) || failed(checkDeadlock(made.set, lowered, place)))
    made.code = Code::Check;
  return made;
}

} // namespace pipec::widths
