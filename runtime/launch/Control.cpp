#include "runtime/launch/Control.h"

#include "runtime/launch/Prepare.h"
#include "runtime/plan/Write.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

namespace pipec::runtime {

namespace {

Status addressOf(const std::string &path, sockaddr_un &address) {
  address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    return Status::usage(fmt::format("--control: a socket's path has 1 to {} bytes, this one {}",
                                     sizeof address.sun_path - 1, path.size()));
  std::memcpy(address.sun_path, path.data(), path.size());
  return {};
}

/// Returns a socket connected to `address`, or -1 with errno. EAGAIN: the listener has accepted nobody for `patience`.
int callAt(const sockaddr_un &address, std::chrono::milliseconds patience) {
  int client = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval limit{patience.count() / 1000, patience.count() % 1000 * 1000};
  if (client >= 0)
    ::setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  if (client < 0 || ::connect(client, reinterpret_cast<const sockaddr *>(&address), sizeof address) == 0)
    return client;
  int error = errno;
  ::close(client);
  errno = error;
  return -1;
}

constexpr std::chrono::seconds kPatience{5};

constexpr const char *kAdaptsNot = "the run does not adapt: start it with --adapt";

} // namespace

Status ControlSocket::open(const std::string &at) {
  sockaddr_un address;
  Status status = addressOf(at, address);
  if (!status.ok())
    return status;
  struct stat found;
  if (::lstat(at.c_str(), &found) == 0) {
    if (!S_ISSOCK(found.st_mode))
      return Status::usage(fmt::format("--control: {} is there and is no socket", at));
    const int other = callAt(address, kPatience);
    const bool listens = other >= 0 || errno == EAGAIN;
    if (other >= 0)
      ::close(other);
    if (listens)
      return Status::usage(fmt::format("--control: a run listens at {} already", at));
    ::unlink(at.c_str()); // left by a run that was killed
  }
  listening = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  mode_t before = ::umask(0177);
  bool bound = listening >= 0 && ::bind(listening, reinterpret_cast<sockaddr *>(&address), sizeof address) == 0;
  int error = errno;
  ::umask(before);
  if (bound)
    path = at;
  if (bound && ::listen(listening, SOMAXCONN) == 0)
    return {};
  return Status::usage(fmt::format("--control: cannot listen at {}: {}", at, std::strerror(bound ? errno : error)));
}

void ControlSocket::closeInChild() {
  path.clear();
  ::close(listening);
  listening = -1;
}

ControlSocket::~ControlSocket() {
  if (!path.empty())
    ::unlink(path.c_str());
  if (listening >= 0)
    ::close(listening);
}

ControlServer::ControlServer(asio::io_context &io, const ControlSocket &socket, Controller &controller)
    : io(io), acceptor(io, asio::local::stream_protocol(), ::fcntl(socket.descriptor(), F_DUPFD_CLOEXEC, 0)),
      controller(controller), pause(io), heart(io) {
  acceptor.non_blocking(true);
  accept();
}

/// Accepts new clients. Those for whom there is no place wait in the socket's queue.
void ControlServer::accept() {
  acceptor.async_wait(asio::socket_base::wait_read, [this](std::error_code error) {
    if (error)
      return; // the server is gone
    bool full = isFull();
    while (full && showOutOldest())
      full = isFull();
    const int descriptor = full ? -1 : ::accept4(acceptor.native_handle(), nullptr, nullptr, SOCK_CLOEXEC);
    if (descriptor >= 0)
      admit(descriptor);
    if (descriptor >= 0 || (!full && (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR)))
      return accept();
    if (!std::exchange(warned, true))
      spdlog::warn("--control: a client waits: {}",
                   full ? "no place or descriptor is free (ulimit -n)" : std::strerror(errno));
    pause.expires_after(std::chrono::milliseconds(100));
    pause.async_wait([this](std::error_code early) {
      if (!early)
        accept();
    });
  });
}

/// Whether there is no place for another client. The system returns the lowest free descriptor, so all below it are in
/// use.
bool ControlServer::isFull() const {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const int lowest = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
  if (lowest >= 0)
    ::close(lowest);
  return clients.size() >= kClients || lowest < 0 || rlim_t(lowest) + kReserved >= limit.rlim_cur;
}

/// Closes the oldest client that has no request under way. False: there is none.
bool ControlServer::showOutOldest() {
  const auto oldest = std::ranges::find_if(clients, [](const Asker &each) { return !each->asks; });
  if (oldest == clients.end())
    return false;
  (*oldest)->channel->drop();
  clients.erase(oldest);
  return true;
}

void ControlServer::admit(int descriptor) {
  const Asker client = clients.emplace_back(std::make_shared<Client>());
  client->channel = std::make_shared<Channel>(io, descriptor, kBacklog);
  client->channel->start<messages::ToRun>(
      [this, weak = std::weak_ptr(client)](auto &&request) {
        if (const Asker self = weak.lock(); self && begin(self))
          hear(self, request);
      },
      [this, weak = std::weak_ptr(client)](const std::string &) {
        if (const Asker self = weak.lock())
          clients.remove(self);
      });
}

bool ControlServer::begin(const Asker &client) {
  if (client->asks || client->unread) {
    client->channel->refuse("a request before the last was answered");
    return false;
  }
  client->asks = true;
  client->readsPlans = false;
  beat();
  return true;
}

void ControlServer::deliver(const Asker &client, const Encoded &said) {
  client->asks = false;
  client->unread = true;
  client->channel->send(said, [client] { client->unread = false; });
}

void ControlServer::refuse(const Asker &client, const Status &status) {
  deliver(client, messages::encode(messages::Refused{int(status.code), status.message}));
}

/// Tells clients that wait for an answer that the run is alive.
void ControlServer::beat() {
  const bool due = std::ranges::any_of(clients, [](const Asker &each) { return each->asks; });
  if (!due || std::exchange(beating, true))
    return;
  heart.expires_after(kBeat);
  heart.async_wait([this](std::error_code error) {
    if (error)
      return;
    beating = false;
    for (const Asker &each : clients)
      if (each->asks && !std::exchange(each->beats, true))
        each->channel->send(messages::Alive{}, [each] { each->beats = false; });
    beat();
  });
}

/// Answers a request for a swap with the new epoch, or with the reason why there is none.
void ControlServer::conclude(const Asker &client, const Status &status, const std::optional<Epoch> &epoch) {
  if (!status.ok() || !epoch)
    return refuse(client, status);
  answer(
      client,
      {{"epoch", epoch->epoch}, {"epoch_from", epoch->from}, {"running", controller.swaps().nameOf(epoch->program)}});
}

void ControlServer::hear(const Asker &client, const messages::Swap &request) {
  Adaptation *adaptation = controller.adaptation();
  if (adaptation && adaptation->mode() != Adaptation::Mode::Off) // adaptation must not undo a swap by hand
    adaptation->set(Adaptation::Mode::Observe);
  controller.swaps().swap(request.variant,
                          [this, client](const Status &status, auto epoch) { conclude(client, status, epoch); });
}

void ControlServer::hear(const Asker &client, const messages::Load &request) {
  controller.swaps().load(request.path,
                          [this, client](const Status &status, auto epoch) { conclude(client, status, epoch); });
}

void ControlServer::hear(const Asker &client, const messages::LoadFor &request) {
  if (!controller.adaptation())
    return refuse(client, Status::input(kAdaptsNot));
  if (request.recuts && !controller.keepsCut().empty())
    return refuse(client, Status::input("layers cannot move: " + controller.keepsCut()));
  const auto use = request.recuts ? &Swaps::recut : &Swaps::offer;
  (controller.swaps().*use)(request.path, request.name, [this, client](const Status &status, auto) {
    if (!status.ok())
      return refuse(client, status);
    answer(client, {{"adapt", controller.adaptation()->status()}});
  });
}

void ControlServer::hear(const Asker &client, const messages::Adapt &request) {
  Adaptation *adaptation = controller.adaptation();
  const std::optional<Adaptation::Mode> mode = Adaptation::modeOf(request.mode);
  if (!adaptation)
    return refuse(client, Status::input(kAdaptsNot));
  if (!mode || *mode == Adaptation::Mode::Profile)
    return refuse(client, Status::usage(fmt::format("adapt: expected on, observe or off, found \"{}\"", request.mode)));
  adaptation->set(*mode);
  answer(client, controller.status());
}

void ControlServer::hear(const Asker &client, const messages::AskStatus &) { answer(client, controller.status()); }

void ControlServer::hear(const Asker &client, const messages::Stop &) {
  controller.stop("stop", [this, client](const Status &status) {
    if (!status.ok())
      return refuse(client, status);
    answer(client, {{"code", int(status.code)}, {"message", status.message}});
  });
}

void ControlServer::hear(const Asker &client, const messages::AskPlan &) {
  wantPlans.push_back(client);
  if (!writing)
    writePlans();
}

/// Encodes the plans on a thread of its own: a large plan takes a while, and permits must not wait. Clients that ask
/// meanwhile wait for the next encoding, as the plans may change.
void ControlServer::writePlans() {
  if (wantPlans.empty())
    return;
  const Adaptation *adaptation = controller.adaptation();
  const auto all = adaptation ? adaptation->plans() : Adaptation::Named{{"", controller.plan()}};
  Encoded same = all == plans ? said.lock() : nullptr;
  if (same)
    return deliverPlans(std::exchange(wantPlans, {}), same);
  std::erase_if(clients, [](const Asker &each) {
    const bool stale = each->unread && each->readsPlans;
    if (stale)
      each->channel->drop();
    return stale;
  });
  plans = all;
  writing = true;
  if (!writer)
    writer.emplace(1);
  asio::post(*writer, [this, all, asked = std::exchange(wantPlans, {})] {
    lowerPriority();
    Message written{{"plans", Message::array()}};
    for (const auto &[name, plan] : all)
      written["plans"].push_back({{"name", name}, {"plan", Message::binary(plan::encode(*plan))}});
    asio::post(io, [this, asked, made = messages::encode(messages::Done{std::move(written)})] {
      writing = false;
      said = made;
      deliverPlans(asked, made);
      writePlans();
    });
  });
}

void ControlServer::deliverPlans(const std::vector<Asker> &asked, const Encoded &all) {
  for (const Asker &each : asked) {
    each->readsPlans = true;
    deliver(each, all);
  }
}

Status askControl(const std::string &path, const Encoded &request, Message &answer,
                  std::chrono::milliseconds patience) {
  sockaddr_un address;
  Status status = addressOf(path, address);
  if (!status.ok())
    return status;
  const Status silent =
      Status::run(fmt::format("the run at {} did not answer within {:g} s: it is stopped, or busy with "
                              "{} other clients",
                              path, double(patience.count()) / 1000, ControlServer::kClients));
  int descriptor = callAt(address, patience);
  if (descriptor < 0 && errno == EAGAIN)
    return silent;
  if (descriptor < 0)
    return Status::run(fmt::format("no run listens at {}: {}", path, std::strerror(errno)));
  asio::io_context io;
  asio::steady_timer timer(io);
  auto channel = std::make_shared<Channel>(io, descriptor);
  status = Status::run("the run ended before it answered");
  const auto await = [&] {
    timer.expires_after(patience);
    timer.async_wait([&](std::error_code error) {
      if (error)
        return;
      status = silent;
      channel->drop();
    });
  };
  const auto conclude = [&](Status said) {
    timer.cancel();
    status = std::move(said);
    channel->close();
  };
  struct Answers {
    std::function<void()> wait;
    std::function<void(Status)> end;
    Message &answer;
    void operator()(messages::Alive &&) { wait(); }
    void operator()(messages::Refused &&refused) { end({Code(refused.code), refused.message}); }
    void operator()(messages::Done &&done) {
      answer = std::move(done.answer);
      end({});
    }
  };
  channel->start<messages::ToClient>(Answers{await, conclude, answer}, [&](const std::string &why) {
    timer.cancel();
    if (!why.empty())
      status = Status::run(fmt::format("the run at {} ended before it answered: {}", path, why));
  });
  channel->send(request);
  await();
  io.run();
  return status;
}

} // namespace pipec::runtime
