#include "runtime/launch/Conductor.h"

#include <algorithm>

namespace pipec::runtime {

Conductor::Conductor(const Options &given)
    : options(given), need(given.first - given.asks), permitted(given.first), history{{given.first, 0, 0}} {
  options.end = std::max(options.end, options.first);
  options.ahead = std::max<int64_t>(options.ahead, 1);
}

void Conductor::needed(int64_t step) { need = std::max(need, step); }

void Conductor::stop() { options.end = permitted; }

/// A swap whose step has passed is due at the first step that is not permitted.
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
    int64_t target = std::min(options.end, need + options.ahead);
    int64_t swapAt = boundary();
    if (swapAt > permitted || swapAt >= options.end) {
      int64_t until = std::min(target, swapAt);
      if (until <= permitted && permitted != options.end)
        break;
      give(std::max(until, permitted), out);
      continue;
    }
    // A swap can take effect here: no process has begun the step `permitted`. Each epoch has at least one step.
    if (next && permitted > current().from) {
      if (target <= permitted)
        break;
      history.push_back({permitted, current().epoch + 1, next->program});
      options.ahead = std::max<int64_t>(next->ahead, 1);
      next.reset();
    } else if (!next && need < permitted) {
      break; // the swap may still become ready in time
    } else if (target > permitted) {
      give(permitted + 1, out); // too late: permits pass the boundary, and the swap takes a later step
    } else {
      break;
    }
  }
  return out;
}

} // namespace pipec::runtime
