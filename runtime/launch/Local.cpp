#include "runtime/launch/Local.h"

#include "runtime/device/Clock.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <iostream>
#include <sodium.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace pipec::runtime {

namespace {

struct Process {
  pid_t pid = 0;
  int channel = -1; // the launcher's end of the socket pair
  bool alive = true;
  bool closed = false; // the channel has closed: all that the process said has been heard
  std::string why;     // why the channel closed; empty: the process closed it
  bool killed = false; // the launcher has killed it, because it did not answer
  int status = 0;      // from wait4
};

void killAll(const std::vector<Process> &processes) {
  for (const Process &process : processes)
    if (process.alive)
      ::kill(process.pid, SIGKILL);
}

/// The process that has the controller, for messages.
std::string leaderOf(pid_t launcher) { return fmt::format("piperun (pid {})", launcher); }

/// The child's side of a fork; never returns.
[[noreturn]] void become(const LocalSetup &setup, const Identity &identity, int control, pid_t launcher) {
  prctl(PR_SET_NAME, fmt::format("piperun:{}", identity.rank).c_str());
  int code = int(Code::Run);
  try {
    auto *io = new asio::io_context; // never freed: its thread runs until _exit
    WorkerSetup worker{.plan = setup.plan,
                       .identity = identity,
                       .options = setup.options,
                       .listenOn = asio::ip::address_v4::loopback(),
                       .leader = leaderOf(launcher)};
    code = int(runWorker(worker, *io, std::make_shared<Channel>(*io, control)).code);
  } catch (const std::exception &error) {
    spdlog::error("{}: {}", identity.name(), error.what());
  }
  std::cout.flush();
  std::fflush(stdout); // _exit does not flush what a stage library has printed
  _exit(code);
}

Status forkAll(const LocalSetup &setup, Identity identity, std::vector<Process> &processes) {
  pid_t launcher = getpid();
  std::fflush(stdout); // else each child would print the buffer again
  for (identity.rank = 0; identity.rank < identity.world; ++identity.rank) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
      return Status::run(fmt::format("cannot start {}: {}", identity.name(), std::strerror(errno)));
    pid_t pid = ::fork();
    if (pid == 0) {
      setpgid(0, 0); // Ctrl-C in a terminal then signals the launcher alone, which ends all
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != launcher)
        _exit(int(Code::Run));
      ::close(pair[0]);
      for (const Process &other : processes)
        ::close(other.channel);
      if (setup.control)
        setup.control->closeInChild();
      setenv("LOCAL_RANK", std::to_string(identity.rank).c_str(), 1); // for what reads it, as under torchrun
      become(setup, identity, pair[1], launcher);
    }
    int error = errno;
    ::close(pair[1]);
    if (pid < 0) {
      ::close(pair[0]);
      return Status::run(fmt::format("cannot start {}: {}", identity.name(), std::strerror(error)));
    }
    Process &process = processes.emplace_back();
    process.pid = pid;
    process.channel = pair[0];
    spdlog::info("{} has pid {}", identity.name(), pid);
  }
  return {};
}

/// Leads one attempt, from the forked processes to their ends.
class Launcher {
public:
  Launcher(const LocalSetup &setup, std::vector<Process> processes,
           const std::function<void(const LocalResult &)> &started, LocalResult &result);
  Status run();

private:
  void awaitSignal();
  void reap();
  void conclude(size_t rank);
  void end(size_t rank);
  std::string title(size_t rank) const {
    return fmt::format("{} (pid {})", plan::processName(int32_t(rank), grid), processes[rank].pid);
  }

  LocalResult &result;
  const plan::Grid grid;
  std::vector<Process> processes;
  asio::io_context io;
  asio::signal_set signals;
  Controller controller;
  std::optional<ControlServer> server;
  int interruptions = 0; // how many SIGINT and SIGTERM have come
};

Launcher::Launcher(const LocalSetup &setup, std::vector<Process> forked,
                   const std::function<void(const LocalResult &)> &started, LocalResult &result)
    : result(result), grid(plan::gridOf(*setup.plan)), processes(std::move(forked)),
      signals(io, SIGINT, SIGTERM, SIGCHLD),
      controller(io, {setup.plan, setup.options, setup.swapEvery, setup.resume, setup.adapt},
                 {[this, &started] {
                    spdlog::info("all {} ranks have met", processes.size());
                    if (started)
                      started(this->result);
                  },
                  setup.progressed, [this](int32_t rank) { end(size_t(rank)); },
                  [this](int32_t rank) { return title(size_t(rank)); }, leaderOf(getpid())}) {
  for (size_t rank = 0; rank < processes.size(); ++rank)
    controller.join(int32_t(rank), std::make_shared<Channel>(io, processes[rank].channel),
                    [this, rank](const std::string &why) {
                      processes[rank].closed = true;
                      processes[rank].why = why;
                      conclude(rank);
                    });
  if (setup.control)
    server.emplace(io, *setup.control, controller);
}

Status Launcher::run() {
  awaitSignal();
  asio::post(io, [this] { reap(); }); // for processes that ended before signals were caught
  io.run();
  result.run = controller.result();
  result.stopped = controller.stopping();
  return controller.outcome();
}

void Launcher::awaitSignal() {
  signals.async_wait([this](std::error_code error, int signal) {
    if (error)
      return;
    if (signal == SIGCHLD) {
      reap();
    } else if (interruptions++ == 0) {
      spdlog::info("signal {} ({}): the run ends after the steps that are permitted; a second one ends it at once",
                   signal, strsignal(signal));
      controller.stop(nameOf(signal));
    } else {
      for (size_t rank = 0; rank < processes.size(); ++rank)
        end(rank);
      controller.fail(fmt::format("ended by signal {} ({})", signal, strsignal(signal)), true);
    }
    awaitSignal();
  });
}

/// Kills a process that did not end in time.
void Launcher::end(size_t rank) {
  Process &process = processes[rank];
  if (!process.alive)
    return;
  process.killed = true;
  ::kill(process.pid, SIGKILL);
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

/// Tells the controller of the end of a process, once it has ended and all that it said has been heard.
void Launcher::conclude(size_t rank) {
  const Process &process = processes[rank];
  if (process.alive || !process.closed)
    return;
  spdlog::info("{} ended with {}", title(rank), result.exits[rank]);
  std::string cause;
  if (WIFSIGNALED(process.status) && process.killed)
    cause = interruptions > 1 ? "" : title(rank) + " did not answer and was killed";
  else if (WIFSIGNALED(process.status))
    cause = fmt::format("{} was killed by signal {} ({})", title(rank), WTERMSIG(process.status),
                        strsignal(WTERMSIG(process.status)));
  else if (!controller.mayEnd(int32_t(rank)) && !process.why.empty())
    cause = fmt::format("lost {}: {}", title(rank), process.why);
  else if (!controller.mayEnd(int32_t(rank)))
    cause = fmt::format("{} ended with exit code {} before the run was over", title(rank), WEXITSTATUS(process.status));
  controller.gone(int32_t(rank), cause);
  if (controller.allGone())
    io.stop();
}

Status attempt(const LocalSetup &setup, const Identity &identity,
               const std::function<void(const LocalResult &)> &started, LocalResult &result) {
  size_t ranks = size_t(identity.world);
  result.pids.clear();
  result.exits.assign(ranks, 0);
  result.cpuSeconds.assign(ranks, 0);
  std::vector<Process> processes;
  Status status = forkAll(setup, identity, processes);
  if (!status.ok()) {
    killAll(processes);
    for (const Process &process : processes) {
      waitpid(process.pid, nullptr, 0);
      ::close(process.channel);
    }
    return status;
  }
  for (const Process &process : processes)
    result.pids.push_back(process.pid);
  return Launcher(setup, std::move(processes), started, result).run();
}

/// Takes over the last attempt's events: those up to its last checkpoint, or all if it succeeded.
void keepEvents(LocalResult &result, int64_t firstStart, bool all) {
  auto keep = [&](const std::vector<trace::Event> &events) {
    for (trace::Event e : events) {
      e.start += (result.run.startedAt - firstStart) * 1000;
      e.end += (result.run.startedAt - firstStart) * 1000;
      e.attempt = int32_t(result.restarts);
      result.events.push_back(e);
    }
  };
  keep(result.run.covered);
  for (trace::Decision decision : result.run.decisions) {
    decision.at += (result.run.startedAt - firstStart) * 1000;
    result.decisions.push_back(std::move(decision));
  }
  for (RankReport &rank : result.run.ranks)
    if (all)
      keep(rank.events);
}

} // namespace

Status runLocal(const LocalSetup &given, const std::function<void(const LocalResult &)> &started, LocalResult &result) {
  if (sodium_init() < 0)
    return Status::run("libsodium cannot be initialized");
  LocalSetup setup = given;
  Identity identity;
  identity.world = setup.plan->world();
  identity.grid = plan::gridOf(*setup.plan);
  identity.plan = setup.planHash;
  identity.steps = setup.options.steps;
  result = LocalResult{};
  int64_t begin = Clock::monotonic(), firstStart = 0;
  Status status;
  while (true) {
    randombytes_buf(identity.job.data(), identity.job.size());
    randombytes_buf(identity.secret.data(), identity.secret.size()); // only forked processes know it
    status = attempt(setup, identity, started, result);
    if (firstStart == 0)
      firstStart = result.run.startedAt;
    keepEvents(result, firstStart, status.ok());
    if (status.ok() || result.stopped || result.restarts == setup.restarts)
      break;
    if (firstStart != 0) // a run that has started cleared the folder or has its own checkpoints there
      setup.resume.reset();
    Manifest manifest;
    if (firstStart != 0 && hasManifest(setup.options.checkpoint)) {
      Status readable = readManifest(setup.options.checkpoint, *setup.plan, manifest);
      if (!readable.ok())
        return Status::run(status.message + "\n" + readable.message);
      setup.resume = manifest;
    }
    int64_t from = setup.resume ? setup.resume->step : 0;
    result.lostSteps += std::max<int64_t>(result.run.reached - from, 0);
    ++result.restarts;
    spdlog::warn("{}", status.message);
    spdlog::warn("restart {} of {} from step {}", result.restarts, setup.restarts, from);
  }
  result.wallSeconds = double(Clock::monotonic() - begin) / 1e9;
  return status;
}

} // namespace pipec::runtime
