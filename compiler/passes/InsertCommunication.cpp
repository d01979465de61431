// pipe-insert-communication: adds sends and receives for what flows between ranks, in one common order of all ranks.
#include "compiler/passes/Passes.h"
#include "compiler/program/BuildPrograms.h"
#include "compiler/program/Dependences.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace pipec {

using namespace pipe;

namespace {

/// Puts each rank's transfers where the rank's order has them. Each transfer then waits for the pass before it, and
/// what stands behind a wait of the order waits for that send.
LogicalResult placeAsGiven(PipelineOp pipeline, ProgramSet &set) {
  auto wrong = [&](const Twine &what) { return pipeline.emitError() << what, failure(); };
  if (pipeline.getOrders()->size() != set.ranks())
    return wrong("expected a program for each of its " + Twine(pipeline.getOrders()->size()) + " orders");
  for (auto [rank, given] : llvm::enumerate(pipeline.getOrders()->getAsRange<OrderAttr>())) {
    Program &program = set.programs[rank];
    // The transfers that the order has not placed yet, by kind, payload, stage and microbatch.
    llvm::DenseMap<std::pair<uint64_t, uint32_t>, uint32_t> unplaced;
    auto keyOf = [](bool sends, bool forward, int32_t stage, int32_t microbatch) {
      return std::pair(uint64_t(uint32_t(stage)) << 2 | uint64_t(sends) << 1 | uint64_t(forward), uint32_t(microbatch));
    };
    std::vector<uint32_t> upTo{0}; // upTo[n]: how many instructions there are up to the n-th pass
    uint32_t own = 0;              // how many instructions are no transfers
    for (uint32_t i = 0; i != program.instructions.size(); ++i) {
      const plan::Operation &operation = program.of(program.instructions[i]);
      own += !plan::isTransfer(operation.kind);
      if (plan::isOrdered(operation.kind))
        upTo.push_back(i + 1);
      if (plan::isTransfer(operation.kind))
        unplaced[keyOf(plan::sends(operation.kind), operation.of == plan::Payload::Forward, operation.stage,
                       program.instructions[i].microbatch)] = i;
    }
    std::vector<uint32_t> order, awaited; // awaited: sends that the next instructions wait for
    std::vector<Use> gates;               // the waits that the order adds
    decltype(unplaced) sent;              // sends that are placed and not waited for
    uint32_t next = 0;                    // the first instruction, transfers aside, that is not placed
    auto place = [&](uint32_t record) {
      // The header of an overlapped pair has no uses of its own: the pair's F has them.
      const bool overlaps = plan::isHeader(program.kind(program.instructions[record]));
      for (const uint32_t send : awaited)
        gates.push_back({record + (overlaps ? 1 : 0), send});
      order.push_back(record);
    };
    // Places instructions up to `end`. Only the first needs the waits: those behind it run behind it.
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
      const bool sends = plan::sends(action.kind);
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

LogicalResult insertCommunication(ProgramSet &set, PipelineOp pipeline, std::optional<Ordered> &ordered,
                                  const SeeTransfers &see) {
  for (const Program &program : set.programs)
    for (uint32_t i = 0; i != program.instructions.size(); ++i)
      if (plan::isTransfer(program.kind(program.instructions[i])))
        return program.emitError(i) << "expected programs without communication";
  if (failed(addTransfers(problemOf(pipeline), set)))
    return failure();
  std::future<void> seen;
  if (see)
    seen = see(set);
  const bool given = pipeline.placesTransfers();
  if (!given)
    ordered.emplace(set);
  if (see)
    seen.get();
  if (given)
    return placeAsGiven(pipeline, set);
  if (!ordered->sorted)
    return ordered->dependences.report(set, ordered->order), failure();
  ordered->dependences.arrange(set, ordered->order);
  ordered->arranged = true;
  return success();
}

} // namespace pipec
