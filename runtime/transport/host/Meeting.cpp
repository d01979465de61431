#include "runtime/transport/host/Meeting.h"

#include "runtime/transport/host/Door.h"
#include "runtime/transport/host/Socket.h"

#include <fmt/format.h>
#include <future>
#include <memory>

namespace pipec::runtime {

using asio::ip::tcp;

static constexpr auto kAwait = asio::use_awaitable;
static constexpr std::chrono::milliseconds kRedial{20};

Status listenOnLoopback(tcp::acceptor &acceptor) {
  const std::error_code error = listenAt(acceptor, {asio::ip::address_v4::loopback(), 0});
  return error ? Status::run("cannot listen on loopback: " + error.message()) : Status{};
}

namespace {

/// One meeting. Its coroutines share it, since one may still be in a handshake with a silent stranger when it is over.
class Meeting : public std::enable_shared_from_this<Meeting> {
public:
  Meeting(const Identity &self, tcp::acceptor acceptor, const std::map<int32_t, tcp::endpoint> &peers)
      : self(self), timer(acceptor.get_executor()), door(std::make_shared<Door>(std::move(acceptor), self)),
        expected(peers) {}

  void begin(std::chrono::milliseconds deadline) {
    if (expected.empty())
      return finish({});
    if (deadline.count() > 0) {
      timer.expires_after(deadline);
      timer.async_wait([me = shared_from_this(), deadline](std::error_code error) {
        if (!error)
          me->finish(Status::run(fmt::format("{}: {} did not come to the meeting within {:g} s{}", me->self.name(),
                                             me->missing(), double(deadline.count()) / 1000, me->refused())));
      });
    }
    for (const auto &[peer, endpoint] : expected)
      if (peer > self.rank)
        asio::co_spawn(timer.get_executor(), connect(shared_from_this(), peer, endpoint), asio::detached);
    door->open([me = shared_from_this()](Greeting greeting,
                                         tcp::socket socket) { me->guest(std::move(greeting), std::move(socket)); },
               [me = shared_from_this()](Status status) { me->finish(std::move(status)); });
  }

  std::promise<Status> done;
  Sockets sockets; // does not change once `done` is set

  void finish(Status status) {
    if (finished)
      return;
    finished = true;
    timer.cancel();
    door->close();
    done.set_value(std::move(status));
  }

private:
  // A coroutine's parameters live in its frame: `me` keeps the object alive.
  static asio::awaitable<void> connect(std::shared_ptr<Meeting> me, int32_t peer, tcp::endpoint endpoint) {
    while (!me->finished) {
      tcp::socket socket(me->timer.get_executor());
      const std::error_code error = co_await connectTo(socket, endpoint);
      if (error) {
        me->finish(Status::run(
            fmt::format("{}: cannot connect to {}: {}", me->self.name(), me->self.nameOf(peer), error.message())));
        co_return;
      }
      Greeting greeting = co_await greet(socket, me->self, wire::Side::Dials);
      // A peer may close this connection because of a crowd of strangers (Door.h): call again. A peer that is gone
      // refuses the next call.
      if (greeting.lost) {
        asio::steady_timer pause(socket.get_executor(), kRedial);
        co_await pause.async_wait(kAwait);
        continue;
      }
      if (greeting.status.ok() && greeting.peer != peer)
        greeting.status = Status::run(fmt::format("{}: reached {} where {} was expected", me->self.name(),
                                                  me->self.nameOf(greeting.peer), me->self.nameOf(peer)));
      me->arrived(peer, std::move(socket), std::move(greeting));
      co_return;
    }
  }

  void guest(Greeting greeting, tcp::socket socket) {
    bool due = greeting.peer < self.rank && expected.count(greeting.peer) && !sockets.count(greeting.peer);
    if (greeting.status.ok() && !due)
      greeting.status =
          Status::run(fmt::format("{}: {} connected and was not expected", self.name(), self.nameOf(greeting.peer)));
    arrived(greeting.peer, std::move(socket), std::move(greeting));
  }

  void arrived(int32_t peer, tcp::socket socket, Greeting greeting) {
    if (finished)
      return;
    if (!greeting.status.ok())
      return finish(std::move(greeting.status));
    sockets.emplace(peer, Line(std::move(socket), std::move(greeting.session)));
    if (sockets.size() == expected.size())
      finish({});
  }

  std::string missing() const {
    std::string text;
    for (const auto &[peer, endpoint] : expected)
      if (!sockets.count(peer))
        text += fmt::format("{}{}", text.empty() ? "" : ", ", self.nameOf(peer));
    return text;
  }

  /// A note for the message about missing ranks: a stranger that came may be one of them, started wrongly.
  std::string refused() const {
    return door->refused().empty() ? "" : fmt::format("; one that came was refused: {}", door->refused());
  }

  const Identity self;
  asio::steady_timer timer;
  const std::shared_ptr<Door> door;
  const std::map<int32_t, tcp::endpoint> expected;
  bool finished = false;
};

} // namespace

Status meet(const Identity &self, tcp::acceptor acceptor, const std::map<int32_t, tcp::endpoint> &peers,
            std::chrono::milliseconds deadline, Sockets &sockets, Failure *failure) {
  auto executor = acceptor.get_executor();
  auto meeting = std::make_shared<Meeting>(self, std::move(acceptor), peers);
  std::future<Status> done = meeting->done.get_future();
  asio::post(executor, [meeting, deadline] { meeting->begin(deadline); });
  if (failure)
    failure->listen([executor, meeting = std::weak_ptr(meeting), failure] {
      asio::post(executor, [meeting, status = failure->status()] {
        if (const auto still = meeting.lock())
          still->finish(status);
      });
    });
  Status status = done.get();
  sockets = std::move(meeting->sockets);
  return status;
}

} // namespace pipec::runtime
