// The life of one process.
#include "runtime/launch/Worker.h"

#include "runtime/interpreter/Interpreter.h"
#include "runtime/launch/Channel.h"
#include "runtime/launch/Report.h"
#include "runtime/stage/MakeStage.h"
#include "runtime/transport/host/HostTransport.h"

#include <fmt/format.h>
#include <future>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace pipec::runtime {

using asio::ip::tcp;

namespace {

class Worker {
public:
  Worker(const plan::Plan &plan, const Identity &identity, const RunOptions &options, int control)
      : plan(plan), program(plan.variants.front().programs[size_t(identity.rank)]), identity(identity),
        options(options), clock(Clock::monotonic()), guard(asio::make_work_guard(io)),
        channel(std::make_shared<Channel>(io, control)), device(program, clock, failure, options.trace) {}

  Status run();
  /// Sends the last word and waits until it has left.
  void tell(Message message);

private:
  std::optional<Message> expect(const std::string &type);
  Status meetPeers();
  std::string where() const;

  const plan::Plan &plan;
  const plan::Program &program;
  Identity identity;
  RunOptions options;
  Clock clock;
  Failure failure;
  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> guard;
  std::shared_ptr<Channel> channel;
  HostDevice device;
  Sockets sockets;
  std::mutex mutex; // over the inbox
  std::condition_variable arrived;
  std::deque<Message> inbox;
};

void Worker::tell(Message message) {
  auto sent = std::make_shared<std::promise<void>>();
  std::future<void> done = sent->get_future();
  channel->send(std::move(message), [sent] { sent->set_value(); });
  done.wait_for(std::chrono::seconds(1));
}

/// The launcher's next message; none if the run has failed.
std::optional<Message> Worker::expect(const std::string &type) {
  std::unique_lock lock(mutex);
  arrived.wait(lock, [&] { return !inbox.empty() || failure.raised(); });
  if (failure.raised())
    return std::nullopt;
  Message message = std::move(inbox.front());
  inbox.pop_front();
  lock.unlock();
  if (message.value("type", "") == type)
    return message;
  failure.raise(Status::run(fmt::format("rank {}: the launcher said {} where {} was due", program.rank,
                                        message.value("type", "nothing"), type)));
  return std::nullopt;
}

std::string Worker::where() const {
  std::string text = device.describeHead(0);
  return text.empty() ? fmt::format("rank {}", program.rank) : text;
}

/// Listens, tells where, and connects to all ranks that this one exchanges data with.
Status Worker::meetPeers() {
  tcp::acceptor acceptor(io);
  Status status = listenOnLoopback(acceptor);
  if (!status.ok())
    return status;
  channel->send({{"type", "listening"}, {"port", acceptor.local_endpoint().port()}});
  std::optional<Message> table = expect("table");
  if (!table)
    return failure.status();
  auto ports = table->at("ports").get<std::vector<uint16_t>>();
  std::map<int32_t, tcp::endpoint> peers;
  for (const plan::Operation &op : program.operations)
    if (plan::isTransfer(op.kind))
      peers[op.peer] = tcp::endpoint(asio::ip::address_v4::loopback(), ports.at(size_t(op.peer)));
  auto deadline = std::chrono::milliseconds(options.deadline / 1'000'000'000);
  return meet(identity, std::move(acceptor), peers, deadline, sockets);
}

Status Worker::run() {
  failure.listen([this] {
    std::lock_guard lock(mutex);
    arrived.notify_all();
  });
  channel->start(
      [this](Message message) {
        if (message.value("type", "") == "end")
          return failure.raise(
              Status::run(fmt::format("{}: the launcher ended the run: {}", where(), message.value("message", ""))));
        std::lock_guard lock(mutex);
        inbox.push_back(std::move(message));
        arrived.notify_all();
      },
      [this] { failure.raise(Status::run(fmt::format("{}: the launcher is gone", where()))); });
  std::thread([this] { io.run(); }).detach(); // until the process ends

  Status status = meetPeers();
  if (!status.ok())
    return status;
  // On the heap and never freed: the process ends with threads still in them.
  std::unique_ptr<Stage> made;
  status = makeStage(options.stage, {plan, program.rank, options.pace, device, clock, failure}, made);
  if (!status.ok())
    return status;
  Stage *stage = made.release();
  auto *transport =
      new HostTransport(program, std::move(sockets), io, device, clock, failure, {options.pace, options.deadline});
  Interpreter interpreter(program, device, *transport, *stage, payloadLimit(options.pace));
  status = interpreter.prepare();
  if (!status.ok())
    return status;
  channel->send({{"type", "ready"}});
  std::optional<Message> start = expect("start");
  if (!start)
    return failure.status();
  clock = Clock(start->at("at").get<int64_t>());
  transport->start();
  device.start();
  if (!interpreter.run(options.steps))
    return failure.status();
  transport->rest();
  Message report = toJson(summarize(device.recorders()));
  report["type"] = "report";
  channel->send(std::move(report));
  return expect("finish") ? Status{} : failure.status();
}

} // namespace

void runWorker(const plan::Plan &plan, const Identity &identity, const RunOptions &options, int control) {
  prctl(PR_SET_TIMERSLACK, 1); // sleeps end on time, not up to 50 us later; inherited by the threads
  int code = int(Code::Run);
  try {
    auto *worker = new Worker(plan, identity, options, control);
    Status status = worker->run();
    code = int(status.code);
    if (!status.ok())
      worker->tell({{"type", "failed"}, {"message", status.message}});
  } catch (const std::exception &error) {
    spdlog::error("rank {}: {}", identity.rank, error.what());
  }
  _exit(code);
}

} // namespace pipec::runtime
