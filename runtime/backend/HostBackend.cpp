// The backend of the host: the host device, a transport over sockets, and stages that run on the device's thread.
#include "runtime/backend/Kinds.h"
#include "runtime/device/host/HostDevice.h"
#include "runtime/device/host/Punctual.h"
#include "runtime/job/MakeJob.h"
#include "runtime/stage/MakeStage.h"
#include "runtime/transport/host/HostTransport.h"

namespace pipec::runtime {

namespace {

class HostBackend final : public Backend {
public:
  explicit HostBackend(const BackendContext &context)
      : context(context), host(context.layout, clock, context.failure,
                               context.options.trace || !context.options.ownTrace.empty(), context.options.pace) {
    if (context.options.measure)
      host.measure(context.meter);
    if (context.layout.place.shards > 1)
      shards.emplace(context.layout.place, context.io);
  }

  Device &device() override { return host; }

  Status makeStage(const plan::Plan &plan, std::unique_ptr<Stage> &stage) override {
    const RunOptions &options = context.options;
    const StageContext of{plan,
                          context.world,
                          options.pace,
                          host,
                          clock,
                          context.failure,
                          options.network.get(),
                          options.payload(),
                          shards ? &*shards : nullptr};
    if (!options.hosted())
      return runtime::makeStage(options.stage, of, stage);
    runtime::makeStage(options.hosting, of, stage);
    return {};
  }

  Transport &connect(Sockets connected) override {
    const RunOptions &options = context.options;
    const plan::Variant &first = context.plan.variants.front(); // all have the same
    sockets.emplace(context.layout, std::move(connected), context.io, host, clock, context.failure,
                    HostTransport::Options{options.pace, options.network.get(), options.realNetwork,
                                           context.plan.world(), context.plan.groups, first.batch,
                                           first.sharesStages() ? first.widths() : std::vector<int32_t>(),
                                           options.measure ? &context.meter : nullptr, shards ? &*shards : nullptr,
                                           context.heard});
    return *sockets;
  }

  Status makeJob(const std::string &choice, const JobSetup &setup, const plan::Job &planned) override {
    std::unique_ptr<Job> made;
    if (Status status = runtime::makeJob(choice, setup, clock, made); !status.ok())
      return status;
    filler.emplace(std::move(made), planned, clock, context.options.pace);
    host.fill(*filler);
    return {};
  }
  JobFiller *job() override { return filler ? &*filler : nullptr; }

  void start(int64_t at) override {
    clock = Clock(at);
    sockets->start();
    if (!context.options.hosted())
      host.start();
    started = true;
  }

  void rest() override { sockets->rest(); }
  std::string head(QueueId queue) const override { return host.describeHead(queue); }
  std::vector<Wait> waits(plan::Time limit) override { return started ? sockets->waits(limit) : std::vector<Wait>(); }
  std::optional<Pass> pass() override { return started ? host.pass() : std::nullopt; }
  bool say(int32_t process, uint32_t kind, std::shared_ptr<const std::vector<uint8_t>> bytes) override {
    return started && sockets->say(process, kind, std::move(bytes));
  }
  std::vector<Recorder> recorders() const override { return host.recorders(); }
  std::vector<trace::Event> takeEvents() override { return host.takeEvents(); }

private:
  const BackendContext context;
  Clock clock{Clock::monotonic()};
  std::optional<JobFiller> filler; // the device's thread ends first
  HostDevice host;
  std::optional<ShardExchange> shards;
  std::optional<HostTransport> sockets;
  std::atomic<bool> started{false};
};

} // namespace

std::unique_ptr<Backend> makeHostBackend(const BackendContext &context) {
  bePunctual();
  return std::make_unique<HostBackend>(context);
}

} // namespace pipec::runtime
