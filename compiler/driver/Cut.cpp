#include "compiler/driver/Cut.h"

#include "compiler/driver/BestPlan.h"
#include "compiler/driver/DesignLevel.h"
#include "runtime/plan/Limits.h"

#include "mlir/IR/Diagnostics.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

using namespace mlir;

namespace pipec {

namespace {

class Choosing {
public:
  Choosing(spec::Spec &spec, MLIRContext &context, const std::stop_token &stop, CompileSpec compile, CutSpace given,
           Made &made, bool &internal)
      : spec(spec), context(context), stop(stop), compile(compile), space(std::move(given)), made(made),
        best(context, 0, made, internal),
        room(std::max<int64_t>(1, int64_t(space.work.stages()) * spec.microbatches.value),
             spec.recomputed.isOpen() ? 16 : 1, {48, 12, 3}),
        cuts(
            space.work, {space.even},
            [this](const schedule::Cut &cut) { return this->stop.stop_requested() ? std::nullopt : judge(cut); },
            room.judged) {}

  bool run() {
    int64_t left = !space.schedules.empty() ? room.searched : cuts.looksAtAll() ? room.compiledOfAll : room.compiled;
    // Plans may take longer than their orders promise, so more cuts come into question.
    for (schedule::Time horizon = -1; horizon != best.time();) {
      horizon = best.time();
      cuts.run(horizon);
      int64_t over = kOver; // that are over the limit with the buffers they need; with fewer some may do
      for (const auto &[cost, cut] : cuts.judged())
        if (left > 0 && !best.hasFailed() && !hasToStop() && (cost.excess == 0 || over-- > 0))
          left -= attempt(cut);
    }
    for (const schedule::Cut &each : cuts.usual())
      if (!hasToStop())
        attempt(each);
    if (!best.chosen())
      return false;
    made.variant.cutBound = bound();
    return true;
  }

  /// What no cut's plan takes less than. Once it is time to stop, that is known by work alone of a cut not looked at.
  plan::LeastTime bound() {
    return cuts.bound([&](const schedule::Cut &cut) {
      if (!lower.contains(cut) && stop.stop_requested())
        return std::optional(plan::LeastTime::proven(
            schedule::Time(std::min<schedule::Work>(schedule::busiest(space.work, cut), limits::kTime))));
      if (!lower.contains(cut))
        judge(cut);
      return lower[cut];
    });
  }

  /// The cut to go on with; where none compiles, the one that says best what is wrong.
  schedule::Cut cut() const {
    return best.chosen()           ? *best.chosen()
           : cuts.judged().empty() ? cuts.usual().front()
                                   : cuts.judged().begin()->second;
  }

private:
  std::optional<schedule::TrialCost> judge(const schedule::Cut &cut) {
    spec.layers->cut = {cut, spec.layers->cutMark};
    const std::optional<Trial> trial = tryChoice(spec, space.schedules, context);
    lower[cut] = trial && trial->fits ? std::optional(trial->lower) : std::nullopt;
    if (!trial)
      return std::nullopt;
    if (trial->fits)
      best.promises(cut, std::max(trial->lower.picoseconds(), trial->least));
    return trial->cost;
  }

  bool attempt(const schedule::Cut &each) {
    return best.attempt(each, [&](const schedule::Cut &cut, schedule::Time below, Made &made, bool &internal) {
      spec.layers->cut = {cut, spec.layers->cutMark};
      return compile(spec, below, made, internal);
    });
  }

  /// Once there is a plan; the first is always made.
  bool hasToStop() const { return stop.stop_requested() && best.chosen(); }

  spec::Spec &spec;
  MLIRContext &context;
  const std::stop_token stop;
  CompileSpec compile;
  const CutSpace space;
  Made &made;
  BestPlan<schedule::Cut> best;
  std::map<schedule::Cut, std::optional<plan::LeastTime>> lower; // of those judged: nothing where no order fits
  const Room room;
  static constexpr int64_t kOver = 16;
  schedule::CutSearch cuts;
};

} // namespace

Code compileCut(spec::Spec &spec, MLIRContext &context, const std::stop_token &stop, CompileSpec compile, Made &made,
                bool &internal) {
  std::optional<CutSpace> space = cutSpaceOf(spec, context);
  if (!space)
    return Code::Input;
  Choosing choosing(spec, context, stop, compile, std::move(*space), made, internal);
  const bool found = choosing.run();
  const auto choose = [&] { spec.layers->cut = {choosing.cut(), spec.layers->cutMark}; };
  choose();
  if (found)
    return Code::Ok;
  const Code code = compile(spec, 0, made, internal);
  if (code == Code::Ok) { // there was no time to look at any
    made.variant.cutBound = choosing.bound();
    choose();
  }
  if (code == Code::Check && !internal)
    emitRemark(locationOf(spec, spec.layers->cutMark, context))
        << "so it is with the best of the cuts that were tried, [" << fmt::format("{}", fmt::join(choosing.cut(), ", "))
        << "]" << (stop.stop_requested() ? ", before the search was stopped" : "");
  return code;
}

} // namespace pipec
