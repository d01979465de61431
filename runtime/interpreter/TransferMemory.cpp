// Regions: sizes that cannot overflow, one allocation each.
#include "runtime/interpreter/TransferMemory.h"

#include "runtime/plan/Limits.h"

#include <algorithm>
#include <fmt/format.h>

namespace pipec::runtime {

namespace {

/// Of the whole ring; kBytes + 1 stands for whatever is more.
plan::Bytes ringBytes(const plan::Ring &ring, plan::Bytes slotBytes) {
  plan::Bytes bytes = 0;
  bool over = __builtin_mul_overflow(slotBytes, plan::Bytes(ring.size), &bytes);
  return over || bytes > limits::kBytes ? limits::kBytes + 1 : bytes;
}

std::string nameOf(const plan::Ring &ring) {
  return fmt::format("{} rank {}", ring.direction == plan::Direction::Send ? "to" : "from", ring.peer);
}

} // namespace

plan::Bytes TransferMemory::slotBytes(const plan::Ring &ring) const {
  return (std::max<plan::Bytes>(carried(ring.slotBytes), 1) + kAlignment - 1) / kAlignment * kAlignment;
}

Status TransferMemory::allocate(Device &device, const std::vector<const plan::Program *> &programs) {
  for (const plan::Program *program : programs)
    for (const plan::Ring &ring : program->rings) {
      Region &region = regions[{ring.peer, ring.direction}];
      region.bytes = std::max(region.bytes, ringBytes(ring, slotBytes(ring)));
    }
  for (const plan::Program *program : programs)
    for (const plan::Ring &ring : program->rings) {
      Region &region = regions[{ring.peer, ring.direction}];
      if (region.data)
        continue;
      if (region.bytes <= limits::kBytes)
        region.data = device.allocate(region.bytes);
      if (!region.data)
        return Status::run(fmt::format("rank {}: not enough memory for {} slots of {} bytes for transfers {}",
                                       program->rank, ring.size, slotBytes(ring), nameOf(ring)));
    }
  return {};
}

Status TransferMemory::find(const plan::Program &program, const plan::Ring &ring, Region &region) const {
  auto found = regions.find({ring.peer, ring.direction});
  if (found == regions.end())
    return Status::check(fmt::format("rank {}: the plan has transfers {}, which the plan that runs has not",
                                     program.rank, nameOf(ring)));
  plan::Bytes needed = ringBytes(ring, slotBytes(ring));
  if (needed > found->second.bytes)
    return Status::check(
        fmt::format("rank {}: the plan needs {} bytes for transfers {}, this run has allocated {}, the "
                    "most of the variants that it started with",
                    program.rank, needed, nameOf(ring), found->second.bytes));
  region = found->second;
  return {};
}

} // namespace pipec::runtime
