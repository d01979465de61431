// Rank 0 listens (Door.h) and runs the controller; the others dial. If another job has the port, rank 0 takes one of
// the next ports. So the others try several ports, and pass over a listener that cannot prove that it belongs to this
// job.
#include "runtime/launch/Joined.h"

#include "runtime/launch/waits/HostLookup.h"
#include "runtime/stage/hosted/Handover.h"
#include "runtime/transport/host/Door.h"
#include "runtime/transport/host/Meeting.h"
#include "runtime/transport/host/Socket.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fmt/format.h>
#include <mutex>
#include <set>
#include <sodium.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace pipec::runtime {

using asio::ip::tcp;
using namespace std::chrono_literals;

namespace {

constexpr int kPorts = 16;     // how many ports are tried, from the first one on
constexpr auto kRedial = 50ms; // pause before the next round of calls: rank 0 may not be there yet
constexpr auto kAnswer = 3s;   // how long a port may take to answer
constexpr auto kReminder = 5s; // how often a waiting process says so
constexpr auto kRefusal = 10s; // how long a process that refuses tells the others
constexpr plan::Time kRefusalTime = std::chrono::nanoseconds(kRefusal).count() * 1000;
constexpr auto kAwait = asio::use_awaitable;

/// Logs each text once, and at most kMost texts, since strangers may cause ever new ones.
class Warnings {
public:
  void warn(const std::string &text) {
    if (said.size() < kMost && said.insert(text).second)
      spdlog::warn("{}", text);
  }

private:
  static constexpr size_t kMost = 16;
  std::set<std::string> said;
};

Status identityOf(const JoinedSetup &setup, Identity &identity) {
  identity.rank = setup.environment.rank;
  identity.world = setup.environment.world;
  identity.grid = plan::gridOf(*setup.plan);
  identity.plan = setup.planHash;
  identity.steps = setup.options.steps;
  const std::string &job = setup.environment.job;
  crypto_generichash(identity.job.data(), identity.job.size(), reinterpret_cast<const unsigned char *>(job.data()),
                     job.size(), nullptr, 0);
  identity.guarded = !setup.secret.empty();
  return identity.guarded ? stretch(setup.secret, identity.job, identity.secret) : Status{};
}

/// The process that has the controller, for messages.
std::string leaderOf(const JoinedSetup &setup) { return "rank 0 at " + setup.environment.host; }

/// Finds the addresses of rank 0's host. `patience`: picoseconds; 0: no limit. Ends early if the host program closes
/// the run.
Status findHost(const JoinedSetup &setup, plan::Time patience, std::vector<asio::ip::address> &found) {
  HostLookup lookup(setup.environment.host);
  Handover *handover = setup.options.hosting.handover;
  if (handover)
    handover->onFailure(lookup.stopper());
  const Status status = lookup.await(patience, found);
  if (handover && !handover->failed().ok())
    return handover->failed();
  return status.ok()
             ? status
             : Status::run(fmt::format("rank {}: {}; set MASTER_ADDR to a name or address that this machine knows",
                                       setup.environment.rank, status.message));
}

/// "first (10.0.0.1)", or the address alone if that is the host.
std::string nameOf(const std::string &host, const asio::ip::address &address) {
  const std::string text = address.to_string();
  return host == text ? text : fmt::format("{} ({})", host, text);
}

/// Listens at the first free port of those to try. `patience`: as for findHost.
Status listen(const JoinedSetup &setup, plan::Time patience, tcp::acceptor &acceptor) {
  const Environment &environment = setup.environment;
  std::vector<asio::ip::address> found;
  Status status = findHost(setup, patience, found);
  if (!status.ok())
    return status;
  std::vector<asio::ip::address> addresses; // those that the other processes can reach
  for (const asio::ip::address &address : found)
    if (!environment.spread || !address.is_loopback())
      addresses.push_back(address);
  if (addresses.empty())
    return Status::run(
        fmt::format("rank 0: no other machine can reach {}: set MASTER_ADDR to an address of this machine "
                    "on the network between them",
                    nameOf(environment.host, found.front())));
  std::error_code error;
  for (int port = environment.port; port < environment.port + kPorts && port <= UINT16_MAX; ++port)
    for (const asio::ip::address &address : addresses) {
      tcp::endpoint endpoint(address, uint16_t(port));
      std::error_code ignored;
      acceptor.close(ignored);
      error = listenAt(acceptor, endpoint, true);
      if (!error)
        return {};
    }
  if (error.value() == EADDRNOTAVAIL)
    return Status::run(
        fmt::format("rank 0: {} is no address of this machine: set MASTER_ADDR to one of the machine that "
                    "rank 0 runs on",
                    nameOf(environment.host, addresses.front())));
  return Status::run(fmt::format("rank 0: cannot listen at {}, ports {} to {}: {}", environment.host, environment.port,
                                 environment.port + kPorts - 1, error.message()));
}

/// Listens, and logs where. `patience`: as for findHost. `address`: where the process listens.
Status openDoor(const JoinedSetup &setup, plan::Time patience, const Identity &identity, asio::io_context &io,
                asio::ip::address &address, std::shared_ptr<Door> &door) {
  tcp::acceptor acceptor(io);
  Status status = listen(setup, patience, acceptor);
  if (!status.ok())
    return status;
  address = acceptor.local_endpoint().address();
  if (acceptor.local_endpoint().port() != setup.environment.port)
    spdlog::warn("port {} of {} is taken, by another job or another program: this job meets at port {}",
                 setup.environment.port, address.to_string(), acceptor.local_endpoint().port());
  spdlog::info("pid {}, meets the others at {}:{}", getpid(), address.to_string(), acceptor.local_endpoint().port());
  door = std::make_shared<Door>(std::move(acceptor), identity);
  return {};
}

/// Rank 0 of a run that it refuses: tells the processes that connect the reason, until all have heard it or kRefusal is
/// over.
class Refusal {
public:
  Refusal(const JoinedSetup &setup, const Identity &identity) : setup(setup), identity(identity) {}

  Status tell() {
    if (identity.world == 1)
      return {};
    asio::ip::address address;
    std::shared_ptr<Door> door;
    if (Status status = openDoor(setup, kRefusalTime, identity, *io, address, door); !status.ok())
      return status;
    door->open([this](Greeting greeting, tcp::socket socket) { guest(std::move(greeting), std::move(socket)); },
               [this](const Status &) { io->stop(); });
    if (Handover *handover = setup.options.hosting.handover)
      handover->onFailure([io = io] { io->stop(); }); // the host program closes the run
    io->run_for(kRefusal);
    door->close();
    return {};
  }

private:
  void guest(Greeting greeting, tcp::socket socket) {
    const int32_t peer = greeting.peer;
    if (!greeting.status.ok()) // the handshake has told it what differs
      return heard(peer);
    prepareSocket(socket);
    auto channel = std::make_shared<Channel>(Channel::Socket(std::move(socket)), std::move(greeting.session));
    channel->start<messages::ToController>([](auto &&) {}, [this, peer](const std::string &) { heard(peer); });
    channel->send(messages::End{identity.name() + ": " + setup.refused.message});
  }

  void heard(int32_t peer) {
    told.insert(peer);
    if (told.size() + 1 >= size_t(identity.world))
      io->stop();
  }

  const JoinedSetup &setup;
  const Identity &identity;
  const std::shared_ptr<asio::io_context> io = std::make_shared<asio::io_context>();
  std::set<int32_t> told;
};

/// The controller in rank 0's process, and its owner.
class Host {
public:
  Host(const JoinedSetup &setup, const Identity &identity)
      : setup(setup), identity(identity),
        controller(io, {setup.plan, setup.options, setup.swapEvery, setup.resume, setup.adapt},
                   {[this] { spdlog::info("all {} ranks have met", members.size()); }, setup.progressed,
                    [this](int32_t rank) { end(rank); }, [this](int32_t rank) { return this->identity.nameOf(rank); },
                    leaderOf(setup), setup.report}),
        members(size_t(identity.world)) {}

  Status open() {
    if (Status status = openDoor(setup, setup.options.rendezvous, identity, io, address, door); !status.ok())
      return status;
    door->open([this](Greeting greeting, tcp::socket socket) { guest(std::move(greeting), std::move(socket)); },
               [this](const Status &broken) { controller.fail(broken.message, true); },
               [this](const std::string &why) { warnings.warn("who called was refused: " + why); });
    if (setup.control)
      server.emplace(io, *setup.control, controller);
    return {};
  }

  void join(int32_t rank, const std::shared_ptr<Channel> &channel) {
    members[size_t(rank)] = channel;
    controller.join(rank, channel, [this, rank](const std::string &why) { closed(rank, why); });
    if (std::all_of(members.begin(), members.end(), [](const auto &member) { return bool(member); }))
      door->close(); // all are there: from now on the run has no open port
  }

  asio::io_context io;
  asio::ip::address address; // where this process listens
  void run() { io.run(); }
  Status outcome() const { return controller.outcome(); }
  const RunResult &result() const { return controller.result(); }

private:
  void guest(Greeting greeting, tcp::socket socket) {
    if (!greeting.status.ok())
      return controller.fail(greeting.status.message, true);
    prepareSocket(socket);
    auto channel = std::make_shared<Channel>(Channel::Socket(std::move(socket)), std::move(greeting.session));
    if (greeting.peer >= identity.world || members[size_t(greeting.peer)])
      controller.fail(
          fmt::format("{} came twice; each process needs a rank of its own", identity.nameOf(greeting.peer)), true);
    if (!controller.failing())
      return join(greeting.peer, channel);
    channel->start<messages::ToController>([](auto &&) {}, [](const std::string &) {});
    channel->send(messages::End{controller.outcome().message});
  }

  void closed(int32_t rank, const std::string &why) {
    std::string cause;
    if (!controller.mayEnd(rank) && !ended)
      cause = fmt::format("lost {}: {}", identity.nameOf(rank), why.empty() ? "it closed the connection" : why);
    controller.gone(rank, cause);
    if (!controller.allGone())
      return;
    door->close();
    server.reset();
    io.stop();
  }

  /// Gives up on a process: a process on another machine cannot be killed.
  void end(int32_t rank) {
    ended = true;
    if (members[size_t(rank)])
      members[size_t(rank)]->close();
    closed(rank, "");
  }

  const JoinedSetup &setup;
  const Identity identity;
  Controller controller;
  std::shared_ptr<Door> door;
  std::optional<ControlServer> server;
  std::vector<std::shared_ptr<Channel>> members;
  Warnings warnings;
  bool ended = false;
};

/// Calls rank 0 at its ports, again and again, until it answers.
class Caller {
public:
  /// `begin`: when the time until the deadline began to run.
  Caller(asio::io_context &io, const Identity &self, const Environment &environment,
         std::vector<asio::ip::address> addresses, std::chrono::steady_clock::time_point begin, plan::Time deadline)
      : io(io), self(self), environment(environment), addresses(std::move(addresses)), patience(io), begin(begin),
        deadline(deadline) {}

  Status call(std::optional<Line> &line) {
    asio::co_spawn(io, dial(), [](std::exception_ptr error) {
      if (error)
        std::rethrow_exception(error);
    });
    io.run();
    io.restart();
    line = std::move(connected);
    return status;
  }

private:
  asio::awaitable<void> dial() {
    std::string last = "nobody listens there";
    auto told = std::chrono::steady_clock::now();
    while (deadline == 0 || std::chrono::steady_clock::now() - begin < std::chrono::nanoseconds(deadline / 1000)) {
      if (auto now = std::chrono::steady_clock::now(); now - told >= kReminder) {
        spdlog::warn("{} s: waiting for rank 0 at {}, ports {} to {}: {}",
                     std::chrono::duration_cast<std::chrono::seconds>(now - begin).count(), environment.host,
                     environment.port, environment.port + kPorts - 1, last);
        told = now;
      }
      for (int port = environment.port; port < environment.port + kPorts && port <= UINT16_MAX; ++port)
        for (const asio::ip::address &address : addresses) {
          tcp::socket socket(io);
          if (co_await knock(socket, tcp::endpoint(address, uint16_t(port)), last)) {
            if (status.ok()) {
              prepareSocket(socket);
              connected.emplace(std::move(socket), std::move(session));
            }
            co_return;
          }
        }
      if (!refusal.empty()) { // a process of this job has refused, and no other port had rank 0
        status = Status::run(refusal);
        co_return;
      }
      asio::steady_timer pause(io, kRedial);
      co_await pause.async_wait(kAwait);
    }
    status = Status::run(fmt::format("{}: did not reach rank 0 at {}, ports {} to {}, within {:g} s: {}", self.name(),
                                     environment.host, environment.port, environment.port + kPorts - 1,
                                     double(deadline) / 1e12, last));
  }

  /// Calls one endpoint. True: calling is over, as rank 0 has answered, or a process of this job that differs, which
  /// `status` then says. False: `last` says what was wrong.
  asio::awaitable<bool> knock(tcp::socket &socket, const tcp::endpoint &endpoint, std::string &last) {
    patience.expires_after(kAnswer);
    patience.async_wait([&socket](std::error_code early) {
      std::error_code ignored;
      if (!early)
        socket.close(ignored);
    });
    const std::error_code error = co_await connectTo(socket, endpoint);
    Greeting greeting;
    if (!error)
      greeting = co_await greet(socket, self, wire::Side::Dials);
    patience.cancel();
    if (error && error != asio::error::connection_refused) // refused: nobody listens there, which says nothing new
      last = error == asio::error::operation_aborted ? "no answer from there" : error.message();
    if (error)
      co_return false;
    if (!greeting.stranger && greeting.status.ok() && greeting.peer != 0)
      greeting.status =
          Status::run(fmt::format("{}: reached {} where rank 0 was expected", self.name(), self.nameOf(greeting.peer)));
    status = greeting.stranger ? Status{} : greeting.status;
    session = std::move(greeting.session);
    if (!greeting.stranger)
      co_return true;
    last = greeting.status.message;
    if (greeting.peer >= 0 && greeting.sameJob && !greeting.lost)
      refusal = last;
    else if (greeting.peer >= 0 && !greeting.lost)
      warnings.warn("who answered is not rank 0 of this job: " + last);
    co_return false;
  }

  asio::io_context &io;
  const Identity self;
  const Environment &environment;
  const std::vector<asio::ip::address> addresses;
  asio::steady_timer patience;
  const std::chrono::steady_clock::time_point begin;
  const plan::Time deadline; // 0: none
  Status status;
  Session session;
  std::string refusal; // why a process refused that claims to be of this job
  Warnings warnings;
  std::optional<Line> connected;
};

/// The io_context of a process. Without a host it is never freed: its thread runs until the process ends.
struct Loop {
  explicit Loop(bool frees) : frees(frees) {}
  ~Loop() { end(); }
  Loop(const Loop &) = delete;
  void end() {
    if (frees)
      delete std::exchange(io, nullptr);
  }
  asio::io_context *io = new asio::io_context;
  const bool frees;
};

WorkerSetup workerSetup(const JoinedSetup &setup, const Identity &identity, const asio::ip::address &listenOn) {
  return {setup.plan, identity, setup.options, listenOn, !setup.options.hosted(), setup.talk, leaderOf(setup), true};
}

Status runHost(const JoinedSetup &setup, const Identity &identity, RunResult &result) {
  Host host(setup, identity);
  Status status = host.open();
  int pair[2];
  if (status.ok() && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    status = Status::run("rank 0: no socket pair could be made");
  if (!status.ok())
    return status;
  host.join(0, std::make_shared<Channel>(host.io, pair[0]));
  Loop loop(setup.options.hosted());
  auto control = std::make_shared<Channel>(*loop.io, pair[1]);
  std::thread controlling([&] { host.run(); });
  try {
    status = runWorker(workerSetup(setup, identity, host.address), *loop.io, control);
    control->close();
  } catch (const std::exception &error) { // out of descriptors or threads; the controller notices the closed socket
    status = Status::run(fmt::format("rank 0: {}", error.what()));
  }
  control.reset();
  loop.end();
  controlling.join();
  result = host.result();
  Status outcome = host.outcome();
  return outcome.ok() ? status : outcome;
}

/// Finds and calls rank 0, both within `patience`. If there is neither an error nor a line, the host program has closed
/// the run.
Status callRankZero(const JoinedSetup &setup, const Identity &identity, asio::io_context &io, plan::Time patience,
                    std::optional<Line> &line) {
  struct Calls {
    std::mutex mutex;
    bool still = true;
  };
  const auto begin = std::chrono::steady_clock::now();
  std::vector<asio::ip::address> addresses;
  if (Status status = findHost(setup, patience, addresses); !status.ok())
    return status;
  const auto calls = std::make_shared<Calls>();
  if (Handover *handover = setup.options.hosting.handover)
    handover->onFailure([&io, calls] {
      std::lock_guard lock(calls->mutex);
      if (calls->still)
        io.stop();
    });
  Status status = Caller(io, identity, setup.environment, std::move(addresses), begin, patience).call(line);
  std::lock_guard lock(calls->mutex);
  calls->still = false;
  io.restart();
  return status;
}

Status runMember(const JoinedSetup &setup, const Identity &identity) {
  Loop loop(setup.options.hosted());
  std::optional<Line> line;
  if (Status status = callRankZero(setup, identity, *loop.io, setup.options.rendezvous, line); !status.ok())
    return status;
  if (!line)
    return setup.options.hosting.handover->failed();
  tcp::socket &socket = line->socket;
  spdlog::info("pid {}, rank 0 is at {}:{}", getpid(), socket.remote_endpoint().address().to_string(),
               socket.remote_endpoint().port());
  const WorkerSetup worker = workerSetup(setup, identity, socket.local_endpoint().address());
  return runWorker(worker, *loop.io,
                   std::make_shared<Channel>(Channel::Socket(std::move(socket)), std::move(line->session)));
}

/// Refuses the run on a rank other than 0: tells rank 0, which tells the others.
Status refuse(const JoinedSetup &setup, const Identity &identity) {
  asio::io_context io;
  std::optional<Line> line;
  if (Status status = callRankZero(setup, identity, io, kRefusalTime, line); !status.ok() || !line)
    return status;
  auto channel = std::make_shared<Channel>(Channel::Socket(std::move(line->socket)), std::move(line->session));
  channel->start<messages::ToRank>(
      [&io]<typename T>(T &&) {
        if (std::is_same_v<T, messages::End>) // rank 0 has heard the reason
          io.stop();
      },
      [&io](const std::string &) { io.stop(); });
  channel->send(messages::Failed{identity.name() + ": " + setup.refused.message});
  io.run_for(kRefusal);
  channel->close();
  return {};
}

} // namespace

Status runJoined(const JoinedSetup &setup, RunResult &result) {
  if (sodium_init() < 0)
    return Status::run("libsodium cannot be initialized");
  if (setup.environment.launched && !setup.options.hosted()) // if the launcher dies, this process must not go on alone
    prctl(PR_SET_PDEATHSIG, SIGTERM);
  Identity identity;
  Status status = identityOf(setup, identity);
  if (!setup.refused.ok()) {
    if (status.ok())
      status = identity.rank == 0 ? Refusal(setup, identity).tell() : refuse(setup, identity);
    if (!status.ok())
      spdlog::warn("the other processes are not told: {}", status.message);
    return setup.refused;
  }
  if (!status.ok())
    return status;
  return identity.rank == 0 ? runHost(setup, identity, result) : runMember(setup, identity);
}

} // namespace pipec::runtime
