// The import of one spec, shared by its parts in FromSpec*.cpp.
#pragma once

#include "compiler/driver/DesignLevel.h"
#include "compiler/driver/FromSpec.h"
#include "compiler/shards/ShardedRanks.h"

#include "mlir/IR/Diagnostics.h"

namespace pipec {

/// Imports a spec. The passes of its problem come from the catalogue, the spec's own block, or an order file. The
/// import fills in what this source fixes (placement, backward, block or words); every contradiction is an error at its
/// place.
class Import : Design {
public:
  Import(spec::Spec given, mlir::MLIRContext &context, SearchRoom room)
      : spec(std::move(given)), context(context), room(room) {}

  Imported run();
  SearchSpace space();
  /// For a spec with `auto` that only chooses from the catalogue: the spec with the fastest schedule that fits. None
  /// after an error.
  std::optional<spec::Spec> withEntry();
  std::vector<CatalogueTime> catalogueTimes();
  schedule::Bytes leastLimit();
  std::optional<CutSpace> cutSpace();
  std::optional<RecomputeSpace> recomputeSpace();
  schedule::LeastWays choices();
  std::optional<Trial> tryChoice(const std::vector<std::string> &schedules, std::optional<plan::LeastTime> lower);
  std::vector<std::string> fitting(int32_t stages);
  std::optional<schedule::Problem> withFigures(schedule::Problem other);

private:
  /// What a catalogue schedule needs for this spec.
  struct Taken {
    std::pair<schedule::Time, schedule::Bytes> cost; // its time; for equal times, the peak bytes of the fullest rank
    schedule::Time least;                            // its time if every R ran while its rank waits
    __int128 excess; // bytes over the limit, on the fullest rank, with the transfer buffers that it needs
    size_t stages;   // of a copy
  };

  mlir::OwningOpRef<mlir::ModuleOp> module();

  /// Fills in what the schedule fixes.
  mlir::LogicalResult choose();
  // FromSpecSources.cpp: a schedule of the catalogue, the spec's own block, an order file.
  mlir::LogicalResult catalogueEntry();
  /// Reads a number or a list of numbers; schedule::check says which of the two the parameter takes.
  mlir::LogicalResult readNumbers(const std::string &name, const spec::Parameter &parameter);
  void unknownSchedule();
  mlir::LogicalResult customBlock();
  mlir::LogicalResult readSlots(const std::string &name, const spec::Parameter &parameter, std::vector<int64_t> &slots);
  mlir::LogicalResult orderFile();
  /// An error if the spec contradicts what the order file fixes; the spec may repeat it.
  mlir::LogicalResult agreesWithOrder(const spec::Parameter &file);
  /// Stage → rank. The spec says nothing: in a loop. v: there and back over the ranks, as often as there are chunks.
  /// bidirectional: the stages of two copies, which run in opposite directions.
  std::vector<int32_t> placedAsSpecSays(size_t stages) const;
  /// An error if the spec gives another placement than the fixed one; `fixed` says what fixes it.
  mlir::LogicalResult agreesWithPlacement(const std::string &fixed);
  mlir::LogicalResult setBackward(schedule::BackwardMode mode);

  // FromSpecAuto.cpp: `auto`.
  mlir::LogicalResult autoParameters();
  mlir::LogicalResult autoSchedule();
  /// The placements that the spec allows: if it names none, loop and there and back.
  std::vector<schedule::Problem> placements();
  /// Searches all placements and takes the best words.
  mlir::LogicalResult search();
  /// None if the schedule does not match the spec.
  std::optional<Taken> taken(schedule::Objective by);
  std::optional<Taken> takenBy(const schedule::Entry &entry);
  bool hasToStop() const { return room.stop.stop_requested(); }
  /// Reports the error that there was no time to find an order.
  void stopped();
  /// The catalogue schedules with an order for the spec's slices and copies, and what each needs.
  std::vector<std::pair<Taken, std::string>> takenByAll();

  // FromSpecRecompute.cpp: `recompute: auto`.
  /// The input and the time of a stage if recomputed, for one slice.
  schedule::Again againOf(size_t stage) const;
  /// The stages of a problem that save memory if recomputed; none if the spec leaves no choice.
  schedule::MayAgain mayRunAgain(const schedule::Problem &filled) const;
  /// The catalogue schedules that stand in for the result of a search.
  std::vector<std::string> standIns();

  // FromSpec.cpp: common parts.
  /// Makes the checks that need the number of stages, which the schedule determines, and refuses what is not supported
  /// yet.
  mlir::LogicalResult settle();
  /// Fills in everything except placement and backward, which must be set.
  void fillProblem(schedule::Problem &problem);
  /// Fills in costs, sizes and links.
  void fillFigures(schedule::Problem &problem);
  /// The portions of the shards, for a problem with its placement and backward.
  ShardedRanks ranksOf(const schedule::Problem &filled) const;
  /// By stage: how many microbatches the words have in flight at once, for the memory of shards.
  std::vector<int64_t> heldAtOnce(const schedule::Words &words) const;
  mlir::LogicalResult fillAndCheck();
  /// Checks each parameter by itself, so that an error names its place.
  mlir::LogicalResult checkParameters();
  bool mixes() const { return spec.backwardMode && spec.backwardMode->value == spec::Backward::Mixed; }
  /// Checks that whole backwards may pay, and that no other option decides about W.
  mlir::LogicalResult checkMixed();
  /// The words of the order, the schedule or the block; none if the search makes them.
  schedule::Words wordsHere();
  /// The same with whole backwards where that pays.
  schedule::Words mixedWords();
  /// Checks that the spec's own block can be repeated.
  mlir::LogicalResult checkBlock();
  /// Checks `overlapped`: two overlapped passes take at least the longer time, and at most the sum.
  mlir::LogicalResult checkPairs();
  /// Checks that a step of this order is not too long, on links that never queue. Checks only if the sum of all work is
  /// too long, and not for the largest orders; the simulation of the plan finds the rest.
  mlir::LogicalResult checkLength();

  mlir::Location at(const spec::Mark &mark) { return locationOf(spec, mark, context); }
  mlir::InFlightDiagnostic error(const spec::Mark &mark) { return mlir::emitError(at(mark)); }

  spec::Spec spec;
  mlir::MLIRContext &context;
  SearchRoom room;
  std::optional<schedule::Objective> objective; // of a search
  std::vector<schedule::Problem> alternatives;
  std::vector<int64_t>
      inFlight; // with shards and a memory limit: by stage, the microbatches that its rank holds at once
  Code code = Code::Input;
};

/// The spec with the schedule that `auto` chooses, if `auto` only chooses from the catalogue; else the spec itself.
/// None after an error.
std::optional<spec::Spec> withEntryIfChosen(const spec::Spec &spec, mlir::MLIRContext &context, SearchRoom room = {1});

} // namespace pipec
