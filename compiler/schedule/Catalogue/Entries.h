// The entries of the catalogue, one a file of this folder.
#pragma once

#include "compiler/schedule/Catalogue.h"

namespace pipec::schedule {

Entry eagerOneFOneB();
Entry gPipe();
Entry interleavedOneFOneB();
Entry kFkB();
Entry loopedBfs();
Entry oneFOneB();

/// Appends a stage's backward: BW, or B with W directly after it.
inline void appendBackward(const Problem &problem, Word &word, int32_t stage) {
  if (problem.backward == BackwardMode::Fused) {
    word.push_back({stage, Letter::BW});
    return;
  }
  word.push_back({stage, Letter::B});
  word.push_back({stage, Letter::W});
}

} // namespace pipec::schedule
