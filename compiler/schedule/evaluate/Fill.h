// Deferred W (`weights: fill`; design, section 5: priority): W leaves the word for a queue of its own, from which the
// device takes one whenever the compute queue's head waits. Memory is bounded by waits: an F starts only when enough W
// before it are done. As in ZB-H1 (Zero Bubble Pipeline Parallelism, section 3), every rank may hold as much as the
// first does.
#pragma once

#include "compiler/schedule/model/Problem.h"

#include <vector>

namespace pipec::schedule {

/// For each letter of each rank's word, how many of the rank's W, in the word's order, must be done before the letter
/// starts. For an F, as few as keep live activations and contexts within the rank's allowance, and never more than
/// stand before the F; for all other letters 0. The allowance is the largest peak of any rank when W run where the
/// words have them; under a memory limit, no more than the limit leaves beside static memory, workspace and two buffers
/// for each stage's neighbour on another rank. Needs a split backward and verify(problem, words) to have passed.
/// O(letters).
std::vector<std::vector<int32_t>> weightWaits(const Problem &problem, const Words &words);

} // namespace pipec::schedule
