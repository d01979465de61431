// Rules P34 and P35: what is live at each instruction of the compute queue, in any timing: a W on the weights queue has
// released its context where the compute queue's waits say so, and no sooner.
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
  live += __int128(now.step.operation->activation) + now.step.operation->context;
  if (live <= most)
    return;
  most = live;
  mostOperation = now.step.operation;
  mostMicrobatch = now.microbatch;
}

void RankWalk::release(const Now &now) {
  if (now.queue == 0)
    live -= __int128(now.step.operation->activation) + now.step.operation->context;
  else
    deferred.push_back(now.step.operation->context);
}

void RankWalk::releaseDeferred() {
  if (weightsQueue == kNone)
    return;
  for (; deferredReleased < computeKnows[weightsQueue].now; ++deferredReleased) {
    live -= deferred.front();
    deferred.pop_front();
  }
}

Status RankWalk::deferredAllDone() {
  if (deferred.empty())
    return {};
  return Status::check(fmt::format("P34: rank {}: the compute queue does not wait for the last {} W of the weights "
                                   "queue, so they would pile up from step to step",
                                   program.rank, deferred.size()));
}

Status RankWalk::peak() {
  __int128 rings = 0;
  for (const Ring &ring : program.rings)
    rings += __int128(ring.size) * ring.slotBytes;
  const __int128 bytes = most + rings + program.workspace + program.staticBytes;
  if (variant.memoryLimit == 0 || bytes <= variant.memoryLimit)
    return {};
  return Status::check(fmt::format(
      "P35: rank {} needs {}, {} over the limit of {}: {} live at {}, {} of transfer buffers, {} of workspace, {} "
      "static",
      program.rank, sizeText(bytes), sizeText(bytes - variant.memoryLimit), sizeText(variant.memoryLimit),
      sizeText(most), mostOperation ? describe(program.rank, *mostOperation, mostMicrobatch) : "no instruction",
      sizeText(rings), sizeText(program.workspace), sizeText(program.staticBytes)));
}

} // namespace pipec::plan
