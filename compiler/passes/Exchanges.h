// What a step takes with an exchange of gradients: its programs, walked.
#pragma once

#include "compiler/program/BuildPrograms.h"
#include "compiler/schedule/exchange/Exchange.h"
#include "runtime/simulate/Simulate.h"

#include <limits>
#include <optional>

namespace pipec {

/// A problem with its order, and what exchanges make of both. Transfers have all the buffers that they want.
class Exchanges {
public:
  static constexpr plan::Time kNever = std::numeric_limits<plan::Time>::max();

  /// All outlive the object.
  Exchanges(const schedule::Problem &problem, const schedule::Words &words, pipe::Communicator communicator,
            PassPlaces places)
      : problem(problem), words(words), communicator(communicator), places(std::move(places)) {}
  Exchanges(const schedule::Problem &problem, const schedule::Words &words, pipe::Communicator communicator,
            mlir::MLIRContext &context)
      : Exchanges(problem, words, communicator, PassPlaces(mlir::UnknownLoc::get(&context), problem)) {}

  /// Without transfers.
  ProgramSet setOf(const schedule::Replicas &replicas, const schedule::Exchange &exchange) const;
  /// Nothing where ranks would wait for each other in a cycle.
  std::optional<plan::Variant> programsOf(const schedule::Replicas &replicas, const schedule::Exchange &exchange) const;
  /// The time per step. kNever: it stops, takes longer than the longest step, or does not fit into memory.
  plan::Time spanOf(const schedule::Replicas &replicas, const schedule::Exchange &exchange) const;
  /// The same of programs without transfers.
  plan::Time spanOf(ProgramSet set) const;
  /// Of each rank, how many W come behind its last F. Empty: nowhere more than one.
  std::vector<int32_t> tails() const;
  /// When gradients are ready where nobody waits for them: each layer is summed by itself, in no time.
  schedule::Ready readyOf(schedule::Replicas replicas, const std::vector<int32_t> &tails = {}) const;

private:
  std::optional<plan::Variant> connected(ProgramSet set) const;

  const schedule::Problem &problem;
  const schedule::Words &words;
  const pipe::Communicator communicator;
  const PassPlaces places;
};

} // namespace pipec
