// The rules for the background jobs of a pipeline and for the windows of their pieces, one function per attribute.
#include "dialects/pipe/Pipe.h"

#include "runtime/plan/Limits.h"

using namespace mlir;
using namespace pipec::pipe;

namespace limits = pipec::limits;
using EmitError = llvm::function_ref<InFlightDiagnostic()>;

static LogicalResult within(EmitError emitError, StringRef what, int64_t found, int64_t least, int64_t most) {
  if (found < least || found > most)
    return emitError() << "expected " << what << " between " << least << " and " << most << ", found " << found;
  return success();
}

LogicalResult WindowAttr::verify(EmitError emitError, int64_t length, int64_t from) {
  return success(succeeded(within(emitError, "ps of a window", length, 1, limits::kTime)) &&
                 succeeded(within(emitError, "ps before a window", from, 0, limits::kTime)));
}

LogicalResult JobAttr::verify(EmitError emitError, StringAttr name, int64_t samples, int64_t atoms, int64_t atom,
                              int64_t overhead, int64_t memory, std::optional<int64_t> piece, DenseI32ArrayAttr ranks) {
  if (!name || name.empty() || int64_t(name.size()) > limits::kJobNameBytes ||
      name.getValue().find_first_not_of(limits::kJobNameCharacters) != StringRef::npos)
    return emitError() << "expected a job's name of 1 to " << limits::kJobNameBytes
                       << " letters, digits, '-', '_' and '.', found " << name;
  if (failed(within(emitError, "samples of a job", samples, 1, limits::kTime)) ||
      failed(within(emitError, "atoms of a job", atoms, 1, limits::kAtoms)) ||
      failed(within(emitError, "ps of an atom", atom, 1, limits::kTime)) ||
      failed(within(emitError, "ps of overhead", overhead, 0, limits::kTime)) ||
      failed(within(emitError, "bytes of a job", memory, 0, limits::kBytes)) ||
      failed(within(emitError, "atoms of a piece", piece.value_or(1), 1, limits::kTime / atom)))
    return failure();
  if (ranks && (!llvm::is_sorted(ranks.asArrayRef(), std::less_equal<>()) || ranks.empty() || ranks[0] < 0))
    return emitError() << "expected a job's ranks, ascending, found [" << ranks.asArrayRef() << "]";
  return success();
}

LogicalResult JobsAttr::verify(EmitError emitError, int64_t slowDown, bool, ArrayAttr work) {
  if (failed(within(emitError, "millionths of a step", slowDown, 0, limits::kWholeSlowDown)))
    return failure();
  llvm::DenseSet<Attribute> names;
  for (Attribute each : work ? work.getValue() : ArrayRef<Attribute>())
    if (auto job = llvm::dyn_cast<JobAttr>(each); !job || !names.insert(job.getName()).second)
      return emitError() << "expected jobs, each '#pipe.job' with a name of its own, found " << each;
  return within(emitError, "jobs", int64_t(names.size()), 1, limits::kJobs);
}
