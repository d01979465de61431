// The backend of a GPU: streams, a transport that copies between GPUs, and stages that enqueue.
#include "runtime/backend/Kinds.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/stage/MakeStage.h"
#include "runtime/transport/host/Socket.h"
#include "runtime/transport/ipc/IpcTransport.h"
#include "runtime/transport/nccl/NcclTransport.h"

#include <chrono>
#include <fmt/format.h>
#include <numeric>
#include <spdlog/spdlog.h>
#include <thread>

namespace pipec::runtime {

namespace {

class CudaBackend final : public Backend {
public:
  explicit CudaBackend(const BackendContext &context)
      : context(context),
        gpu(context.layout, context.failure, context.options.trace || !context.options.ownTrace.empty()) {}
  ~CudaBackend() override {
    if (context.options.hosted())
      leave();
  }

  Status open() override {
    const int32_t local = context.options.localRank < 0 ? context.world : context.options.localRank;
    Status status = gpu.open(local);
    const int devices = gpu.driver().devices();
    if (status.ok() && context.options.transport == "nccl" && local >= devices)
      return Status::run(fmt::format("{}: --transport=nccl needs a GPU for each rank of a machine: there are more "
                                     "than {} ranks on this one, and {} GPUs; --transport=ipc lets them share",
                                     plan::nameOf(context.layout.place), local, devices));
    return status;
  }
  Device &device() override { return gpu; }

  Status makeStage(const plan::Plan &plan, std::unique_ptr<Stage> &stage) override {
    const RunOptions &options = context.options;
    if (!options.hosted())
      return runtime::makeStage(options.stage, plan, context.world, gpu, context.failure, stage);
    runtime::makeStage(options.hosting, plan, context.world, gpu, context.failure, stage);
    return {};
  }

  Status makeJob(const std::string &, const JobSetup &setup, const plan::Job &) override {
    return Status::input(nameOf(setup) + ": jobs do not run on GPUs yet: leave them out with --no-jobs");
  }

  Transport &connect(Sockets) override {
    if (context.options.transport == "nccl")
      transport = makeNccl();
    else
      transport = std::make_unique<IpcTransport>(context.world, context.plan.world(), context.plan.groups, gpu,
                                                 context.failure);
    return *transport;
  }

  nlohmann::json offer(const TransferMemory &memory) override {
    CudaTransport::Regions received;
    for (const auto &[peer, region] : memory.received())
      received[peer] = {region.data, region.bytes};
    if (context.failure.raised())
      return nullptr;
    return {{"transport", context.options.transport}, {"offer", transport->offer(received)}};
  }

  Status accept(const nlohmann::json &offers, TransferMemory &memory) override {
    CudaTransport::Regions landings;
    auto own = nlohmann::json::array();
    for (size_t rank = 0; rank < offers.size(); ++rank) {
      if (const std::string other = offers[rank].at("transport"); other != context.options.transport)
        return Status::run(fmt::format("{} runs with --transport={}, {} with {}", plan::nameOf(context.layout.place),
                                       context.options.transport,
                                       plan::processName(int32_t(rank), context.layout.place.grid()), other));
      own.push_back(offers[rank].at("offer"));
    }
    Status status = transport->accept(own, landings);
    for (const auto &[peer, region] : landings)
      memory.setLanding(peer, {region.data, region.bytes});
    return status.ok() ? transport->ready() : status;
  }

  void abort() override {
    if (transport)
      transport->abort();
  }

  void start(int64_t at) override { gpu.start(Clock(at)); }
  void rest() override {
    if (context.options.hosted())
      transport->rest();
  }
  std::string head(QueueId) const override { return gpu.head(); }
  std::vector<Wait> waits(plan::Time) override {
    return gpu.waits([this](const plan::Operation &operation) { return othersIn(operation); });
  }
  std::optional<Pass> pass() override { return gpu.pass(); }
  std::vector<Recorder> recorders() const override { return gpu.recorders(); }
  std::vector<trace::Event> takeEvents() override { return gpu.takeEvents(); }

private:
  /// The processes that an instruction needs beside this one.
  std::vector<int32_t> othersIn(const plan::Operation &operation) const {
    if (plan::isTransfer(operation.kind))
      return {context.layout.place.worldOf(operation.peer)};
    if (!plan::isCollective(operation.kind))
      return {};
    std::vector<int32_t> all(size_t(context.plan.world()));
    std::iota(all.begin(), all.end(), 0);
    if (operation.group >= 0)
      all = context.plan.groups[size_t(operation.group)].members;
    std::erase(all, context.world);
    return all;
  }

  /// A host's process goes on: nothing is to stay behind, also of a run that failed.
  void leave() {
    constexpr auto kMost = std::chrono::seconds(10); // for work of the host's that is under way
    const bool failed = context.failure.raised();
    if (transport)
      transport->abort();
    for (const auto begin = std::chrono::steady_clock::now(); !gpu.isIdle();) {
      if (std::chrono::steady_clock::now() - begin > kMost) {
        spdlog::warn("{}: what is under way on the GPU does not end: its streams and memory stay with the process",
                     plan::nameOf(context.layout.place));
        return (void)transport.release();
      }
      if (failed && transport)
        transport->release();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (transport)
      transport->rest();
    gpu.close(failed);
  }

  std::unique_ptr<CudaTransport> makeNccl() {
    auto nccl = std::make_unique<NcclTransport>(context.plan, context.world, gpu, context.failure);
    if (Status status = nccl->open(interfaceOf(context.address)); !status.ok())
      context.failure.raise(std::move(status));
    gpu.whileWaiting([checked = nccl.get()] { checked->check(); });
    return nccl;
  }

  const BackendContext context;
  CudaDevice gpu;
  std::unique_ptr<CudaTransport> transport;
};

} // namespace

std::unique_ptr<Backend> makeCudaBackend(const BackendContext &context) {
  return std::make_unique<CudaBackend>(context);
}

} // namespace pipec::runtime
