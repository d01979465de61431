#include "runtime/transport/nccl/NcclTransport.h"

#include "runtime/transport/Shares.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <unistd.h>

namespace pipec::runtime {

using namespace gpu;

static std::string versionText(int version) { return fmt::format("{}.{}", version / 10'000, version % 10'000 / 100); }

NcclTransport::NcclTransport(const plan::Plan &plan, int32_t rank, CudaDevice &device, Failure &failure)
    : rank(rank), place(plan::placeOf(rank, plan)), process(plan::nameOf(place)), device(device), failure(failure),
      communicators(communicatorsOf(plan)) {
  for (const Communicator &each : communicators)
    if (const auto found = each.queuesOf.find(rank); found != each.queuesOf.end()) {
      if (each.group != -1)
        ofGroup[each.group] = joined.size();
      for (const QueueId queue : found->second)
        if (each.group == -1)
          communicatorOf[queue] = joined.size();
      joined.push_back({&each});
    }
}

Status NcclTransport::open(const std::string &network) {
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  if (!network.empty())
    setenv("NCCL_SOCKET_IFNAME", ("=" + network).c_str(), 0); // exactly this one
  const std::string needed = versionText(kNcclNeeded);
  auto wrong = [&](const std::string &what) {
    return Status::run(fmt::format("{}: --transport=nccl: {}; --transport=ipc does without", process, what));
  };
  const Status status = openLibrary("libnccl.so.2", needed.c_str(),
                                    {
#define PIPEC_NCCL_SYMBOL(symbol, result, parameters) symbolOf(functions.symbol),
                                        PIPEC_NCCL_FUNCTIONS(PIPEC_NCCL_SYMBOL)
#undef PIPEC_NCCL_SYMBOL
                                    });
  if (!status.ok())
    return wrong(status.message);
  int version = 0;
  if (!call(functions.ncclGetVersion, &version))
    return failure.status();
  if (version < kNcclNeeded)
    return wrong(fmt::format("libnccl.so.2 is {}, {} or newer is needed", versionText(version), needed));
  number = {device.allocate(8), 8};
  return {};
}

/// False if NCCL reports an error, which raises the Failure. A call that goes on in the background is no error.
bool NcclTransport::ok(const char *call, NcclResult result, NcclComm comm) {
  if (result == kNcclSuccess || result == kNcclInProgress)
    return true;
  Inside &inside = device.driver().calls();
  const char *text = inside.call(functions.ncclGetErrorString, result);
  const char *last = inside.call(functions.ncclGetLastError, comm);
  failure.raise(Status::run(fmt::format("{}: {}: {} ({}){}{}", process, call, text ? text : "an unknown error", result,
                                        last && *last ? ": " : "", last ? last : "")));
  return false;
}

template <typename... P, typename... A>
bool NcclTransport::call(const Function<NcclResult(P...)> &function, A... arguments) {
  return ok(function.name, device.driver().calls().call(function, arguments...), nullptr);
}

/// The ids of the communicators with this rank as their first, by their index among all.
nlohmann::json NcclTransport::offer(const Regions &) {
  nlohmann::json ids = nlohmann::json::object();
  for (size_t c = 0; c < communicators.size(); ++c) {
    NcclId id;
    if (communicators[c].ranks.front() != rank)
      continue;
    if (!call(functions.ncclGetUniqueId, &id))
      return nullptr;
    ids[std::to_string(c)] = std::vector<uint8_t>(std::begin(id.internal), std::end(id.internal));
  }
  return {{"ids", std::move(ids)}};
}

// All processes make communicators in the same order, and do not wait here until they are made.
Status NcclTransport::accept(const nlohmann::json &offers, Regions &) {
  constexpr int kMost = 4; // the most blocks of a GPU per communicator
  // A kernel that waits for its peer holds its blocks; one is left for the computation.
  if (device.processors() <= int(joined.size()))
    return Status::run(fmt::format("{}: the plan needs {} communicators, each of which may hold a multiprocessor "
                                   "while it waits; the GPU has {}; --transport=ipc holds none",
                                   process, joined.size(), device.processors()));
  const int most = std::clamp(device.processors() / 2 / std::max(int(joined.size()), 1), 1, kMost);
  for (Joined &each : joined) {
    const auto &ids = offers.at(size_t(each.of->ranks.front())).at("ids");
    const auto bytes = ids.at(std::to_string(each.of - communicators.data())).get<std::vector<uint8_t>>();
    NcclId id{};
    std::copy_n(bytes.begin(), std::min(bytes.size(), sizeof id.internal), id.internal);
    NcclConfig config;
    config.blocking = 0;
    config.minCTAs = 1;
    config.maxCTAs = most;
    if (!call(functions.ncclCommInitRankConfig, &each.comm, int(each.of->ranks.size()), id, each.of->placeOf(rank),
              &config))
      return failure.status();
  }
  return {};
}

/// Uses each edge once, in one order on all ranks: NCCL connects two ranks when they first exchange data.
Status NcclTransport::ready() {
  for (const Joined &each : joined)
    for (NcclResult state = kNcclInProgress; state == kNcclInProgress;) {
      if (failure.raised() || !call(functions.ncclCommGetAsyncError, each.comm, &state) ||
          !ok("ncclCommInitRankConfig", state, each.comm))
        return failure.status();
      if (state == kNcclInProgress)
        usleep(500);
    }
  for (const Joined &each : joined) {
    const CUstream stream = device.on(each.of->queuesOf.at(rank).front());
    for (const auto &[from, to] : each.of->edges)
      if ((from == rank && !call(functions.ncclSend, static_cast<const void *>(number.data), size_t(8), kNcclInt8,
                                 each.of->placeOf(to), each.comm, stream)) ||
          (to == rank && !call(functions.ncclRecv, static_cast<void *>(number.data), size_t(8), kNcclInt8,
                               each.of->placeOf(from), each.comm, stream)))
        return failure.status();
  }
  for (const Joined &each : joined)
    if (!device.finish(each.of->queuesOf.at(rank).front()))
      return failure.status();
  return {};
}

void NcclTransport::check() {
  for (const Joined &each : joined) {
    NcclResult state = kNcclSuccess;
    if (each.comm && call(functions.ncclCommGetAsyncError, each.comm, &state))
      ok("a communicator failed", state, each.comm);
  }
}

void NcclTransport::abort() {
  for (Joined &each : joined)
    if (NcclComm comm = std::exchange(each.comm, nullptr))
      device.driver().calls().call(functions.ncclCommAbort, comm);
}

void NcclTransport::send(QueueId queue, const Label &label, Slot slot, Slot) {
  Joined &of = on(queue);
  const CUstream stream = device.begin(queue, label);
  call(functions.ncclSend, static_cast<const void *>(slot.data), size_t(slot.bytes), kNcclInt8, peerIn(of, label),
       of.comm, stream);
}

void NcclTransport::recv(QueueId queue, const Label &label, Slot slot) {
  Joined &of = on(queue);
  const CUstream stream = device.begin(queue, label);
  call(functions.ncclRecv, static_cast<void *>(slot.data), size_t(slot.bytes), kNcclInt8, peerIn(of, label), of.comm,
       stream);
}

void NcclTransport::allReduce(QueueId queue, const Label &label, Summand &summand) {
  Joined &of = on(queue);
  const CUstream stream = device.begin(queue, label);
  summand.gradientNorm(queue, label, number, [] {});
  call(functions.ncclAllReduce, static_cast<const void *>(number.data), static_cast<void *>(number.data), size_t(1),
       kNcclFloat64, kNcclSum, of.comm, stream);
  summand.setGlobalNorm(queue, label, number, [] {});
}

/// Makes calls that start together.
template <typename Calls> void NcclTransport::together(Joined &of, Calls calls) {
  call(functions.ncclGroupStart);
  calls();
  call(functions.ncclGroupEnd);
  settle(of);
}

/// Waits until the calls are on their stream.
void NcclTransport::settle(Joined &of) {
  for (NcclResult state = kNcclInProgress; state == kNcclInProgress && !failure.raised();) {
    if (!call(functions.ncclCommGetAsyncError, of.comm, &state) || !ok("a communicator failed", state, of.comm))
      return;
    if (state == kNcclInProgress)
      usleep(50);
  }
}

// Shares are unequal if a layer's elements are no multiple of the replicas, which ncclReduceScatter and ncclAllGather
// do not support, and a share has an extent in each layer. An all-reduce is made of both halves too, so that its sums
// have the same bits.
void NcclTransport::exchange(QueueId queue, const Label &label, Summand &stage) {
  const plan::Operation &operation = *label.operation;
  Joined &of = joined[ofGroup.at(operation.group)];
  const CUstream stream = device.begin(queue, label);
  const std::span<const LayerMemory> layers = stage.layersOf(plan::ownerOf(operation));
  const auto replicas = int32_t(of.of->ranks.size());
  const auto eachExtent = [&](auto use) {
    for (int32_t replica = 0; replica < replicas; ++replica)
      for (const Extent &extent : shareOf(operation, layers, replica, replicas))
        use(extent, int(replica));
  };
  const auto typeOf = [](const Extent &extent) { return extent.type == Number::Float64 ? kNcclFloat64 : kNcclFloat32; };
  if (plan::sums(operation.kind))
    together(of, [&] {
      eachExtent([&](const Extent &extent, int owner) {
        call(functions.ncclReduce, static_cast<const void *>(extent.data), static_cast<void *>(extent.data),
             size_t(extent.count), typeOf(extent), kNcclSum, owner, of.comm, stream);
      });
    });
  if (plan::gathers(operation.kind))
    together(of, [&] {
      eachExtent([&](const Extent &extent, int owner) {
        call(functions.ncclBroadcast, static_cast<const void *>(extent.data), static_cast<void *>(extent.data),
             size_t(extent.count), typeOf(extent), owner, of.comm, stream);
      });
    });
}

} // namespace pipec::runtime
