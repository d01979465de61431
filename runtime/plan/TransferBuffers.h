// The transfer buffers of a rank: a ring for each peer and direction (Ring), and, where a reshard moves samples between
// two stages, a buffer on each side for all of the rank's samples.
#pragma once

#include "runtime/plan/Plan.h"

#include <vector>

namespace pipec::plan {

/// A buffer for what a reshard takes from or brings to one stage on a rank: the rank's samples one behind the other,
/// ascending.
struct SampleBuffer {
  int32_t stage = 0;          // the stage that makes (Send) or takes (Recv) the samples
  Payload of = Payload::None; // Forward, Backward
  Direction direction = Direction::Send;
  int64_t samples = 0; // number of samples that the rank has
  Bytes sample = 0;    // bytes of one sample
};
/// The sample buffers of a rank; none if each stage is on one rank. `variant` must keep P7, P9 and P11.
std::vector<SampleBuffer> sampleBuffers(const Variant &variant, const Program &program);

/// Bytes of all rings and sample buffers of a rank.
__int128 bufferBytes(const Variant &variant, const Program &program);

} // namespace pipec::plan
