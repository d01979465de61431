// The import of one spec, as its parts in FromSpec*.cpp share it.
#pragma once

#include "compiler/driver/DesignLevel.h"
#include "compiler/driver/FromSpec.h"
#include "compiler/shards/ShardedRanks.h"

#include "mlir/IR/Diagnostics.h"

namespace pipec {

/// Where the passes of a problem come from: the catalogue, the spec's own block, or an order file. Fills in what the
/// source fixes (placement, backward, block or words); every contradiction is an error at its place.
class Import : Design {
public:
  Import(spec::Spec given, mlir::MLIRContext &context, SearchRoom room)
      : spec(std::move(given)), context(context), room(room) {}

  Imported run();
  SearchSpace space();
  /// Where `auto` only chooses from the catalogue: the spec with the fastest schedule that fits. Nothing after an
  /// error.
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
  /// What a schedule of the catalogue needs for this spec.
  struct Taken {
    std::pair<schedule::Time, schedule::Bytes> cost; // its time; for equal times, the most bytes that a rank holds
    schedule::Time least;                            // if every R ran while its rank waits
    __int128 excess; // of the fullest rank over its limit, with the transfer buffers that it needs
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
  /// An error where the spec contradicts what the order file fixes; it may repeat it.
  mlir::LogicalResult agreesWithOrder(const spec::Parameter &file);
  /// Stage → rank: in a loop where the spec says nothing; v: there and back, as often as there are chunks;
  /// bidirectional: for two copies.
  std::vector<int32_t> placedAsSpecSays(size_t stages) const;
  /// An error where the spec gives another placement than the one that is fixed; `fixed` says by whom.
  mlir::LogicalResult agreesWithPlacement(const std::string &fixed);
  mlir::LogicalResult setBackward(schedule::BackwardMode mode);

  // FromSpecAuto.cpp: `auto`.
  mlir::LogicalResult autoParameters();
  mlir::LogicalResult autoSchedule();
  /// The placements that the spec allows: loop, and there and back where it says none.
  std::vector<schedule::Problem> placements();
  /// Searches all placements and takes the best words.
  mlir::LogicalResult search();
  /// Nothing where the schedule does not go with the spec.
  std::optional<Taken> taken(schedule::Objective by);
  std::optional<Taken> takenBy(const schedule::Entry &entry);
  bool hasToStop() const { return room.stop.stop_requested(); }
  /// An error: there was no time to find an order.
  void stopped();
  /// The schedules of the catalogue that have an order for the spec's slices and copies, and what each needs.
  std::vector<std::pair<Taken, std::string>> takenByAll();

  // FromSpecRecompute.cpp: `recompute: auto`.
  /// What a stage keeps and takes where it is recomputed, of a slice.
  schedule::Again againOf(size_t stage) const;
  /// The stages of a problem for which running again saves memory; none where the spec chooses none.
  schedule::MayAgain mayRunAgain(const schedule::Problem &filled) const;
  /// Of the catalogue, those that stand for what a search would find.
  std::vector<std::string> standIns();

  // FromSpec.cpp: what all have in common.
  /// Checks what could only be checked once the schedule had said how many stages there are, and refuses what does not
  /// run yet.
  mlir::LogicalResult settle();
  /// Fills in all but the placement and the backward, which are there.
  void fillProblem(schedule::Problem &problem);
  /// The part of it that costs, sizes and links say.
  void fillFigures(schedule::Problem &problem);
  /// The portions of its shards, for a problem that has its placement and backward.
  ShardedRanks ranksOf(const schedule::Problem &filled) const;
  /// How many microbatches of each stage words have in flight at once, for the memory of shards.
  std::vector<int64_t> heldAtOnce(const schedule::Words &words) const;
  mlir::LogicalResult fillAndCheck();
  /// Checks each parameter by itself, so that an error names its place.
  mlir::LogicalResult checkParameters();
  bool mixes() const { return spec.backwardMode && spec.backwardMode->value == spec::Backward::Mixed; }
  /// Checks that whole backwards may pay, and that nothing else has its own way with W.
  mlir::LogicalResult checkMixed();
  /// The order's, the schedule's or the block's words; none where the search makes them.
  schedule::Words wordsHere();
  /// The same with backwards whole where that pays.
  schedule::Words mixedWords();
  /// Checks that the spec's own block can be repeated.
  mlir::LogicalResult checkBlock();
  /// Checks `overlapped`: two passes at once take no less than the longer one, and no more than one after the other.
  mlir::LogicalResult checkPairs();
  /// Checks that a step of this order does not take too long, on links that never queue. Looks only where all work in a
  /// row takes too long, and not at the largest orders: the walk of the plan finds what is left.
  mlir::LogicalResult checkLength();

  mlir::Location at(const spec::Mark &mark) { return locationOf(spec, mark, context); }
  mlir::InFlightDiagnostic error(const spec::Mark &mark) { return mlir::emitError(at(mark)); }

  spec::Spec spec;
  mlir::MLIRContext &context;
  SearchRoom room;
  std::optional<schedule::Objective> objective; // of a search
  std::vector<schedule::Problem> alternatives;
  std::vector<int64_t>
      inFlight; // with shards and a memory limit: microbatches of each stage that its rank holds at once
  Code code = Code::Input;
};

/// Where `auto` only chooses from the catalogue, the spec with what it chooses; else the spec. Nothing after an error.
std::optional<spec::Spec> withEntryIfChosen(const spec::Spec &spec, mlir::MLIRContext &context, SearchRoom room = {1});

} // namespace pipec
