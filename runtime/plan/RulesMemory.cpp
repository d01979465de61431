// Rules P34 and P35: what is live at each instruction of the compute queue, in any timing (LiveMemory.h).
#include "runtime/plan/Disassemble.h"
#include "runtime/plan/RankWalk.h"
#include "runtime/plan/Text.h"

#include <algorithm>
#include <fmt/format.h>

namespace pipec::plan {
namespace {

/// Sums of sizes may pass 64 bits; a message then says the most that they hold.
std::string sizeText(__int128 bytes) { return bytesText(Bytes(std::min<__int128>(bytes, INT64_MAX))); }

} // namespace

void RankWalk::hold(const Now &now) {
  if (!memory.hold(*now.step.operation))
    return;
  mostOperation = now.step.operation;
  mostMicrobatch = now.microbatch;
}

Status RankWalk::deferredAllDone() {
  if (memory.pending() == 0)
    return {};
  return Status::check(fmt::format("P34: rank {}: the compute queue does not wait for the last {} W of the weights "
                                   "queue, so they would pile up from step to step",
                                   program.rank, memory.pending()));
}

Status RankWalk::peak() {
  __int128 rings = 0;
  for (const Ring &ring : program.rings)
    rings += __int128(ring.size) * ring.slotBytes;
  const __int128 bytes = memory.peak() + rings + program.workspace + program.staticBytes;
  const Bytes limit = variant.limitOf(program);
  if (limit == 0 || bytes <= limit)
    return {};
  return Status::check(fmt::format(
      "P35: rank {} needs {}, {} over the limit of {}: {} live at {}, {} of transfer buffers, {} of workspace, {} "
      "static",
      program.rank, sizeText(bytes), sizeText(bytes - limit), sizeText(limit), sizeText(memory.peak()),
      mostOperation ? describe(program.rank, *mostOperation, mostMicrobatch) : "no instruction", sizeText(rings),
      sizeText(program.workspace), sizeText(program.staticBytes)));
}

} // namespace pipec::plan
