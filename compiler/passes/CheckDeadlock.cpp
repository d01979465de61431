// pipe-check-deadlock: the programs end, transfers match, every use waits for its definition.
#include "compiler/passes/Passes.h"

#include "runtime/plan/Disassemble.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace pipec {

using namespace pipe;

namespace {

/// Where the instructions that lines name come from; of lines that name none, nowhere.
llvm::StringMap<std::optional<Location>> placesOf(ArrayRef<StringRef> lines, const ProgramSet &set) {
  llvm::StringMap<std::optional<Location>> places;
  for (StringRef line : lines)
    places[line] = std::nullopt;
  for (size_t rank = 0; rank != set.ranks(); ++rank)
    for (uint32_t i = 0; i != set.programs[rank].instructions.size(); ++i) {
      const Program &program = set.programs[rank];
      const Instruction &own = program.instructions[i];
      auto named = places.find(plan::describe(int32_t(rank), program.of(own), own.microbatch));
      if (named != places.end())
        named->second = program.placeOf(i);
    }
  return places;
}

/// A communicator with more queues under which the programs end, from that with the fewest; nothing if there is none.
std::optional<Communicator> wouldRunWith(const ProgramSet &set) {
  for (Communicator communicator : {Communicator::PerPair, Communicator::PerEdge}) {
    ProgramSet other = set;
    for (Program &program : other.programs)
      program.useCommunicator(communicator);
    simulate::Result result;
    if (simulate::simulate(lower(other), {}, result).ok())
      return communicator;
  }
  return std::nullopt;
}

} // namespace

LogicalResult checkDeadlock(const ProgramSet &set, const Lowered &lowered, Location module) {
  // The walk first: a cycle explains more than the rule that it breaks.
  for (const Status *status : {&lowered.progress, &lowered.rules}) {
    if (status->ok())
      continue;
    SmallVector<StringRef> lines;
    StringRef(status->message).split(lines, '\n');
    for (StringRef &line : lines)
      line = line.trim();
    const auto places = placesOf(lines, set);
    InFlightDiagnostic error = emitError(module) << lines.front();
    for (StringRef line : llvm::drop_begin(lines))
      error.attachNote(places.lookup(line).value_or(module)) << line;
    if (status == &lowered.progress)
      if (const std::optional<Communicator> other = wouldRunWith(set))
        error.attachNote(module) << "it would end with communicator " << stringifyCommunicator(*other);
    return failure();
  }
  return success();
}

} // namespace pipec
