// The launcher: forks, hands out the table of ports and the start, collects reports, and on the first sign of failure
// gives the others a moment to say what they saw, then kills what is left.
#include "runtime/launch/Local.h"

#include "runtime/device/host/Clock.h"
#include "runtime/launch/Channel.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fmt/format.h>
#include <sodium.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace pipec::runtime {

namespace {

using namespace std::chrono_literals;

// After the first sign of failure: until kTell a rank may find the cause by itself; then it is told; who has said
// nothing by kKill is killed, and by kEnd whoever is left.
constexpr auto kTell = 300ms;
constexpr auto kKill = 1000ms;
constexpr auto kEnd = 5000ms;

class Launcher {
public:
  Launcher(const RunOptions &options, const std::function<void(const LocalResult &)> &started, LocalResult &result)
      : options(options), started(started), result(result), signals(io), timer(io), graceTimer(io) {}

  Status fork(const plan::Plan &plan, Identity identity);
  Status run();
  void killAll() {
    kill([](const Process &) { return true; });
  }

private:
  struct Process {
    pid_t pid = 0;
    bool alive = true;
    bool closed = false; // its channel: all that it said has been heard
    bool killed = false; // by this launcher, because it did not answer
    bool failed = false; // and said why
    uint16_t port = 0;
    bool ready = false;
    bool reported = false;
    int status = 0; // from wait4
    std::shared_ptr<Channel> channel;
  };

  void hear(size_t rank, Message message);
  void awaitSignal();
  void awaitProgress(const char *what, bool Process::*done);
  void reap();
  void conclude(size_t rank);
  void fail(std::string message, bool telling);
  asio::awaitable<void> endOthers();
  void kill(bool (*which)(const Process &));
  void broadcast(const Message &message);
  bool all(bool (*predicate)(const Process &)) const {
    return std::all_of(processes.begin(), processes.end(), predicate);
  }
  std::string title(size_t rank) const { return fmt::format("rank {} (pid {})", rank, processes[rank].pid); }

  const RunOptions &options;
  const std::function<void(const LocalResult &)> &started;
  LocalResult &result;
  asio::io_context io;
  asio::signal_set signals;
  asio::steady_timer timer; // until the next progress of the whole
  asio::steady_timer graceTimer;
  std::vector<Process> processes;
  std::vector<int> descriptors; // the launcher's ends
  bool finishing = false;
  bool failing = false;
  bool interrupted = false;        // by a signal to the launcher
  std::vector<std::string> causes; // the most telling first
};

Status Launcher::fork(const plan::Plan &plan, Identity identity) {
  pid_t launcher = getpid();
  for (int32_t rank = 0; rank < identity.world; ++rank) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
      return Status::run(fmt::format("cannot start rank {}: {}", rank, std::strerror(errno)));
    pid_t pid = ::fork();
    if (pid == 0) {
      setpgid(0, 0); // a terminal's Ctrl-C reaches the launcher alone, which ends all
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != launcher)
        _exit(int(Code::Run));
      prctl(PR_SET_NAME, fmt::format("piperun:{}", rank).c_str());
      ::close(pair[0]);
      for (int descriptor : descriptors)
        ::close(descriptor);
      identity.rank = rank;
      runWorker(plan, identity, options, pair[1]);
    }
    ::close(pair[1]);
    if (pid < 0) {
      ::close(pair[0]);
      return Status::run(fmt::format("cannot start rank {}: {}", rank, std::strerror(errno)));
    }
    descriptors.push_back(pair[0]);
    processes.emplace_back().pid = pid;
    result.pids.push_back(pid);
    spdlog::info("rank {} has pid {}", rank, pid);
  }
  return {};
}

void Launcher::kill(bool (*which)(const Process &)) {
  for (Process &process : processes)
    if (process.alive && which(process)) {
      process.killed = !interrupted;
      ::kill(process.pid, SIGKILL);
    }
}

Status Launcher::run() {
  for (size_t rank = 0; rank < processes.size(); ++rank) {
    Process &process = processes[rank];
    process.channel = std::make_shared<Channel>(io, descriptors[rank]);
    process.channel->start([this, rank](Message message) { hear(rank, std::move(message)); },
                           [this, rank] {
                             processes[rank].closed = true;
                             conclude(rank);
                           });
  }
  for (int signal : {SIGINT, SIGTERM, SIGCHLD})
    signals.add(signal);
  awaitSignal();
  awaitProgress("come to the meeting", &Process::ready);
  asio::post(io, [this] { reap(); }); // who ended before the signals were caught
  io.run();
  std::string message;
  for (const std::string &cause : causes)
    message += (message.empty() ? "" : "\n") + cause;
  return failing ? Status::run(message) : Status{};
}

void Launcher::awaitSignal() {
  signals.async_wait([this](std::error_code error, int signal) {
    if (error)
      return;
    if (signal == SIGCHLD) {
      reap();
    } else {
      interrupted = true;
      killAll();
      fail(fmt::format("ended by signal {} ({})", signal, strsignal(signal)), true);
    }
    awaitSignal();
  });
}

/// Every rank must get to the end of a part of the run within the deadline; over the steps the ranks watch themselves.
void Launcher::awaitProgress(const char *what, bool Process::*done) {
  if (options.deadline == 0)
    return;
  timer.expires_after(std::chrono::nanoseconds(options.deadline / 1000));
  timer.async_wait([this, what, done](std::error_code error) {
    for (size_t rank = 0; !error && rank < processes.size(); ++rank)
      if (!(processes[rank].*done))
        fail(fmt::format("{} did not {} within {:g} s", title(rank), what, double(options.deadline) / 1e12), false);
  });
}

void Launcher::broadcast(const Message &message) {
  for (Process &process : processes)
    if (process.alive)
      process.channel->send(message);
}

void Launcher::hear(size_t rank, Message message) {
  Process &process = processes[rank];
  std::string type = message.value("type", "");
  if (type == "listening") {
    process.port = message.at("port");
    if (!all([](const Process &p) { return p.port != 0; }))
      return;
    Message table{{"type", "table"}, {"ports", Message::array()}};
    for (const Process &p : processes)
      table["ports"].push_back(p.port);
    broadcast(table);
  } else if (type == "ready") {
    process.ready = true;
    if (!all([](const Process &p) { return p.ready; }))
      return;
    timer.cancel();
    // All start at one instant, by when the message has reached them.
    int64_t at = Clock::monotonic() + 20'000'000 + 2'000'000 * int64_t(processes.size());
    broadcast({{"type", "start"}, {"at", at}});
    if (started)
      started(result);
  } else if (type == "report") {
    result.ranks[rank] = fromJson(message, int32_t(rank));
    process.reported = true;
    awaitProgress("end with the others", &Process::reported);
    if (!all([](const Process &p) { return p.reported; }))
      return;
    finishing = true;
    awaitProgress("end after the run", &Process::closed);
    broadcast({{"type", "finish"}});
  } else if (type == "failed") {
    process.failed = true;
    fail(message.value("message", ""), false);
  }
}

void Launcher::fail(std::string message, bool telling) {
  causes.insert(telling ? causes.begin() : causes.end(), std::move(message));
  if (failing)
    return;
  failing = true;
  timer.cancel();
  asio::co_spawn(io, endOthers(), asio::detached);
}

asio::awaitable<void> Launcher::endOthers() {
  graceTimer.expires_after(kTell);
  co_await graceTimer.async_wait(asio::use_awaitable);
  broadcast({{"type", "end"}, {"message", causes.front()}});
  graceTimer.expires_after(kKill - kTell);
  co_await graceTimer.async_wait(asio::use_awaitable);
  kill([](const Process &p) { return !p.failed; });
  graceTimer.expires_after(kEnd - kKill);
  co_await graceTimer.async_wait(asio::use_awaitable);
  killAll();
}

void Launcher::reap() {
  for (size_t rank = 0; rank < processes.size(); ++rank) {
    Process &process = processes[rank];
    rusage usage{};
    if (!process.alive || wait4(process.pid, &process.status, WNOHANG, &usage) != process.pid)
      continue;
    process.alive = false;
    auto seconds = [](const timeval &t) { return double(t.tv_sec) + double(t.tv_usec) / 1e6; };
    result.cpuSeconds[rank] = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    result.exits[rank] = WIFSIGNALED(process.status) ? -WTERMSIG(process.status) : WEXITSTATUS(process.status);
    conclude(rank);
  }
}

/// Once a process has ended and all that it said has been heard.
void Launcher::conclude(size_t rank) {
  const Process &process = processes[rank];
  if (process.alive || !process.closed)
    return;
  spdlog::info("{} ended with {}", title(rank), result.exits[rank]);
  if (WIFSIGNALED(process.status) && process.killed)
    fail(fmt::format("{} did not answer and was killed", title(rank)), true);
  else if (WIFSIGNALED(process.status) && !interrupted)
    fail(fmt::format("{} was killed by signal {} ({})", title(rank), WTERMSIG(process.status),
                     strsignal(WTERMSIG(process.status))),
         true);
  else if (WIFEXITED(process.status) && !process.failed && (!finishing || WEXITSTATUS(process.status) != 0))
    fail(fmt::format("{} ended with exit code {} before the run was over", title(rank), WEXITSTATUS(process.status)),
         true);
  if (all([](const Process &p) { return !p.alive && p.closed; }))
    io.stop();
}

} // namespace

Status runLocal(const plan::Plan &plan, const std::array<uint8_t, 32> &planHash, const RunOptions &options,
                const std::function<void(const LocalResult &)> &started, LocalResult &result) {
  if (sodium_init() < 0)
    return Status::run("libsodium cannot be initialized");
  Identity identity;
  identity.world = plan.ranks();
  identity.plan = planHash;
  randombytes_buf(identity.job.data(), identity.job.size());
  randombytes_buf(identity.secret.data(), identity.secret.size()); // known to forked processes alone
  size_t ranks = size_t(identity.world);
  result = LocalResult{};
  result.ranks.resize(ranks);
  result.exits.resize(ranks);
  result.cpuSeconds.resize(ranks);
  int64_t begin = Clock::monotonic();

  Launcher launcher(options, started, result);
  Status status = launcher.fork(plan, identity);
  if (!status.ok()) {
    launcher.killAll();
    for (pid_t pid : result.pids)
      waitpid(pid, nullptr, 0);
    return status;
  }
  status = launcher.run();
  result.wallSeconds = double(Clock::monotonic() - begin) / 1e9;
  return status;
}

} // namespace pipec::runtime
