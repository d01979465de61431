#include "runtime/adapt/Policy.h"

#include <algorithm>
#include <fmt/format.h>

namespace pipec::adapt {

size_t leastOf(const Times &times) { return size_t(std::min_element(times.begin(), times.end()) - times.begin()); }

Times meanOf(const History &history, size_t steps) {
  const size_t count = std::min(steps, history.size());
  Times sums(history.back().step.size(), 0);
  for (size_t i = history.size() - count; i != history.size(); ++i)
    for (size_t c = 0; c != sums.size(); ++c)
      sums[c] += history[i].step[c] / Time(count);
  return sums;
}

std::vector<Policy> policiesFor(size_t candidates) {
  constexpr size_t kLong = 32;
  std::vector<Policy> policies;
  for (size_t c = 0; c != candidates; ++c)
    policies.push_back(
        {fmt::format("stay {}", c), [](const History &history) { return meanOf(history, kLong); }, int64_t(c)});
  for (size_t steps = 1; steps <= kLong; steps *= 2)
    policies.push_back(
        {fmt::format("last {}", steps), [steps](const History &history) { return meanOf(history, steps); }});
  policies.push_back({"now (half)", [](const History &history) { return history.back().late; }});
  policies.push_back({"now (eighth)", [](const History &history) { return history.back().latest; }});
  policies.push_back({"phase", [](const History &history) {
                        return history.back().phase.empty() ? meanOf(history, kLong) : history.back().phase;
                      }});
  return policies;
}

} // namespace pipec::adapt
