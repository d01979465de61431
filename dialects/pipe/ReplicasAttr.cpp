// The rules for the replicas of a pipeline, their exchange, and layers, one function per attribute.
#include "dialects/pipe/Pipe.h"

#include "runtime/plan/Limits.h"

using namespace mlir;
using namespace pipec::pipe;

namespace limits = pipec::limits;
using EmitError = llvm::function_ref<InFlightDiagnostic()>;

LogicalResult LayersAttr::verify(EmitError emitError, int32_t first, int32_t end) {
  if (first < 0 || end <= first)
    return emitError() << "expected layers from 0 on, one or more, found " << first << " to " << end;
  return success();
}

LogicalResult CollectiveTimeAttr::verify(EmitError emitError, int64_t start, int64_t bandwidth, int32_t hops,
                                         int32_t parts) {
  if (start < 0 || start > limits::kTime)
    return emitError() << "expected a start between 0 and " << limits::kTime << " ps, found " << start;
  if (bandwidth < 0)
    return emitError() << "expected a bandwidth of 0 (unlimited) or more bytes per second, found " << bandwidth;
  if (hops < 1 || parts < 1)
    return emitError() << "expected one hop or more, of one part or more, found " << hops << " and " << parts;
  return success();
}

LogicalResult LayerAttr::verify(EmitError emitError, int64_t forward, int64_t backward, int64_t backwardInput,
                                int64_t backwardWeight, int64_t update, DenseI64ArrayAttr gradients, int64_t weights,
                                int64_t state) {
  for (const int64_t time : {forward, backward, backwardInput, backwardWeight, update})
    if (time < 0 || time > limits::kTime)
      return emitError() << "expected times of a layer between 0 and " << limits::kTime << " ps, found " << time;
  SmallVector<int64_t> sizes{weights, state};
  if (gradients)
    llvm::append_range(sizes, gradients.asArrayRef());
  for (const int64_t bytes : sizes)
    if (bytes < 0 || bytes > limits::kBytes)
      return emitError() << "expected sizes of a layer between 0 and " << limits::kBytes << " bytes, found " << bytes;
  return success();
}

/// Sums over layers do not overflow.
static LogicalResult verifyStage(EmitError emitError, ArrayAttr layers) {
  __int128 time = 0, bytes = 0;
  for (auto layer : layers.getAsRange<LayerAttr>()) {
    time += __int128(layer.getForward()) + layer.getBackward() + layer.getBackwardInput() + layer.getBackwardWeight() +
            layer.getUpdate();
    bytes += __int128(layer.getWeights()) + layer.getState();
    if (layer.getGradients())
      for (const int64_t each : layer.getGradients().asArrayRef())
        bytes += each;
  }
  if (time > limits::kTime || bytes > limits::kBytes)
    return emitError() << "expected the layers of a stage to take at most " << limits::kTime << " ps and "
                       << limits::kBytes << " bytes in all";
  return success();
}

LogicalResult ReplicasAttr::verify(EmitError emitError, int32_t degree, CollectiveTimeAttr, CollectiveTimeAttr,
                                   CollectiveTimeAttr, bool, bool, int64_t round, int64_t norm, ArrayAttr layers) {
  if (degree < 2 || degree > limits::kRanks)
    return emitError() << "expected between 2 and " << limits::kRanks << " replicas, found " << degree;
  if (round < 0 || round > limits::kTime)
    return emitError() << "expected a round between 0 and " << limits::kTime << " ps, found " << round;
  if (norm < -1 || norm > limits::kTime)
    return emitError() << "expected a norm's time between 0 and " << limits::kTime << " ps, or -1, found " << norm;
  for (Attribute stage : layers) {
    auto own = mlir::dyn_cast<ArrayAttr>(stage);
    if (!own || own.empty() || !llvm::all_of(own, llvm::IsaPred<LayerAttr>))
      return emitError() << "expected a list of layers for each stage, one '#pipe.layer' or more, found " << stage;
    if (failed(verifyStage(emitError, own)))
      return failure();
  }
  return success();
}

LogicalResult CollectiveAttr::verify(EmitError emitError, CollectiveKind, int32_t stage, int32_t first, int32_t end,
                                     int64_t beginByte, int64_t endByte, int64_t rounds) {
  if (stage < 0 || stage >= limits::kStages)
    return emitError() << "expected a stage between 0 and " << limits::kStages - 1 << ", found " << stage;
  if (beginByte < 0 || endByte < beginByte || endByte > limits::kBytes)
    return emitError() << "expected a range of bytes between 0 and " << limits::kBytes << ", found " << beginByte
                       << " to " << endByte;
  if (rounds < 0 || rounds > limits::kTime)
    return emitError() << "expected rounds between 0 and " << limits::kTime << " ps, found " << rounds;
  return LayersAttr::verify(emitError, first, end);
}

LogicalResult ExchangeAttr::verify(EmitError emitError, Updates, bool, bool, bool, bool, DenseI32ArrayAttr tails,
                                   ArrayAttr queues) {
  if (tails && llvm::any_of(tails.asArrayRef(), [](int32_t tail) { return tail < 0; }))
    return emitError() << "expected tails of 0 or more W, found " << tails;
  for (Attribute rank : queues) {
    auto own = mlir::dyn_cast<ArrayAttr>(rank);
    if (!own || !llvm::all_of(own, llvm::IsaPred<CollectiveAttr>))
      return emitError() << "expected a list of collectives for each rank, found " << rank;
  }
  return success();
}
