// Deferred W (`weights: fill`; design, section 5: priority). Each W moves from the word to a separate queue, from which
// the device takes a W whenever the head of the compute queue waits. Waits bound the memory: an F starts only after
// enough W before it are done. As in ZB-H1 (Zero Bubble Pipeline Parallelism, section 3), every rank may hold as much
// as the first rank does.
#pragma once

#include "compiler/schedule/model/Problem.h"

#include <vector>

namespace pipec::schedule {

/// For each letter of each rank's word: how many W of the rank, in the word's order, must be done before the letter
/// starts. For an F, as few as keep activations and contexts within the rank's allowance, and never more than precede
/// the F in the word; for all other letters 0. The allowance is the largest peak of any rank with the W where the words
/// have them. Under a memory limit, the allowance is at most what the limit leaves after static memory, workspace and
/// two buffers for each stage's neighbour on another rank. Needs split backwards and verify(problem, words) to have
/// passed. O(letters).
std::vector<std::vector<int32_t>> weightWaits(const Problem &problem, const Words &words);

} // namespace pipec::schedule
