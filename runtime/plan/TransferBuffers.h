// What a rank keeps of what it gives to and takes from others: a ring for each peer and direction (Ring), and, where
// samples change ranks between two stages, all its samples of what the one hands on, on either side of the reshard.
#pragma once

#include "runtime/plan/Plan.h"

#include <vector>

namespace pipec::plan {

/// Of one stage on a rank, what a reshard takes away or brings: samples one behind the other, ascending.
struct SampleBuffer {
  int32_t stage = 0;          // that makes or takes it
  Payload of = Payload::None; // Forward, Backward
  Direction direction = Direction::Send;
  int64_t samples = 0; // of the rank
  Bytes sample = 0;    // bytes of each
};
/// Those of a rank; none where each stage is on one rank. Of a variant that keeps P7, P9 and P11.
std::vector<SampleBuffer> sampleBuffers(const Variant &variant, const Program &program);

/// All of both.
__int128 bufferBytes(const Variant &variant, const Program &program);

} // namespace pipec::plan
