// Deferred W (`weights: fill`; design, section 5: priority): W leaves the word for a queue of its own, from which the
// device takes one whenever the compute queue's head waits. What bounds the memory is how long F may leave W behind, as
// in ZB-H1 (Zero Bubble Pipeline Parallelism, section 3), where every rank may hold as much as the first.
#pragma once

#include "compiler/schedule/model/Problem.h"

#include <vector>

namespace pipec::schedule {

/// For each letter of each rank's word, how many of the rank's W, in the word's order, must have completed before it
/// starts: at an F as few as keep live activations and weight contexts within the rank's allowance, never more than
/// stand before it; else 0. The allowance is the largest peak of any rank with W in the word; under a memory limit, no
/// more than it leaves beside static memory, workspace and two buffers for each stage's neighbour on another rank.
/// Needs a split backward and verify(problem, words) to have passed. O(letters).
std::vector<std::vector<int32_t>> weightWaits(const Problem &problem, const Words &words);

} // namespace pipec::schedule
