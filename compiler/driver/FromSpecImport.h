// The import of one spec, as its parts in FromSpec*.cpp share it.
#pragma once

#include "compiler/driver/DesignLevel.h"
#include "compiler/driver/FromSpec.h"

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
  /// Of `auto`, where it takes what the catalogue has: the spec with the fastest of it that fits. None after an error.
  std::optional<spec::Spec> withEntry();
  std::vector<CatalogueTime> catalogueTimes();
  schedule::Bytes leastLimit();

private:
  /// What a schedule of the catalogue takes of this spec.
  struct Taken {
    std::pair<schedule::Time, schedule::Bytes> cost; // its time, and of the same, what it holds at most
    __int128 excess; // of the fullest rank over its limit, with the transfer buffers that it needs
    size_t stages;   // of a copy
  };

  mlir::OwningOpRef<mlir::ModuleOp> module();

  // FromSpecSources.cpp: a schedule of the catalogue, the spec's own block, an order file.
  mlir::LogicalResult catalogueEntry();
  /// A number, or a list of them; which of the two, schedule::check knows.
  mlir::LogicalResult readNumbers(const std::string &name, const spec::Parameter &parameter);
  void unknownSchedule();
  mlir::LogicalResult customBlock();
  mlir::LogicalResult readSlots(const std::string &name, const spec::Parameter &parameter, std::vector<int64_t> &slots);
  mlir::LogicalResult orderFile();
  /// What the file fixes, the spec may repeat but not contradict.
  mlir::LogicalResult agreesWithOrder(const spec::Parameter &file);
  /// Loop where the spec says nothing; v: there and back, as often as there are chunks; bidirectional: of two copies.
  std::vector<int32_t> placedAsSpecSays(size_t stages) const;
  /// A placement in the spec must be the one that stands; `fixed` says who fixed it.
  mlir::LogicalResult agreesWithPlacement(const std::string &fixed);
  mlir::LogicalResult setBackward(schedule::BackwardMode mode);

  // FromSpecAuto.cpp: what a search finds.
  mlir::LogicalResult autoParameters();
  mlir::LogicalResult autoSchedule();
  /// The placements that the spec allows: loop, and there and back where it says none.
  std::vector<schedule::Problem> placements();
  /// The best words over them.
  mlir::LogicalResult search();
  /// None where the schedule does not go with the spec.
  std::optional<Taken> taken(schedule::Objective by);
  std::optional<Taken> takenBy(const schedule::Entry &entry);
  /// Of the catalogue what has an order for the spec's slices and copies, and what it takes of the spec.
  std::vector<std::pair<Taken, std::string>> takenByAll();

  // FromSpec.cpp: what all have in common.
  /// What the spec could only say once the schedule had said how many stages there are, and what does not run yet.
  mlir::LogicalResult settle();
  /// All but the placement and the backward, which stand.
  void fillProblem(schedule::Problem &problem);
  mlir::LogicalResult fillAndCheck();
  /// Each parameter by itself, so that the error stands where it does.
  mlir::LogicalResult checkParameters();
  /// Two passes that run at once take no less than the longer one, and no more than one after the other, or they would.
  mlir::LogicalResult checkPairs();
  /// What the order makes of the costs, on links that never queue; looked at only where all of it in a row takes too
  /// long, and not of what is longest to make: the walk of the plan finds the rest.
  mlir::LogicalResult checkLength();

  mlir::Location at(const spec::Mark &mark) { return locationOf(spec, mark, context); }
  mlir::InFlightDiagnostic error(const spec::Mark &mark) { return mlir::emitError(at(mark)); }

  spec::Spec spec;
  mlir::MLIRContext &context;
  SearchRoom room;
  std::optional<schedule::Objective> objective; // of a search
  std::vector<schedule::Problem> alternatives;
  Code code = Code::Input;
};

} // namespace pipec
