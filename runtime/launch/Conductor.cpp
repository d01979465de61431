// Permits and swaps as numbers.
#include "runtime/launch/Conductor.h"

#include <algorithm>

namespace pipec::runtime {

// A process asks for its permit this many steps ahead of what it has completed, so a boundary that it comes this near
// to can wait no longer.
static constexpr int64_t kIssuedAhead = 2;

Conductor::Conductor(const Options &given)
    : options(given), fastest(given.first), permitted(given.first), history{{given.first, 0, 0}} {
  options.end = std::max(options.end, options.first);
  options.ahead = std::max(options.ahead, kIssuedAhead);
}

void Conductor::progressed(int64_t step) { fastest = std::max(fastest, step); }

void Conductor::stop() { options.end = permitted; }

/// A swap that is late takes the first step that it can get.
int64_t Conductor::boundary() const {
  int64_t due = permitted;
  if (options.swapEvery > 0)
    due = (options.first / options.swapEvery + int64_t(history.size())) * options.swapEvery;
  if (due >= permitted && options.swapEvery > 0)
    return due;
  return next ? permitted : INT64_MAX;
}

void Conductor::give(int64_t until, std::vector<Grant> &out) {
  permitted = until;
  told = until == options.end;
  out.push_back({until, current().epoch, current().program, told});
}

std::vector<Grant> Conductor::grants() {
  std::vector<Grant> out;
  while (!told) {
    int64_t target = std::min(options.end, fastest + options.ahead);
    int64_t swapAt = boundary();
    if (swapAt > permitted || swapAt >= options.end) {
      int64_t until = std::min(target, swapAt);
      if (until <= permitted && permitted != options.end)
        break;
      give(std::max(until, permitted), out);
      continue;
    }
    if (next && permitted > current().from) { // nobody can have begun the step `permitted`; no epoch is without a step
      if (target <= permitted)
        break;
      history.push_back({permitted, current().epoch + 1, *next});
      next.reset();
    } else if (!next && fastest + kIssuedAhead < permitted) {
      break; // there is still time
    } else if (target > permitted) {
      give(permitted + 1, out); // too late for this boundary; the next step will do
    } else {
      break;
    }
  }
  return out;
}

} // namespace pipec::runtime
