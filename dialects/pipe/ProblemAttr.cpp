// The text of `#pipe.link`, and the rules of `#pipe.link` and `#pipe.problem`, one function each.
#include "dialects/pipe/Pipe.h"

#include "runtime/plan/Limits.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace pipec::pipe;

namespace limits = pipec::limits;
using EmitError = llvm::function_ref<InFlightDiagnostic()>;

//===----------------------------------------------------------------------===//
// Link
//===----------------------------------------------------------------------===//

LogicalResult LinkAttr::verify(EmitError emitError, int32_t from, int32_t to, int64_t latency, int64_t bandwidth) {
  auto isRank = [](int32_t rank) { return rank >= 0 && rank < limits::kRanks; };
  bool isDefault = from == -1 && to == -1;
  if (!isDefault && (!isRank(from) || !isRank(to)))
    return emitError() << "expected ranks between 0 and " << limits::kRanks - 1
                       << " (or no ranks for the default), found " << from << " to " << to;
  if (!isDefault && from == to)
    return emitError() << "expected two ranks, found " << from << " to itself";
  if (latency < 0 || latency > limits::kTime)
    return emitError() << "expected a latency between 0 and " << limits::kTime << " ps, found " << latency;
  if (bandwidth < 0)
    return emitError() << "expected a bandwidth of 0 (unlimited) or more bytes per second, found " << bandwidth;
  return success();
}

Attribute LinkAttr::parse(AsmParser &parser, Type) {
  int32_t from = -1, to = -1;
  int64_t latency = 0, bandwidth = 0;
  const SMLoc at = parser.getCurrentLocation();
  if (parser.parseLess())
    return {};
  if (const OptionalParseResult ranks = parser.parseOptionalInteger(from);
      ranks.has_value() && (failed(*ranks) || parser.parseKeyword("to") || parser.parseInteger(to)))
    return {};
  if (parser.parseKeyword("latency") || parser.parseInteger(latency) ||
      (succeeded(parser.parseOptionalKeyword("bandwidth")) && parser.parseInteger(bandwidth)) || parser.parseGreater())
    return {};
  return LinkAttr::getChecked([&] { return parser.emitError(at); }, parser.getContext(), from, to, latency, bandwidth);
}

void LinkAttr::print(AsmPrinter &printer) const {
  printer << "<";
  if (!isDefault())
    printer << getFrom() << " to " << getTo() << " ";
  printer << "latency " << getLatency();
  if (getBandwidth() != 0)
    printer << " bandwidth " << getBandwidth();
  printer << ">";
}

//===----------------------------------------------------------------------===//
// Problem
//===----------------------------------------------------------------------===//

static int32_t ranksOf(ArrayRef<int32_t> placement) { return *llvm::max_element(placement) + 1; }

int32_t ProblemAttr::ranks() const { return ranksOf(getPlacement()); }

int32_t ProblemAttr::before(int32_t stage) const {
  return stage % (int32_t(getPlacement().size()) / getCopies()) == 0 ? -1 : stage - 1;
}

int32_t ProblemAttr::after(int32_t stage) const {
  return (stage + 1) % (int32_t(getPlacement().size()) / getCopies()) == 0 ? -1 : stage + 1;
}

static LogicalResult verifyPlacement(EmitError emitError, ArrayRef<int32_t> placement) {
  if (placement.empty() || int64_t(placement.size()) > limits::kStages)
    return emitError() << "expected between 1 and " << limits::kStages << " stages in the placement, found "
                       << placement.size();
  for (int32_t rank : placement)
    if (rank < 0 || rank >= limits::kRanks)
      return emitError() << "expected ranks between 0 and " << limits::kRanks - 1 << " in the placement, found "
                         << rank;
  llvm::SmallBitVector used(unsigned(ranksOf(placement)));
  for (int32_t rank : placement)
    used.set(unsigned(rank));
  if (!used.all())
    return emitError() << "expected every rank to hold a stage, found none on rank " << used.find_first_unset();
  return success();
}

static LogicalResult verifyCount(EmitError emitError, StringRef what, int64_t count) {
  if (count < 1 || count > limits::kMicrobatches)
    return emitError() << "expected '" << what << "' between 1 and " << limits::kMicrobatches << ", found " << count;
  return success();
}

static LogicalResult verifyCopies(EmitError emitError, size_t stages, int32_t copies) {
  if (copies < 1 || copies > 2 || stages % size_t(copies) != 0)
    return emitError() << "expected one copy of its stages or two equal ones, found " << stages << " stages of "
                       << copies;
  return success();
}

/// The default link names no ranks. Each of `links` names two ranks of the problem, and no two of them the same pair.
static LogicalResult verifyLinks(EmitError emitError, LinkAttr usual, ArrayAttr links, int32_t ranks) {
  if (usual && !usual.isDefault())
    return emitError() << "expected 'link', that of all ranks, to name none, found " << usual.getFrom() << " to "
                       << usual.getTo();
  llvm::DenseSet<std::pair<int32_t, int32_t>> seen;
  for (Attribute each : links ? links.getValue() : ArrayRef<Attribute>()) {
    auto link = dyn_cast<LinkAttr>(each);
    if (!link)
      return emitError() << "expected each of 'links' to be a '#pipe.link', found " << each;
    if (link.getFrom() < 0 || link.getFrom() >= ranks || link.getTo() >= ranks)
      return emitError() << "expected links between ranks 0 and " << ranks - 1 << ", found " << link.getFrom() << " to "
                         << link.getTo();
    if (!seen.insert({link.getFrom(), link.getTo()}).second)
      return emitError() << "has two links from " << link.getFrom() << " to " << link.getTo();
  }
  return success();
}

static LogicalResult verifyList(EmitError emitError, StringRef name, DenseI64ArrayAttr values, size_t size,
                                int64_t least, int64_t most) {
  if (!values)
    return success();
  if (size_t(values.size()) != size)
    return emitError() << "expected " << size << " values in '" << name << "', found " << values.size();
  for (int64_t value : values.asArrayRef())
    if (value < least || value > most)
      return emitError() << "expected values between " << least << " and " << most << " in '" << name << "', found "
                         << value;
  return success();
}

static LogicalResult verifyNorm(EmitError emitError, std::optional<int64_t> time) {
  if (time && (*time < 0 || *time > limits::kTime))
    return emitError() << "expected a global_norm between 0 and " << limits::kTime << " ps, found " << *time;
  return success();
}

static bool ascends(ArrayRef<int32_t> numbers) {
  for (size_t i = 0; i != numbers.size(); ++i)
    if (numbers[i] < (i == 0 ? 0 : numbers[i - 1] + 1))
      return false;
  return true;
}

LogicalResult SharedWeightAttr::verify(EmitError emitError, DenseI32ArrayAttr layers, DenseI32ArrayAttr stages,
                                       int64_t gradients) {
  if (!layers || layers.size() < 2 || !ascends(layers))
    return emitError() << "expected two or more 'layers', ascending";
  if (!stages || stages.empty() || !ascends(stages))
    return emitError() << "expected one or more 'stages', ascending";
  if (gradients < 1 || gradients > limits::kBytes)
    return emitError() << "expected 'gradients' between 1 and " << limits::kBytes << " bytes, found " << gradients;
  return success();
}

static LogicalResult verifyShared(EmitError emitError, ArrayAttr shared, int32_t copies, int32_t stages) {
  __int128 bytes = 0;
  for (Attribute each : shared ? shared.getValue() : ArrayRef<Attribute>()) {
    const auto weight = dyn_cast<SharedWeightAttr>(each);
    if (!weight)
      return emitError() << "expected each of 'shared' to be a '#pipe.shared_weight', found " << each;
    if (weight.getStages().asArrayRef().back() >= stages)
      return emitError() << "expected shared weights of stages 0 to " << stages - 1 << ", found "
                         << weight.getStages().asArrayRef().back();
    if ((bytes += weight.getGradients()) > limits::kBytes)
      return emitError() << "expected at most " << limits::kBytes << " bytes of all shared weights";
  }
  if (shared && copies != 1)
    return emitError() << "has shared weights and two copies of its stages, which are not supported yet";
  return success();
}

LogicalResult ProblemAttr::verify(EmitError emitError, DenseI32ArrayAttr placement, int32_t microbatches,
                                  int32_t copies, int32_t slices, std::optional<int32_t> backwardGroup, Communicator,
                                  Weights, RingSizes, LinkAttr link, ArrayAttr links, DenseI64ArrayAttr optimizer,
                                  DenseI64ArrayAttr gradients, DenseI64ArrayAttr whole, DenseI64ArrayAttr overlapped,
                                  DenseI64ArrayAttr staticBytes, DenseI64ArrayAttr workspace,
                                  DenseI64ArrayAttr memoryLimit, std::optional<int64_t> globalNorm, ArrayAttr shared) {
  const size_t stages = size_t(placement.size());
  if (failed(verifyPlacement(emitError, placement)) || failed(verifyCopies(emitError, stages, copies)) ||
      failed(verifyCount(emitError, "microbatches", microbatches)) ||
      failed(verifyCount(emitError, "slices", slices)) ||
      failed(verifyCount(emitError, "backward_group", backwardGroup.value_or(slices))))
    return failure();
  const int32_t ranks = ranksOf(placement);
  return success(succeeded(verifyLinks(emitError, link, links, ranks)) &&
                 succeeded(verifyList(emitError, "optimizer", optimizer, stages, 0, limits::kTime)) &&
                 succeeded(verifyList(emitError, "gradients", gradients, stages, 0, limits::kBytes)) &&
                 succeeded(verifyList(emitError, "whole", whole, stages, 0, limits::kTime)) &&
                 succeeded(verifyList(emitError, "overlapped", overlapped, stages, -1, limits::kTime)) &&
                 succeeded(verifyList(emitError, "static_bytes", staticBytes, size_t(ranks), 0, limits::kBytes)) &&
                 succeeded(verifyList(emitError, "workspace", workspace, size_t(ranks), 0, limits::kBytes)) &&
                 succeeded(verifyList(emitError, "memory_limit", memoryLimit, size_t(ranks), 1, limits::kBytes)) &&
                 succeeded(verifyNorm(emitError, globalNorm)) &&
                 succeeded(verifyShared(emitError, shared, copies, int32_t(stages))));
}
