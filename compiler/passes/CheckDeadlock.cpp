// pipe-check-deadlock: checks that programs end, transfers match, and every use waits for its definition.
#include "compiler/passes/Passes.h"

#include "runtime/plan/Disassemble.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace pipec {

using namespace pipe;

namespace {

/// For each line of a message: the place of the instruction that it names; nothing if it names none.
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

/// The communicator with the fewest queues under which the programs would end; nothing if there is none.
std::optional<Communicator> wouldRunWith(const ProgramSet &set) {
  for (Communicator communicator : {Communicator::PerPair, Communicator::LaunchOrder, Communicator::PerEdge}) {
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
  // The walk comes first: the cycle that it prints explains more than the rule that the programs break.
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
