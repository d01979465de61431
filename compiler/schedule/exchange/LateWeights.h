// Orders whose W run late: the more W stand behind a rank's last B, the more of its gradients can be complete early, in
// the order in which the next forward needs them (Exchange::tails).
#pragma once

#include "compiler/schedule/model/Problem.h"

#include <functional>

namespace pipec::schedule {

/// The same words with F and B where they are, and each W of rank r behind `late(r)` B more than it would need; fewer
/// where the rank's memory does not hold their contexts. Words with split backwards alone; W stay in order.
/// O(letters · late).
Words withLateWeights(const Problem &problem, const Words &words, const std::function<int32_t(int32_t)> &late);

} // namespace pipec::schedule
