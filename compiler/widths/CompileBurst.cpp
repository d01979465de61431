#include "compiler/widths/CompileBurst.h"

#include "compiler/burst/Front.h"

#include <algorithm>

namespace pipec::widths {
namespace {

/// A plan with its all-reduces placed.
struct Placed {
  burst::Widths widths;
  Sums sums;
};

/// All-reduces beside backwards make steps shorter than the planner's sums: of the plans of its front, that which keeps
/// ranks least and, walked, is no longer than the limit.
class Choice {
public:
  Choice(const spec::Spec &spec, const burst::Problem &problem, mlir::Location place)
      : spec(spec), problem(problem), place(place) {}

  Placed run() {
    const burst::Plan plan = planOf(spec, problem);
    int64_t left = kWalked;
    Placed best{plan.widths, sumsOf(spec, problem, plan.widths, place, left)};
    if (spec.burst->planner != spec::Planner::Exact || spec.burst->sync == spec::Sync::End)
      return best;
    const burst::Front front(problem);
    const plan::Time limit = limitOf(spec, problem);
    const auto first = std::ranges::upper_bound(front.costs(), limit, {}, &burst::Cost::time);
    int tooLong = 0;
    for (auto point = size_t(first - front.costs().begin());
         point < front.costs().size() && tooLong != kTries && left > 0; ++point) {
      burst::Widths widths = front.plan(point).widths;
      Sums sums = sumsOf(spec, problem, widths, place, left);
      if (spanOf(programsOf(spec, problem, widths, sums, place)) > limit) {
        ++tooLong;
        continue;
      }
      best = {std::move(widths), std::move(sums)};
      tooLong = 0;
    }
    return best;
  }

private:
  static constexpr int kTries = 4;                     // plans in a row that are too long, and then no more
  static constexpr int64_t kWalked = int64_t(1) << 24; // instructions, some seconds; the last plan is finished

  const spec::Spec &spec;
  const burst::Problem &problem;
  mlir::Location place;
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
