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

Status TransferMemory::allocate(Device &device, const std::vector<const plan::Program *> &programs, plan::Bytes most) {
  std::map<Key, std::pair<plan::Bytes, const plan::Ring *>> needs; // what is needed, and the ring that needs it
  for (const plan::Program *program : programs)
    for (const plan::Ring &ring : program->rings) {
      auto &[bytes, of] = needs[{ring.peer, ring.direction}];
      if (const plan::Bytes own = ringBytes(ring, slotBytes(ring)); !of || own > bytes) {
        bytes = own;
        of = &ring;
      }
    }
  plan::Bytes more = 0;
  for (const auto &[key, need] : needs)
    if (const auto found = regions.find(key); found == regions.end() || found->second.bytes < need.first)
      more = std::min(more + need.first, limits::kBytes + 1);
  if (more > 0 && most < INT64_MAX && total + more > most)
    return Status::check(fmt::format("rank {}: the plan needs {} more bytes for transfers, beside the {} that this run "
                                     "has allocated; its memory limit leaves {} for both",
                                     programs.front()->rank, more, total, std::max<plan::Bytes>(most, 0)));
  if (const plan::Bytes room = more > 0 ? device.room() : 0; more > room)
    return Status::run(fmt::format("rank {}: the buffers for transfers need {} bytes, {} are free on the device",
                                   programs.front()->rank, more, room));
  for (const auto &[key, need] : needs) {
    Region &region = regions[key];
    const auto &[bytes, ring] = need;
    if (region.data && region.bytes >= bytes)
      continue;
    std::byte *data = bytes <= limits::kBytes ? device.allocate(bytes) : nullptr;
    if (!data)
      return Status::run(fmt::format("rank {}: not enough memory for {} slots of {} bytes for transfers {}",
                                     programs.front()->rank, ring->size, slotBytes(*ring), nameOf(*ring)));
    region = {data, bytes};
    total += bytes;
  }
  return {};
}

Status TransferMemory::allocate(Device &device, const plan::Variant &variant, const plan::Program &program) {
  for (const plan::SampleBuffer &buffer : plan::sampleBuffers(variant, program)) {
    Slot &slot = samples[{buffer.stage, buffer.of, buffer.direction}];
    if (slot.data)
      continue;
    slot.bytes = buffer.samples * carriedSample(buffer.sample, variant.batch); // P7: in range
    if (const plan::Bytes room = device.room(); slot.bytes > room)
      return Status::run(fmt::format("rank {}: the buffers for samples that change ranks need {} bytes, {} are free on "
                                     "the device",
                                     program.rank, slot.bytes, room));
    slot.data = device.allocate(std::max<plan::Bytes>(slot.bytes, 1));
    if (!slot.data)
      return Status::run(fmt::format("rank {}: not enough memory for {} samples of {} bytes that change ranks",
                                     program.rank, buffer.samples, buffer.sample));
  }
  return {};
}

Slot TransferMemory::find(const plan::SampleBuffer &buffer) const {
  const auto found = samples.find({buffer.stage, buffer.of, buffer.direction});
  return found == samples.end() ? Slot() : found->second;
}

Status TransferMemory::find(const plan::Program &program, const plan::Ring &ring, Region &region) const {
  auto found = regions.find({ring.peer, ring.direction});
  if (found == regions.end())
    return Status::check(fmt::format("rank {}: the plan has transfers {}, which the plan that runs has not",
                                     program.rank, nameOf(ring)));
  plan::Bytes needed = ringBytes(ring, slotBytes(ring));
  if (needed > found->second.bytes)
    return Status::check(fmt::format("rank {}: the plan needs {} bytes for transfers {}, this run has allocated {}",
                                     program.rank, needed, nameOf(ring), found->second.bytes));
  region = found->second;
  return {};
}

std::map<int32_t, TransferMemory::Region> TransferMemory::received() const {
  std::map<int32_t, Region> all;
  for (const auto &[key, region] : regions)
    if (key.second == plan::Direction::Recv)
      all[key.first] = region;
  return all;
}

TransferMemory::Region TransferMemory::landing(int32_t peer) const {
  const auto found = landings.find(peer);
  return found == landings.end() ? Region() : found->second;
}

} // namespace pipec::runtime
