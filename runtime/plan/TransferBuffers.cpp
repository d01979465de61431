#include "runtime/plan/TransferBuffers.h"

#include "runtime/plan/Samples.h"

#include <algorithm>

namespace pipec::plan {

std::vector<SampleBuffer> sampleBuffers(const Variant &variant, const Program &program) {
  std::vector<SampleBuffer> buffers;
  if (variant.boundaries.empty())
    return buffers;
  const std::vector<int32_t> widths = variant.widths();
  for (const Operation &o : program.operations) {
    if (!plan::movesSamples(o.kind))
      continue;
    const int32_t taker = takerOf(o.stage, o.of);
    if (taker < 0 || taker >= variant.stages)
      continue; // P57 refuses such an operation if it is executed
    const Bytes sample = variant.boundaries[size_t(std::min(o.stage, taker))];
    for (const auto &[stage, direction] : {std::pair(o.stage, Direction::Send), std::pair(taker, Direction::Recv)})
      if (const int64_t width = widths[size_t(stage)]; program.rank < width) // stages are on the first ranks
        buffers.push_back({stage, o.of, direction, samplesOf(variant.batch, width, program.rank), sample});
  }
  return buffers;
}

__int128 bufferBytes(const Variant &variant, const Program &program) {
  __int128 bytes = 0;
  for (const Ring &ring : program.rings)
    bytes += __int128(ring.size) * ring.slotBytes;
  for (const SampleBuffer &buffer : sampleBuffers(variant, program))
    bytes += __int128(buffer.samples) * buffer.sample;
  return bytes;
}

} // namespace pipec::plan
