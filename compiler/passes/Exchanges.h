// The time of a step with an exchange of gradients, found by simulating its programs.
#pragma once

#include "compiler/program/BuildPrograms.h"
#include "compiler/schedule/exchange/Exchange.h"
#include "runtime/simulate/Simulate.h"

#include <limits>
#include <optional>

namespace pipec {

/// Makes programs from a problem, its order and an exchange. Transfers have unlimited buffers.
class Exchanges {
public:
  static constexpr plan::Time kNever = std::numeric_limits<plan::Time>::max();

  /// All arguments must outlive the object.
  Exchanges(const schedule::Problem &problem, const schedule::Words &words, pipe::Communicator communicator,
            PassPlaces places)
      : problem(problem), words(words), communicator(communicator), places(std::move(places)) {}
  Exchanges(const schedule::Problem &problem, const schedule::Words &words, pipe::Communicator communicator,
            mlir::MLIRContext &context)
      : Exchanges(problem, words, communicator, PassPlaces(mlir::UnknownLoc::get(&context), problem)) {}

  /// The programs without transfers.
  ProgramSet setOf(const schedule::Replicas &replicas, const schedule::Exchange &exchange) const;
  /// The programs with transfers; none if the ranks would deadlock.
  std::optional<plan::Variant> programsOf(const schedule::Replicas &replicas, const schedule::Exchange &exchange) const;
  /// The time per step. kNever: the step deadlocks, takes longer than the longest step allowed, or does not fit into
  /// memory.
  plan::Time spanOf(const schedule::Replicas &replicas, const schedule::Exchange &exchange) const;
  /// The time per step of programs that have no transfers yet.
  plan::Time spanOf(ProgramSet set) const;
  /// By rank: how many W follow its last F. Empty: no rank has more than one.
  std::vector<int32_t> tails() const;
  /// The times at which gradients are ready if nothing waits for them: each layer is summed by itself, in no time.
  schedule::Ready readyOf(schedule::Replicas replicas, const std::vector<int32_t> &tails = {}) const;

private:
  std::optional<plan::Variant> connected(ProgramSet set) const;

  const schedule::Problem &problem;
  const schedule::Words &words;
  const pipe::Communicator communicator;
  const PassPlaces places;
};

} // namespace pipec
