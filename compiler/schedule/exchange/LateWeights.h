// Orders with late W. The more W follow a rank's last B, the more of its gradients can be completed early in the order
// in which the next forward needs them (Exchange::tails).
#pragma once

#include "compiler/schedule/model/Problem.h"

#include <functional>

namespace pipec::schedule {

/// The same words with F and B unchanged, and each W of rank r delayed by `late(r)` more B than necessary, or by fewer
/// if the rank's memory does not hold the contexts. Only for words with split backwards; W stay in order. O(letters ·
/// late).
Words withLateWeights(const Problem &problem, const Words &words, const std::function<int32_t(int32_t)> &late);

} // namespace pipec::schedule
