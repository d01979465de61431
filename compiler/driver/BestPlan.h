// Compiles choices that may beat the best plan so far, and keeps the best: choices of cuts, or of stages to recompute.
#pragma once

#include "compiler/driver/Auto.h"
#include "compiler/driver/Compile.h"

#include "mlir/IR/Diagnostics.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

namespace pipec {

inline schedule::Time timeOf(const Made &made) { return timeOf(made.variant.certificate, made.objective); }

/// Limits of the work. They shrink as a step's forwards grow, so that the time is about the same for all sizes.
struct Room {
  int64_t judged;        // choices whose order is evaluated, if not all are considered
  int64_t compiled;      // choices compiled with the schedule's own order, if not all are considered
  int64_t compiledOfAll; // the same if all are considered
  int64_t searched;      // choices compiled with a searched order

  /// `each`: the time to judge a choice, in multiples of one evaluation. `searches`: the value of `searched` for small,
  /// medium and large steps.
  Room(int64_t forwards, int64_t each, std::array<int64_t, 3> searches)
      : judged(std::clamp<int64_t>(kForwards / forwards / each, 64, 4096)), compiled(6),
        compiledOfAll(std::clamp<int64_t>(kForwards / forwards, 8, 1024)), searched(searches[forwards <= 64    ? 0
                                                                                             : forwards <= 512 ? 1
                                                                                                               : 2]) {}

private:
  static constexpr int64_t kForwards = int64_t(1) << 19;
};

template <typename Choice> class BestPlan {
public:
  /// `made` receives the best plan. Only plans that take less than `below` count; 0: any plan.
  BestPlan(mlir::MLIRContext &context, schedule::Time below, Made &made, bool &internal)
      : context(context), below(below), made(made), internal(internal) {}

  /// Records that no plan of this choice takes less than `least`.
  void promises(const Choice &choice, schedule::Time least) { atLeast[choice] = least; }

  /// Compiles a choice if its recorded bound may beat the best plan so far. Returns whether it compiled.
  template <typename Compile> bool attempt(const Choice &choice, Compile compile) {
    const auto least = atLeast.find(choice);
    if (least == atLeast.end() || (below != 0 && least->second >= below) || !attempted.insert(choice).second)
      return false;
    mlir::ScopedDiagnosticHandler quiet(&context, [](mlir::Diagnostic &) { return mlir::success(); });
    Made other;
    if (compile(choice, below, other, internal) == Code::Ok && (below == 0 || timeOf(other) < below)) {
      made = std::move(other);
      below = timeOf(made);
      best = choice;
    }
    return true;
  }

  const std::optional<Choice> &chosen() const { return best; }
  /// The time that a better plan must beat; 0: none.
  schedule::Time time() const { return below; }
  bool hasFailed() const { return internal; }

private:
  mlir::MLIRContext &context;
  schedule::Time below;
  Made &made;
  bool &internal;
  std::map<Choice, schedule::Time> atLeast;
  std::set<Choice> attempted;
  std::optional<Choice> best;
};

} // namespace pipec
