// Compiles choices that promise to be better than the best so far, and keeps the best: of cuts, of stages to recompute.
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

/// How much is done. The more forwards a step has, the less of it, so that it takes about as long whatever the size.
struct Room {
  int64_t judged;        // choices whose order is walked, where not all are looked at
  int64_t compiled;      // with the schedule's own order, where not all are looked at
  int64_t compiledOfAll; // where all are
  int64_t searched;      // with orders that are searched for

  /// `each`: how much longer than a walk judging a choice takes. `searches`: of small, middling and large steps.
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
  /// `made`: the best; only what takes less than `below` is; 0: anything.
  BestPlan(mlir::MLIRContext &context, schedule::Time below, Made &made, bool &internal)
      : context(context), below(below), made(made), internal(internal) {}

  /// A plan of this choice takes no less.
  void promises(const Choice &choice, schedule::Time least) { atLeast[choice] = least; }

  /// Compiles a choice with a promise that may be better than the best so far; whether it did.
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
  /// What a better plan takes less than; 0: there is none.
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
