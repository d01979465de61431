// The data of synthetic transfers: words that follow from (stage, kind, microbatch, step) alone, so that the receiver
// detects data that is late, lost, mixed up or overwritten.
#pragma once

#include "runtime/device/Device.h"

namespace pipec::runtime {

/// Names the data: `stage` produced them, `of` says activation or gradient.
struct PatternKey {
  int32_t stage = 0;
  plan::Payload of = plan::Payload::Forward;
  int64_t microbatch = 0;
  int64_t step = 0;
};

/// The seed of the words; the kernels of runtime/device/cuda go on from it.
uint64_t seedOf(const PatternKey &key);

void fill(const Slot &slot, const PatternKey &key);

/// The first byte that differs from the pattern; -1: none.
int64_t firstWrong(const Slot &slot, const PatternKey &key);

} // namespace pipec::runtime
