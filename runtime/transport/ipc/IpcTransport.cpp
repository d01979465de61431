#include "runtime/transport/ipc/IpcTransport.h"

#include "runtime/plan/Load.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <unistd.h>
#include <utility>

namespace pipec::runtime {

using C = gpu::CudaFunctions;

static constexpr plan::Bytes kLine = 64;

static gpu::CUdeviceptr addressOf(const std::byte *data) { return reinterpret_cast<gpu::CUdeviceptr>(data); }

/// Identifies this boot of this machine.
static std::string machine() { return plan::firstWordOf("/proc/sys/kernel/random/boot_id"); }

IpcTransport::IpcTransport(int32_t rank, int32_t ranks, std::vector<plan::Group> groupsOf, CudaDevice &device,
                           Failure &failure)
    : rank(rank), ranks(ranks), groups(std::move(groupsOf)), device(device), failure(failure) {
  words[rank] = device.allocate(wordBytes());
  const auto make = [&](int32_t group, std::vector<int32_t> members) {
    if (std::find(members.begin(), members.end(), rank) == members.end())
      return;
    Reduction &reduction = reductions[group];
    reduction.members = std::move(members);
    reduction.own = {device.allocate(8), 8};
    reduction.addition.count = reduction.members.size();
    reduction.addition.numbers =
        static_cast<double *>(device.allocateOnHost(sizeof(double) * (reduction.members.size() + 1)));
  };
  std::vector<int32_t> all(static_cast<size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  make(-1, std::move(all));
  for (size_t g = 0; g < groups.size(); ++g)
    make(int32_t(g), groups[g].members);
}

plan::Bytes IpcTransport::wordBytes() const { return kLine * ranks * (2 + 3 * plan::Bytes(groups.size() + 1)); }

IpcTransport::Address IpcTransport::word(int32_t of, int32_t peer, Word which) const {
  return addressOf(words.at(of)) + Address(kLine * (2 * peer + int32_t(which)));
}

IpcTransport::Address IpcTransport::sumWord(int32_t of, int32_t group, int32_t member) const {
  return addressOf(words.at(of)) + Address(kLine * (2 * ranks + 3 * ((group + 1) * ranks + member)));
}

IpcTransport::Address IpcTransport::number(int32_t of, int32_t group, int32_t member, uint64_t sum) const {
  return sumWord(of, group, member) + Address(kLine) * (1 + sum % 2);
}

nlohmann::json IpcTransport::share(const std::byte *memory, plan::Bytes bytes) {
  gpu::CUipcMemHandle handle{};
  if (!device.driver()(&C::cuIpcGetMemHandle, &handle, addressOf(memory)))
    return nullptr;
  return {{"handle", std::vector<uint8_t>(std::begin(handle.reserved), std::end(handle.reserved))},
          {"address", addressOf(memory)},
          {"bytes", bytes}};
}

nlohmann::json IpcTransport::offer(const Regions &received) {
  if (failure.raised() || !words[rank])
    return nullptr;
  nlohmann::json regions = nlohmann::json::object();
  for (const auto &[peer, region] : received)
    regions[std::to_string(peer)] = share(region.data, region.bytes);
  return {{"machine", machine()},
          {"process", getpid()},
          {"words", share(words[rank], wordBytes())},
          {"regions", std::move(regions)}};
}

Status IpcTransport::map(int32_t peer, const nlohmann::json &shared, Region &region) {
  gpu::CUipcMemHandle handle{};
  const auto bytes = shared.at("handle").get<std::vector<uint8_t>>();
  std::copy_n(bytes.begin(), std::min(bytes.size(), sizeof handle.reserved), handle.reserved);
  Address address = 0;
  if (!device.driver()(&C::cuIpcOpenMemHandle_v2, &address, handle, gpu::kIpcLazyPeerAccess))
    return Status::run(fmt::format("{} (memory of rank {})", failure.status().message, peer));
  mapped.push_back(address);
  region = {reinterpret_cast<std::byte *>(address), shared.at("bytes")};
  return {};
}

Status IpcTransport::accept(const nlohmann::json &offers, Regions &landings) {
  const std::string here = machine();
  for (int32_t peer = 0; peer < ranks; ++peer) {
    const nlohmann::json &offer = offers.at(size_t(peer));
    if (peer == rank)
      continue;
    if (offer.at("machine") != here)
      return Status::run(
          fmt::format("rank {}: --transport=ipc reaches ranks of one machine; rank {} is on another", rank, peer));
    const bool same = offer.at("process") == getpid(); // its memory is already mapped in this process
    const auto reach = [&](const nlohmann::json &shared, Region &region) {
      if (!same)
        return map(peer, shared, region);
      region = {reinterpret_cast<std::byte *>(shared.at("address").get<Address>()), shared.at("bytes")};
      return Status{};
    };
    Region of;
    Status status = reach(offer.at("words"), of);
    words[peer] = of.data;
    const nlohmann::json &regions = offer.at("regions");
    if (const auto found = regions.find(std::to_string(rank)); status.ok() && found != regions.end())
      status = reach(*found, landings[peer]);
    if (!status.ok())
      return status;
  }
  return {};
}

void IpcTransport::rest() {
  Driver &cuda = device.driver();
  while (releasing && cuda.ask(&C::cuStreamQuery, releasing) == gpu::kCudaNotReady)
    usleep(100);
  if (releasing)
    cuda.ask(&C::cuStreamDestroy_v2, std::exchange(releasing, nullptr));
  for (const Address each : std::exchange(mapped, {}))
    cuda.ask(&C::cuIpcCloseMemHandle, each);
}

// A wait for a count also ends with any higher count. One rank waits for each of these words.
void IpcTransport::release() {
  constexpr uint64_t kAhead = (uint64_t(1) << 40) + 1;
  Driver &cuda = device.driver();
  if (!releasing && cuda.ask(&C::cuStreamCreateWithPriority, &releasing, gpu::kStreamNonBlocking, 0))
    return;
  const auto write = [&](Address word, uint64_t count) {
    cuda.ask(&C::cuStreamWriteValue64_v2, releasing, word, count + kAhead, gpu::kWriteValueDefault);
  };
  for (const auto &[peer, counts] : peers) {
    if (counts.sent > 0)
      write(word(peer, rank, Word::Ready), counts.sent);
    if (counts.received > 0)
      write(word(rank, peer, Word::Done), counts.received);
  }
  for (const auto &[group, reduction] : reductions)
    for (const int32_t member : reduction.members)
      if (reduction.sums > 0)
        write(sumWord(rank, group, member), reduction.sums);
}

void IpcTransport::send(QueueId queue, const Label &label, Slot slot, Slot landing) {
  Driver &cuda = device.driver();
  const int32_t peer = label.operation->peer;
  const uint64_t n = ++peers[peer].sent;
  const gpu::CUstream stream = device.begin(queue, label);
  cuda(&C::cuStreamWaitValue64_v2, stream, word(peer, rank, Word::Ready), n, gpu::kWaitValueAtLeast);
  if (slot.bytes > 0)
    cuda(&C::cuMemcpyAsync, addressOf(landing.data), addressOf(slot.data), size_t(slot.bytes), stream);
  cuda(&C::cuStreamWriteValue64_v2, stream, word(peer, rank, Word::Done), n, gpu::kWriteValueDefault);
}

void IpcTransport::recv(QueueId queue, const Label &label, Slot) {
  Driver &cuda = device.driver();
  const int32_t peer = label.operation->peer;
  const uint64_t n = ++peers[peer].received;
  const gpu::CUstream stream = device.begin(queue, label);
  cuda(&C::cuStreamWriteValue64_v2, stream, word(rank, peer, Word::Ready), n, gpu::kWriteValueDefault);
  cuda(&C::cuStreamWaitValue64_v2, stream, word(rank, peer, Word::Done), n, gpu::kWaitValueAtLeast);
}

void IpcTransport::add(void *addition) {
  const Addition &of = *static_cast<Addition *>(addition);
  of.numbers[of.count] = std::accumulate(of.numbers, of.numbers + of.count, 0.0);
}

// A rank writes its number of the next sum only once it has all numbers of this one, so the others have read the one
// before: two slots per number are enough.
void IpcTransport::exchange(QueueId, const Label &label, Summand &) {
  failure.raise(Status::run(
      fmt::format("rank {}: --transport=ipc has no {} between replicas yet", rank, plan::name(label.operation->kind))));
}

void IpcTransport::allReduce(QueueId queue, const Label &label, Summand &summand) {
  Driver &cuda = device.driver();
  const int32_t group = label.operation->group;
  const auto found = reductions.find(group);
  if (found == reductions.end()) // plan::verify refuses such plans
    return failure.raise(Status::run(fmt::format("rank {}: is not in the group of an all-reduce", rank)));
  Reduction &reduction = found->second;
  const uint64_t n = ++reduction.sums;
  const gpu::CUstream stream = device.begin(queue, label);
  summand.gradientNorm(queue, label, reduction.own, [] {});
  const Address own = addressOf(reduction.own.data);
  for (const int32_t member : reduction.members) {
    cuda(&C::cuMemcpyAsync, number(member, group, rank, n), own, size_t(8), stream);
    cuda(&C::cuStreamWriteValue64_v2, stream, sumWord(member, group, rank), n, gpu::kWriteValueDefault);
  }
  double *numbers = reduction.addition.numbers;
  const auto onHost = [](double *place) { return reinterpret_cast<Address>(place); };
  for (size_t m = 0; m < reduction.members.size(); ++m) {
    const int32_t member = reduction.members[m];
    cuda(&C::cuStreamWaitValue64_v2, stream, sumWord(rank, group, member), n, gpu::kWaitValueAtLeast);
    cuda(&C::cuMemcpyAsync, onHost(numbers + m), number(rank, group, member, n), size_t(8), stream);
  }
  cuda(&C::cuLaunchHostFunc, stream, &IpcTransport::add, static_cast<void *>(&reduction.addition));
  cuda(&C::cuMemcpyAsync, own, onHost(numbers + reduction.addition.count), size_t(8), stream);
  summand.setGlobalNorm(queue, label, reduction.own, [] {});
}

} // namespace pipec::runtime
