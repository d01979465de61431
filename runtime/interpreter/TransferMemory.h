// The transfer buffers of a rank (design, section 5): one region per peer and direction, as large as the largest ring
// of all programs that the rank may run, and one per stage with samples that change ranks, on either side. A program
// divides its regions into its own slots. A plan that is loaded later and has larger rings gets larger regions;
// programs made before keep theirs.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/plan/Status.h"
#include "runtime/plan/TransferBuffers.h"

#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace pipec::runtime {

class TransferMemory {
public:
  /// Transfers keep and carry at most `payloadLimit` bytes.
  explicit TransferMemory(plan::Bytes payloadLimit) : payloadLimit(payloadLimit) {}

  /// Makes regions as large as these programs, all of one rank, need; Executables made from now on use them. At most
  /// `most` bytes may be allocated in total (Code::Check). One thread at a time.
  Status allocate(Device &device, const std::vector<const plan::Program *> &programs, plan::Bytes most = INT64_MAX);
  /// Does the same for samples that change ranks, which are the same in all plans of a run.
  Status allocate(Device &device, const plan::Variant &variant, const plan::Program &program);

  struct Region {
    std::byte *data = nullptr;
    plan::Bytes bytes = 0;
  };
  /// Code::Check if this rank has no such region, or one smaller than `ring` needs: it was not allocated.
  Status find(const plan::Program &program, const plan::Ring &ring, Region &region) const;
  /// All samples of a buffer; 0 bytes if it was not allocated.
  Slot find(const plan::SampleBuffer &buffer) const;

  /// The regions that peers send to, by peer.
  std::map<int32_t, Region> received() const;
  /// The region in which data sent to `peer` lands, if this process can reach that memory; else nothing.
  Region landing(int32_t peer) const;
  void setLanding(int32_t peer, Region region) { landings[peer] = region; }

  plan::Bytes slotBytes(const plan::Ring &ring) const;
  plan::Bytes carried(plan::Bytes bytes) const { return bytes < payloadLimit ? bytes : payloadLimit; }
  /// Bytes carried for one sample of a buffer, the same on both sides of the reshard. `batch`: samples of all ranks.
  plan::Bytes carriedSample(plan::Bytes bytes, int64_t batch) const {
    return payloadLimit == INT64_MAX || bytes <= payloadLimit / batch ? bytes : payloadLimit / batch;
  }

private:
  using Key = std::pair<int32_t, plan::Direction>; // peer and direction
  plan::Bytes payloadLimit;
  plan::Bytes total = 0; // allocated
  std::map<Key, Region> regions;
  std::map<std::tuple<int32_t, plan::Payload, plan::Direction>, Slot> samples; // by stage, payload and direction
  std::map<int32_t, Region> landings;
};

} // namespace pipec::runtime
