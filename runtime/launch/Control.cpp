#include "runtime/launch/Control.h"

#include "runtime/launch/Prepare.h"
#include "runtime/plan/Write.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

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

/// A socket connected to `address`; -1 with errno if nobody listens there.
int connectTo(const sockaddr_un &address) {
  int client = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (client < 0 || ::connect(client, reinterpret_cast<const sockaddr *>(&address), sizeof address) == 0)
    return client;
  int error = errno;
  ::close(client);
  errno = error;
  return -1;
}

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
    if (int other = connectTo(address); other >= 0) {
      ::close(other);
      return Status::usage(fmt::format("--control: a run listens at {} already", at));
    }
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
    : acceptor(io, asio::local::stream_protocol(), ::dup(socket.descriptor())), controller(controller) {
  accept();
}

void ControlServer::accept() {
  acceptor.async_accept([this](std::error_code error, asio::local::stream_protocol::socket socket) {
    if (error == asio::error::operation_aborted)
      return;
    if (!error) {
      auto client = std::make_shared<Channel>(Channel::Socket(std::move(socket)));
      client->start(
          [this, weak = std::weak_ptr(client)](const Message &message) {
            if (auto self = weak.lock())
              hear(self, message);
          },
          [](const std::string &) {});
    }
    accept();
  });
}

void ControlServer::hear(const std::shared_ptr<Channel> &client, const Message &message) {
  std::string type = message.value("type", "");
  auto refuse = [client](const Status &status) {
    client->send({{"type", "refused"}, {"code", int(status.code)}, {"message", status.message}});
  };
  auto done = [this, client, refuse](const Status &status, std::optional<Epoch> epoch) {
    if (!status.ok() || !epoch)
      return refuse(status);
    client->send({{"type", "done"},
                  {"epoch", epoch->epoch},
                  {"epoch_from", epoch->from},
                  {"running", controller.swaps().nameOf(epoch->program)}});
  };
  Adaptation *adaptation = controller.adaptation();
  if (type == "swap") {
    if (adaptation && adaptation->mode() != Adaptation::Mode::Off) // a swap by hand stays
      adaptation->set(Adaptation::Mode::Observe);
    controller.swaps().swap(message.value("variant", ""), done);
  } else if (type == "adapt") {
    adapt(client, message.value("mode", ""));
  } else if (type == "offer") {
    if (!adaptation)
      return refuse(Status::input(kAdaptsNot));
    const bool recuts = message.value("recuts", false);
    if (recuts && !controller.keepsCut().empty())
      return refuse(Status::input("layers cannot move: " + controller.keepsCut()));
    const auto use = recuts ? &Swaps::recut : &Swaps::offer;
    (controller.swaps().*use)(message.value("path", ""), message.value("name", ""),
                              [this, client, refuse](const Status &status, auto) {
                                if (!status.ok())
                                  return refuse(status);
                                client->send({{"type", "done"}, {"adapt", Message(controller.adaptation()->status())}});
                              });
  } else if (type == "plan") {
    plans(client);
  } else if (type == "load") {
    controller.swaps().load(message.value("path", ""), done);
  } else if (type == "stop") {
    controller.stop("stop", [client](const Status &status) {
      client->send(
          {{"type", status.ok() ? "done" : "refused"}, {"code", int(status.code)}, {"message", status.message}});
    });
  } else if (type == "status") {
    Message answer = controller.status();
    answer["type"] = "done";
    client->send(answer);
  } else {
    refuse(Status::usage(fmt::format("\"{}\" is no request", type)));
  }
}

void ControlServer::adapt(const std::shared_ptr<Channel> &client, const std::string &name) {
  Adaptation *adaptation = controller.adaptation();
  const std::optional<Adaptation::Mode> mode = Adaptation::modeOf(name);
  Status status;
  if (!adaptation)
    status = Status::input(kAdaptsNot);
  else if (!mode || *mode == Adaptation::Mode::Profile)
    status = Status::usage(fmt::format("adapt: expected on, observe or off, found \"{}\"", name));
  if (!status.ok())
    return client->send({{"type", "refused"}, {"code", int(status.code)}, {"message", status.message}});
  adaptation->set(*mode);
  Message answer = controller.status();
  answer["type"] = "done";
  client->send(answer);
}

/// Writing a large plan takes a while, for which permits do not wait.
void ControlServer::plans(const std::shared_ptr<Channel> &client) {
  if (!writer)
    writer.emplace(1);
  const Adaptation *adaptation = controller.adaptation();
  auto all = adaptation ? adaptation->plans() : Adaptation::Named{{"", controller.plan()}};
  asio::post(*writer, [client, all = std::move(all)] {
    lowerPriority();
    Message answer{{"type", "done"}, {"plans", Message::array()}};
    for (const auto &[name, plan] : all)
      answer["plans"].push_back({{"name", name}, {"plan", Message::binary(plan::encode(*plan))}});
    client->send(answer);
  });
}

Status askControl(const std::string &path, const Message &request, Message &answer) {
  sockaddr_un address;
  Status status = addressOf(path, address);
  if (!status.ok())
    return status;
  int descriptor = connectTo(address);
  if (descriptor < 0)
    return Status::run(fmt::format("no run listens at {}: {}", path, std::strerror(errno)));
  asio::io_context io;
  auto channel = std::make_shared<Channel>(io, descriptor);
  bool answered = false;
  channel->start(
      [&](Message message) {
        answered = true;
        answer = std::move(message);
        channel->close();
      },
      [](const std::string &) {});
  channel->send(request);
  io.run();
  if (!answered)
    return Status::run("the run ended before it answered");
  if (answer.value("type", "") == "done")
    return {};
  return {Code(answer.value("code", int(Code::Run))), answer.value("message", "")};
}

} // namespace pipec::runtime
