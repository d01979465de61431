// pipe-insert-communication: sends and receives for what flows between ranks, in one order of all transfers.
#include "compiler/passes/Passes.h"
#include "compiler/program/BuildPrograms.h"
#include "compiler/program/Dependences.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace pipec {

using namespace pipe;

namespace {

/// Each rank's transfers where its order says; each waits for the pass before it, and all for sends that it says.
LogicalResult placeAsGiven(PipelineOp pipeline, ProgramSet &set) {
  auto wrong = [&](const Twine &what) { return pipeline.emitError() << what, failure(); };
  if (pipeline.getOrders()->size() != set.ranks())
    return wrong("expected a program for each of its " + Twine(pipeline.getOrders()->size()) + " orders");
  for (auto [rank, given] : llvm::enumerate(pipeline.getOrders()->getAsRange<OrderAttr>())) {
    Program &program = set.programs[rank];
    // By kind, payload, stage and microbatch.
    llvm::DenseMap<std::pair<uint64_t, uint32_t>, uint32_t> unplaced;
    auto keyOf = [](bool sends, bool forward, int32_t stage, int32_t microbatch) {
      return std::pair(uint64_t(uint32_t(stage)) << 2 | uint64_t(sends) << 1 | uint64_t(forward), uint32_t(microbatch));
    };
    std::vector<uint32_t> upTo{0}; // so many records with the first passes of each number
    uint32_t own = 0;              // all but transfers
    for (uint32_t i = 0; i != program.instructions.size(); ++i) {
      const plan::Operation &operation = program.of(program.instructions[i]);
      own += !plan::isTransfer(operation.kind);
      if (plan::isOrdered(operation.kind))
        upTo.push_back(i + 1);
      if (plan::isTransfer(operation.kind))
        unplaced[keyOf(operation.kind == plan::Kind::Send, operation.of == plan::Payload::Forward, operation.stage,
                       program.instructions[i].microbatch)] = i;
    }
    std::vector<uint32_t> order, awaited; // awaited: sends
    std::vector<Use> gates;
    decltype(unplaced) sent;
    uint32_t next = 0;
    auto place = [&](uint32_t record) {
      // Of an overlapped pair the F says what its header waits for.
      const bool overlaps = program.kind(program.instructions[record]) == plan::Kind::Overlapped;
      for (const uint32_t send : awaited)
        gates.push_back({record + (overlaps ? 1 : 0), send});
      order.push_back(record);
    };
    // What stands behind a pass waits for what the pass waits for.
    auto placeOwn = [&](uint32_t end) {
      for (; next != end; ++next, awaited.clear())
        place(next);
    };
    size_t passes = 0;
    for (const Action &action : given.getActions()) {
      if (plan::isOrdered(action.kind)) {
        if (++passes == upTo.size())
          return wrong("expected the passes of rank " + Twine(rank) + "'s program in its order, found more");
        continue;
      }
      placeOwn(upTo[passes]);
      const bool sends = action.kind == plan::Kind::Send;
      auto &known = action.waits ? sent : unplaced;
      const auto key = keyOf(sends, action.of == plan::Payload::Forward, action.stage, action.microbatch);
      const auto found = known.find(key);
      if (found == known.end())
        return action.waits
                   ? wrong("expected what rank " + Twine(rank) + " waits for to be sent before, found " + text(action))
                   : wrong("expected each of rank " + Twine(rank) + "'s transfers once in its order, found another, " +
                           text(action));
      const uint32_t record = found->second;
      known.erase(found);
      if (action.waits) {
        awaited.push_back(record);
        continue;
      }
      if (next != 0)
        gates.push_back({record, next - 1});
      place(record);
      if (sends)
        sent[key] = record;
    }
    if (!unplaced.empty())
      return wrong("expected each of rank " + Twine(rank) + "'s transfers once in its order, " +
                   Twine(unplaced.size()) + " are missing");
    placeOwn(own);
    program.uses.insert(program.uses.end(), gates.begin(), gates.end());
    set.reorder(rank, order);
  }
  return success();
}

} // namespace

LogicalResult insertCommunication(ProgramSet &set, PipelineOp pipeline, std::optional<Ordered> &ordered) {
  for (const Program &program : set.programs)
    for (uint32_t i = 0; i != program.instructions.size(); ++i)
      if (plan::isTransfer(program.kind(program.instructions[i])))
        return program.emitError(i) << "expected programs without communication";
  if (failed(addTransfers(problemOf(pipeline), set)))
    return failure();
  if (pipeline.placesTransfers())
    return placeAsGiven(pipeline, set);
  ordered.emplace(set);
  if (!ordered->sorted)
    return ordered->dependences.report(set, ordered->order), failure();
  ordered->dependences.arrange(set, ordered->order);
  ordered->arranged = true;
  return success();
}

} // namespace pipec
