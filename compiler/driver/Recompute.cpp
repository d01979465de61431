#include "compiler/driver/Recompute.h"

#include "compiler/driver/BestPlan.h"
#include "compiler/driver/DesignLevel.h"
#include "compiler/schedule/recompute/RecomputeSearch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

using namespace mlir;

namespace pipec {

namespace {

/// For one of many cuts little is done, and what people would choose is not tried besides.
Room roomFor(int64_t forwards, bool searches, bool ofMany) {
  Room room(std::max<int64_t>(1, forwards), searches ? 4 : 1, {8, 6, 4});
  if (ofMany) {
    room.judged = 64;
    room.compiled = room.compiledOfAll = 3;
    room.searched = 1;
  }
  return room;
}

class Choosing {
public:
  Choosing(spec::Spec &spec, MLIRContext &context, const std::stop_token &stop, CompileSpec compile,
           RecomputeSpace given, schedule::Time below, bool ofMany, Made &made, bool &internal)
      : spec(spec), context(context), stop(stop), compile(compile), space(std::move(given)),
        best(context, below, made, internal), room(roomFor(space.forwards, !space.schedules.empty(), ofMany)),
        ofMany(ofMany),
        search(
            space.may, space.first,
            [this](const schedule::Stages &each) { return this->stop.stop_requested() ? std::nullopt : judge(each); },
            room.judged, space.schedules.empty()) {}

  bool run() {
    search.run();
    int64_t left = !space.schedules.empty() ? room.searched : search.looksAtAll() ? room.compiledOfAll : room.compiled;
    const auto attempt = [&](const schedule::Stages &chosen) {
      return best.attempt(chosen, [&](const schedule::Stages &each, schedule::Time below, Made &made, bool &internal) {
        choose(each);
        return compile(spec, below, made, internal);
      });
    };
    int64_t over = room.compiledOfAll; // that are over the limit with the buffers they need; with fewer some may do
    for (const auto &[cost, chosen] : search.judged())
      if (left > 0 && !best.hasFailed() && !hasToStop() && (cost.excess == 0 || over-- > 0))
        left -= attempt(chosen);
    for (const schedule::Stages &each : ofMany ? std::vector<schedule::Stages>() : space.first)
      if (!hasToStop())
        attempt(each);
    choose(best.chosen()             ? *best.chosen()
           : search.judged().empty() ? schedule::Stages()
                                     : search.judged().begin()->second);
    return best.chosen().has_value();
  }

private:
  void choose(const schedule::Stages &chosen) { spec.recomputed.choose({chosen.begin(), chosen.end()}); }

  std::optional<schedule::TrialCost> judge(const schedule::Stages &chosen) {
    choose(chosen);
    // Of an order that is searched for, the choice's own bound is the best guess.
    const bool guesses = !space.schedules.empty() && !ofMany;
    const std::optional<Trial> trial =
        tryChoice(spec, space.schedules, context, guesses ? std::nullopt : std::optional(space.lower));
    if (!trial)
      return std::nullopt;
    if (trial->fits)
      best.promises(chosen, std::max(trial->lower.picoseconds(), trial->least));
    return trial->cost;
  }

  /// Once there is a plan; the first is always made.
  bool hasToStop() const { return stop.stop_requested() && best.chosen(); }

  spec::Spec &spec;
  MLIRContext &context;
  const std::stop_token stop;
  CompileSpec compile;
  const RecomputeSpace space;
  BestPlan<schedule::Stages> best;
  const Room room;
  const bool ofMany;
  schedule::RecomputeSearch search;
};

} // namespace

Code compileRecompute(spec::Spec &spec, MLIRContext &context, const std::stop_token &stop, CompileSpec compile,
                      schedule::Time below, bool ofMany, Made &made, bool &internal) {
  std::optional<RecomputeSpace> space = recomputeSpaceOf(spec, context);
  if (!space)
    return Code::Input;
  Choosing choosing(spec, context, stop, compile, std::move(*space), below, ofMany, made, internal);
  if (choosing.run())
    return Code::Ok;
  if (below != 0 || internal)
    return Code::Check;
  const Code code = compile(spec, below, made, internal);
  if (code == Code::Check && !internal)
    emitRemark(locationOf(spec, spec.recomputed.stages.mark, context))
        << "so it is with the best of the choices that were tried, "
        << (spec.recomputed.stages.value.empty() ? "none"
                                                 : fmt::format("[{}]", fmt::join(spec.recomputed.stages.value, ", ")))
        << (stop.stop_requested() ? ", before the search was stopped" : "");
  return code;
}

} // namespace pipec
