// The host's device and transport, and the stages that run on it.
#include "runtime/launch/waits/Watch.h"
#include "runtime/stage/MakeStage.h"
#include "runtime/stage/synthetic/Pattern.h"
#include "runtime/transport/host/HostTransport.h"
#include "test/conformance/Implementations.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <thread>

namespace pipec::test {

namespace {

using asio::ip::tcp;

class HostDeviceUnderTest final : public DeviceUnderTest {
public:
  explicit HostDeviceUnderTest(const plan::Program &program) : host(program, clock, broken, false) {}
  Device &device() override { return host; }
  Failure &failure() override { return broken; }
  void issue(QueueId queue, std::function<void()> body) override {
    calls.emplace_back(std::move(body));
    host.submit(queue, {&operation, 0, 0, 0}, {}, {}, &calls.back());
  }
  void start() override { host.start(); }

private:
  struct Call final : HostBody {
    explicit Call(std::function<void()> body) : body(std::move(body)) {}
    Span run(const HostWork &, plan::Time ready) override {
      body();
      return {ready, ready};
    }
    std::function<void()> body;
  };
  plan::Operation operation;
  Clock clock{Clock::monotonic()};
  Failure broken;
  std::list<Call> calls;
  HostDevice host;
};

class HostRank final : public RankUnderTest {
public:
  HostRank(const plan::Plan &plan, int32_t world, Clock clock, std::unique_ptr<asio::io_context> own, Sockets sockets,
           plan::Time deadline)
      : clock(clock), io(std::move(own)), guard(asio::make_work_guard(*io)),
        host(layoutOf(plan, world), this->clock, broken, false), group(plan::placeOf(world, plan), *io),
        sockets(std::make_unique<HostTransport>(
            layoutOf(plan, world), std::move(sockets), *io, host, this->clock, broken,
            HostTransport::Options{
                .pace = Pace::Real, .processes = plan.world(), .groups = plan.groups, .shards = &group})),
        watch(*io, {world, plan.world(), ""}, deadline,
              {[this, deadline] { return this->sockets->waits(deadline); },
               [this](const std::string &why) { broken.raise(Status::run(why)); },
               {},
               {}}) {
    this->sockets->start();
    watch.start();
    host.start();
    thread = std::thread([this] { io->run(); });
  }
  ~HostRank() override { vanish(); }
  Device &device() override { return host; }
  Transport &transport() override { return *sockets; }
  Failure &failure() override { return broken; }
  Summand &summand(double own) override {
    number.own = own;
    return number;
  }
  double total() override { return number.total; }
  Summand &layers(std::vector<LayerMemory> layers) override {
    number.layers = std::move(layers);
    return number;
  }
  ShardGroup *shards() override { return &group; }
  void vanish() override {
    guard.reset();
    io->stop();
    if (thread.joinable())
      thread.join();
    sockets.reset();
  }

private:
  struct Number final : Summand {
    void gradientNorm(QueueId, const Label &, Slot number, const Then &then) override {
      std::memcpy(number.data, &own, sizeof own);
      then();
    }
    void setGlobalNorm(QueueId, const Label &, Slot number, const Then &then) override {
      std::memcpy(&total, number.data, sizeof total);
      then();
    }
    std::span<const LayerMemory> layersOf(int32_t) const override { return layers; }
    double own = 0, total = 0; // read once the all-reduce is complete
    std::vector<LayerMemory> layers;
  };

  Number number;
  Clock clock;
  Failure broken;
  std::unique_ptr<asio::io_context> io;
  asio::executor_work_guard<asio::io_context::executor_type> guard;
  HostDevice host;
  ShardExchange group;
  std::unique_ptr<HostTransport> sockets;
  Watch watch;
  std::thread thread;
};

std::vector<std::unique_ptr<RankUnderTest>> makeRanks(const plan::Plan &plan, plan::Time deadline) {
  size_t count = size_t(plan.world());
  std::vector<std::unique_ptr<asio::io_context>> ios;
  std::vector<Sockets> sockets(count);
  for (size_t r = 0; r < count; ++r)
    ios.push_back(std::make_unique<asio::io_context>());
  for (size_t a = 0; a < count; ++a)
    for (size_t b = a + 1; b < count; ++b) {
      tcp::acceptor acceptor(*ios[a], tcp::endpoint(asio::ip::address_v4::loopback(), 0));
      tcp::socket here(*ios[a]), there(*ios[b]);
      there.connect(acceptor.local_endpoint());
      acceptor.accept(here);
      sockets[a].emplace(int32_t(b), std::move(here));
      sockets[b].emplace(int32_t(a), std::move(there));
    }
  Clock clock(Clock::monotonic());
  std::vector<std::unique_ptr<RankUnderTest>> ranks;
  for (size_t r = 0; r < count; ++r)
    ranks.push_back(
        std::make_unique<HostRank>(plan, int32_t(r), clock, std::move(ios[r]), std::move(sockets[r]), deadline));
  return ranks;
}

class HostStage : public StageUnderTest {
public:
  HostStage(const std::string &choice, Pace pace, const plan::Plan &plan, int32_t rank)
      : plan(plan), host(plan.variants.front().programs[size_t(rank)], clock, broken, false) {
    Status status = makeStage(choice, {this->plan, rank, pace, host, clock, broken}, made);
    EXPECT_TRUE(status.ok()) << status.message;
    host.start();
  }
  Device &device() override { return host; }
  Stage &stage() override { return *made; }
  Failure &failure() override { return broken; }
  std::vector<std::byte> input(plan::Bytes bytes, const Label &label) override { return syntheticInput(bytes, label); }

private:
  plan::Plan plan;
  Clock clock{Clock::monotonic()};
  Failure broken;
  std::unique_ptr<Stage> made;
  HostDevice host; // its thread ends before the stage goes
};

/// Its inputs are numbers.
class LibraryUnderTest final : public HostStage {
public:
  using HostStage::HostStage;
  std::vector<std::byte> input(plan::Bytes bytes, const Label &label) override { return libraryInput(bytes, label); }
};

} // namespace

std::vector<std::byte> syntheticInput(plan::Bytes bytes, const Label &label) {
  std::vector<std::byte> made(static_cast<size_t>(bytes));
  bool forward = label.operation->kind == plan::Kind::Forward;
  runtime::fill({made.data(), bytes},
                {label.operation->stage + (forward ? -1 : 1),
                 forward ? plan::Payload::Forward : plan::Payload::Backward, label.microbatch, label.step});
  return made;
}

std::vector<std::byte> libraryInput(plan::Bytes bytes, const Label &label) {
  std::vector<std::byte> made(static_cast<size_t>(bytes));
  for (int64_t i = 0; i < bytes / 4; ++i) {
    float value = float((i * 37 + label.microbatch * 11 + label.step * 5) % 64) / 32 - 1;
    std::memcpy(made.data() + 4 * i, &value, 4);
  }
  return made;
}

std::vector<DeviceImplementation> deviceImplementations() {
  DeviceImplementation host{.name = "host", .missing = "", .priorities = true};
  host.make = [](const plan::Program &program) -> std::unique_ptr<DeviceUnderTest> {
    return std::make_unique<HostDeviceUnderTest>(program);
  };
  return {host, cudaDevice()};
}

std::vector<TransportImplementation> transportImplementations() {
  return {{.name = "host",
           .missing = "",
           .rendezvous = true,
           .comparesTags = true,
           .exchanges = true,
           .shards = true,
           .make = makeRanks},
          ipcTransport(),
          ncclTransport()};
}

std::vector<StageImplementation> stageImplementations() {
  StageImplementation synthetic{
      .name = "synthetic", .missing = "", .checksInput = true, .provider = "", .boundary = 1000};
  synthetic.make = [](const plan::Plan &plan, int32_t rank) -> std::unique_ptr<StageUnderTest> {
    return std::make_unique<HostStage>(kSynthetic, Pace::Naive, plan, rank);
  };
  StageImplementation library{.name = "library", .missing = "", .trains = true, .provider = "", .boundary = 4 * 8 * 4};
  library.provider = R"({"hidden": 8, "layers": 2, "samples": 4, "seed": 1, "rate": 0.5})";
  library.make = [](const plan::Plan &plan, int32_t rank) -> std::unique_ptr<StageUnderTest> {
    return std::make_unique<LibraryUnderTest>(built("bin/mlp.so"), Pace::Real, plan, rank);
  };
  return {synthetic, library, cudaSynthetic(), cudaLibrary(library)};
}

} // namespace pipec::test
