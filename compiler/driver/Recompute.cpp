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

/// How much is done. The more forwards a step has, the less of it, so that it takes about as long whatever the size.
struct Room {
  int64_t judged;        // choices whose order is walked, where not all are looked at
  int64_t compiled;      // with the schedule's own order, where not all are looked at
  int64_t compiledOfAll; // where all are
  int64_t searched;      // with orders that are searched for
  bool usual = true;     // also those that people would choose

  Room(int64_t forwards, bool searches, bool ofMany)
      : judged(std::clamp<int64_t>(kForwards / forwards / (searches ? 4 : 1), 64, 4096)), compiled(6),
        compiledOfAll(std::clamp<int64_t>(kForwards / forwards, 8, 1024)), searched(forwards <= 64    ? 16
                                                                                    : forwards <= 512 ? 6
                                                                                                      : 4) {
    if (ofMany) {
      judged = 64;
      compiled = compiledOfAll = 3;
      searched = 1;
      usual = false;
    }
  }

private:
  static constexpr int64_t kForwards = int64_t(1) << 19;
};

class Choosing {
public:
  Choosing(spec::Spec &spec, MLIRContext &context, CompileSpec compile, RecomputeSpace given, schedule::Time below,
           bool ofMany, Made &made, bool &internal)
      : spec(spec), context(context), compile(compile), space(std::move(given)), best(context, below, made, internal),
        room(std::max<int64_t>(1, space.forwards), !space.schedules.empty(), ofMany), ofMany(ofMany),
        search(
            space.may, space.first, [this](const schedule::Stages &each) { return judge(each); }, room.judged,
            space.schedules.empty()) {}

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
      if (left > 0 && !best.hasFailed() && (cost.excess == 0 || over-- > 0))
        left -= attempt(chosen);
    for (const schedule::Stages &each : room.usual ? space.first : std::vector<schedule::Stages>())
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
      best.promises(chosen, std::max(trial->lower, trial->least));
    return trial->cost;
  }

  spec::Spec &spec;
  MLIRContext &context;
  CompileSpec compile;
  const RecomputeSpace space;
  BestPlan<schedule::Stages> best;
  const Room room;
  const bool ofMany;
  schedule::RecomputeSearch search;
};

} // namespace

Code compileRecompute(spec::Spec &spec, MLIRContext &context, CompileSpec compile, schedule::Time below, bool ofMany,
                      Made &made, bool &internal) {
  std::optional<RecomputeSpace> space = recomputeSpaceOf(spec, context);
  if (!space)
    return Code::Input;
  Choosing choosing(spec, context, compile, std::move(*space), below, ofMany, made, internal);
  if (choosing.run())
    return Code::Ok;
  if (below != 0 || internal)
    return Code::Check;
  const Code code = compile(spec, below, made, internal);
  if (code == Code::Check && !internal)
    emitRemark(locationOf(spec, spec.recomputed.stages.mark, context))
        << "so it is with the best of the choices that were tried, ["
        << fmt::format("{}", fmt::join(spec.recomputed.stages.value, ", ")) << "]";
  return code;
}

} // namespace pipec
