// A GPU's device, its transports and stages: on the GPU that the driver finds here, else on the stand-in, which the
// program finds where it was built (LD_LIBRARY_PATH comes before that).
#include "runtime/launch/waits/Watch.h"
#include "runtime/stage/MakeStage.h"
#include "runtime/transport/ipc/IpcTransport.h"
#include "runtime/transport/nccl/NcclTransport.h"
#include "test/conformance/Implementations.h"

#include <cstring>
#include <list>
#include <thread>

namespace pipec::test {

namespace {

using C = gpu::CudaFunctions;

/// Why there is no device here.
std::string missing() {
  setenv("PIPEC_STANDIN", "devices=8", 0); // one each for the ranks of a test
  Failure failure;
  return Driver("rank 0", failure).open(0).message;
}

/// Until all that was put on a queue has ended.
void finish(CudaDevice &gpu, QueueId queue) {
  gpu::CUevent event = nullptr;
  ASSERT_EQ(gpu.driver().ask(&C::cuEventCreate, &event, gpu::kEventDisableTiming), gpu::kCudaSuccess);
  ASSERT_EQ(gpu.driver().ask(&C::cuEventRecord, event, gpu.on(queue)), gpu::kCudaSuccess);
  while (gpu.driver().ask(&C::cuEventQuery, event) == gpu::kCudaNotReady)
    std::this_thread::yield();
}

class CudaDeviceUnderTest final : public DeviceUnderTest {
public:
  explicit CudaDeviceUnderTest(const plan::Program &program)
      : queues(program.queues.size()), gpu(program, broken, false) {
    const Status status = gpu.open(0);
    EXPECT_TRUE(status.ok()) << status.message;
  }
  ~CudaDeviceUnderTest() override { // what was issued calls what this object has
    for (QueueId queue = 0; queue < queues; ++queue)
      finish(gpu, queue);
  }
  Device &device() override { return gpu; }
  Failure &failure() override { return broken; }
  void issue(QueueId queue, std::function<void()> body) override {
    const gpu::CUstream stream = gpu.begin(queue, {&operation, 0, 0, 0});
    calls.push_back(std::move(body));
    gpu.driver()(
        &C::cuLaunchHostFunc, stream, +[](void *call) { (*static_cast<std::function<void()> *>(call))(); },
        static_cast<void *>(&calls.back()));
  }
  void start() override {} // what is issued runs

private:
  const size_t queues;
  const plan::Operation operation;
  Failure broken;
  CudaDevice gpu;
  std::list<std::function<void()>> calls;
};

class GpuRank final : public RankUnderTest {
public:
  GpuRank(const plan::Plan &plan, int32_t world, bool nccl, plan::Time deadline)
      : queues(layoutOf(plan, world).queues.size()), gpu(layoutOf(plan, world), broken, false),
        guard(asio::make_work_guard(io)),
        watch(io, {world, plan.world(), ""}, deadline,
              {[this] { return gpu.waits([](const plan::Operation &) { return std::vector<int32_t>(); }); },
               [this](const std::string &why) { broken.raise(Status::run(why)); },
               {},
               {}}) {
    const Status status = gpu.open(world);
    EXPECT_TRUE(status.ok()) << status.message;
    if (nccl) {
      auto made = std::make_unique<NcclTransport>(plan, world, gpu, broken);
      const Status opened = made->open("lo");
      EXPECT_TRUE(opened.ok()) << opened.message;
      between = std::move(made);
    } else {
      between = std::make_unique<IpcTransport>(world, plan.world(), std::vector<plan::Group>(), gpu, broken);
    }
    number.emplace(gpu);
    watch.start();
    thread = std::thread([this] { io.run(); });
  }
  ~GpuRank() override {
    vanish();
    for (QueueId queue = 0; queue < queues; ++queue)
      finish(gpu, queue);
  }
  Device &device() override { return gpu; }
  Transport &transport() override { return *between; }
  Failure &failure() override { return broken; }
  Summand &summand(double own) override {
    number->values[0] = own;
    return *number;
  }
  double total() override { return number->values[1]; }
  Summand &layers(std::vector<LayerMemory> layers) override {
    number->layers = std::move(layers);
    return *number;
  }
  void vanish() override {
    guard.reset();
    io.stop();
    if (thread.joinable())
      thread.join();
  }

  std::unique_ptr<CudaTransport> between;

private:
  struct Number final : Summand {
    explicit Number(CudaDevice &gpu)
        : gpu(gpu), values(static_cast<double *>(gpu.allocateOnHost(2 * sizeof(double)))) {}
    void gradientNorm(QueueId queue, const Label &, Slot number, const Then &then) override {
      copy(queue, number.data, &values[0]);
      then();
    }
    void setGlobalNorm(QueueId queue, const Label &, Slot number, const Then &then) override {
      copy(queue, &values[1], number.data);
      then();
    }
    void copy(QueueId queue, const void *to, const void *from) {
      gpu.driver()(&C::cuMemcpyAsync, reinterpret_cast<gpu::CUdeviceptr>(to), reinterpret_cast<gpu::CUdeviceptr>(from),
                   sizeof(double), gpu.on(queue));
    }
    std::span<const LayerMemory> layersOf(int32_t) const override { return layers; }
    CudaDevice &gpu;
    double *const values; // own, and the total
    std::vector<LayerMemory> layers;
  };

  const size_t queues;
  Failure broken;
  CudaDevice gpu;
  std::optional<Number> number;
  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> guard;
  Watch watch;
  std::thread thread;
};

/// All in this process, one after the other.
std::vector<std::unique_ptr<RankUnderTest>> makeRanks(const plan::Plan &plan, plan::Time deadline, bool nccl) {
  std::vector<std::unique_ptr<RankUnderTest>> ranks;
  std::vector<CudaTransport *> transports;
  nlohmann::json offers;
  for (int32_t world = 0; world < plan.world(); ++world) {
    auto rank = std::make_unique<GpuRank>(plan, world, nccl, deadline);
    transports.push_back(rank->between.get());
    offers.push_back(rank->between->offer({}));
    ranks.push_back(std::move(rank));
  }
  for (CudaTransport *transport : transports) {
    CudaTransport::Regions landings;
    const Status status = transport->accept(offers, landings);
    EXPECT_TRUE(status.ok()) << status.message;
  }
  return ranks;
}

class CudaStage : public StageUnderTest {
public:
  CudaStage(const std::string &choice, const plan::Plan &plan, int32_t rank)
      : plan(plan), gpu(plan.variants.front().programs[size_t(rank)], broken, false) {
    Status status = gpu.open(0);
    if (status.ok())
      status = makeStage(choice, this->plan, rank, gpu, broken, made);
    EXPECT_TRUE(status.ok()) << status.message;
  }
  Device &device() override { return gpu; }
  Stage &stage() override { return *made; }
  Failure &failure() override { return broken; }
  std::vector<std::byte> input(plan::Bytes bytes, const Label &label) override { return syntheticInput(bytes, label); }
  void settle(QueueId queue) override { finish(gpu, queue); }

private:
  const plan::Plan plan;
  Failure broken;
  CudaDevice gpu;
  std::unique_ptr<Stage> made;
};

class CudaLibrary final : public CudaStage {
public:
  using CudaStage::CudaStage;
  std::vector<std::byte> input(plan::Bytes bytes, const Label &label) override { return libraryInput(bytes, label); }
};

} // namespace

DeviceImplementation cudaDevice() {
  DeviceImplementation cuda{.name = "cuda", .missing = missing(), .freesIssuer = false};
  cuda.make = [](const plan::Program &program) -> std::unique_ptr<DeviceUnderTest> {
    return std::make_unique<CudaDeviceUnderTest>(program);
  };
  return cuda;
}

TransportImplementation ipcTransport() {
  return {.name = "ipc",
          .missing = missing(),
          .rendezvous = true,
          .noticesLoss = false,
          .knowsAbsent = false,
          .make = [](const plan::Plan &plan, plan::Time deadline) { return makeRanks(plan, deadline, false); }};
}

TransportImplementation ncclTransport() {
  TransportImplementation nccl = ipcTransport();
  nccl.name = "nccl";
  nccl.exchanges = true;
  nccl.make = [](const plan::Plan &plan, plan::Time deadline) { return makeRanks(plan, deadline, true); };
  return nccl;
}

StageImplementation cudaSynthetic() {
  StageImplementation synthetic{
      .name = "cuda", .missing = missing(), .checksInput = true, .provider = "", .boundary = 1000};
  synthetic.make = [](const plan::Plan &plan, int32_t rank) -> std::unique_ptr<StageUnderTest> {
    return std::make_unique<CudaStage>(kSynthetic, plan, rank);
  };
  return synthetic;
}

StageImplementation cudaLibrary(StageImplementation library) {
  library.name = "cudaLibrary";
  library.missing = missing();
  library.make = [](const plan::Plan &plan, int32_t rank) -> std::unique_ptr<StageUnderTest> {
    return std::make_unique<CudaLibrary>(built("bin/mlp.so"), plan, rank);
  };
  return library;
}

} // namespace pipec::test
