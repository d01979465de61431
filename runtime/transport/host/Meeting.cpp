// Handshake and meeting. Each end sends its Hello before it reads the other's and closes only after reading it, so both
// see the same difference and neither loses it to a reset.
#include "runtime/transport/host/Meeting.h"

#include <cstring>
#include <fmt/format.h>
#include <future>
#include <memory>
#include <netinet/tcp.h>
#include <sodium.h>

namespace pipec::runtime {

using asio::ip::tcp;

static constexpr auto kAwait = asio::use_awaitable;

static wire::Proof prove(const wire::Hello &prover, const wire::Hello &other, const std::array<uint8_t, 32> &secret) {
  static_assert(crypto_auth_BYTES == sizeof(wire::Proof) && crypto_auth_KEYBYTES == 32);
  std::array<unsigned char, 2 * sizeof(wire::Hello)> text;
  std::memcpy(text.data(), &prover, sizeof prover);
  std::memcpy(text.data() + sizeof prover, &other, sizeof other);
  wire::Proof proof;
  crypto_auth(proof.data(), text.data(), text.size(), secret.data());
  return proof;
}

// What both ends must agree on; the first difference is the message.
static Status compare(const wire::Hello &own, const wire::Hello &peer) {
  auto differ = [&](const char *what, const std::string &theirs, const std::string &ours) {
    return Status::run(
        fmt::format("{} differs: rank {} has {}, rank {} has {}", what, peer.rank, theirs, own.rank, ours));
  };
  auto numbers = [&](const char *what, uint32_t theirs, uint32_t ours) {
    return differ(what, std::to_string(theirs), std::to_string(ours));
  };
  if (peer.protocol != own.protocol)
    return numbers("the protocol version", peer.protocol, own.protocol);
  if (peer.job != own.job)
    return differ("the job id", wire::hex(peer.job.data(), 8), wire::hex(own.job.data(), 8));
  if (peer.world != own.world)
    return numbers("the world size", peer.world, own.world);
  if (peer.plan != own.plan)
    return differ("the plan", wire::hex(peer.plan.data(), 8), wire::hex(own.plan.data(), 8));
  return {};
}

asio::awaitable<Greeting> greet(tcp::socket &socket, const Identity &self) {
  wire::Hello own;
  own.protocol = self.protocol;
  own.world = uint32_t(self.world);
  own.rank = uint32_t(self.rank);
  own.job = self.job;
  own.plan = self.plan;
  randombytes_buf(own.nonce.data(), own.nonce.size());
  Greeting greeting;
  std::error_code error;
  auto lost = [&] {
    greeting.status =
        Status::run(fmt::format("rank {}: the connection closed during the handshake: {}", self.rank, error.message()));
    return greeting;
  };
  co_await asio::async_write(socket, asio::buffer(&own, sizeof own), asio::redirect_error(kAwait, error));
  if (error)
    co_return lost();
  wire::Hello peer;
  co_await asio::async_read(socket, asio::buffer(&peer, sizeof peer), asio::redirect_error(kAwait, error));
  greeting.stranger = bool(error) || peer.magic != wire::kMagic || peer.rank > uint32_t(INT32_MAX);
  if (error)
    co_return lost();
  if (greeting.stranger) {
    greeting.status = Status::run(fmt::format("rank {}: a connection that is not piperun's", self.rank));
    co_return greeting;
  }
  greeting.peer = int32_t(peer.rank);
  greeting.status = compare(own, peer);
  if (!greeting.status.ok())
    co_return greeting;

  wire::Proof proof = prove(own, peer, self.secret);
  co_await asio::async_write(socket, asio::buffer(proof), asio::redirect_error(kAwait, error));
  if (error)
    co_return lost();
  co_await asio::async_read(socket, asio::buffer(proof), asio::redirect_error(kAwait, error));
  if (error)
    co_return lost();
  wire::Proof due = prove(peer, own, self.secret);
  if (sodium_memcmp(proof.data(), due.data(), due.size()) != 0)
    greeting.status = Status::run(fmt::format("the secret differs: rank {}'s is not rank {}'s", peer.rank, own.rank));
  co_return greeting;
}

// A dead peer shows within 3 s even if the network just goes silent. The send buffer is left to the system: a fixed one
// stalls on delayed acknowledgements. Where the default congestion control paces (bbr), small messages would wait.
static void setOptions(tcp::socket &socket) {
  std::error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  auto set = [&](int option, int value) {
    setsockopt(socket.native_handle(), IPPROTO_TCP, option, &value, sizeof value);
  };
  set(TCP_KEEPIDLE, 1);
  set(TCP_KEEPINTVL, 1);
  set(TCP_KEEPCNT, 3);
  set(TCP_USER_TIMEOUT, 3000);
  setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
}

Status listenOnLoopback(tcp::acceptor &acceptor) {
  std::error_code error;
  tcp::endpoint endpoint(asio::ip::address_v4::loopback(), 0);
  acceptor.open(endpoint.protocol(), error);
  if (!error)
    acceptor.bind(endpoint, error);
  if (!error)
    acceptor.listen(asio::socket_base::max_listen_connections, error);
  return error ? Status::run("cannot listen on loopback: " + error.message()) : Status{};
}

namespace {

/// Shared by its coroutines: one may still sit in a handshake with a silent stranger when the meeting is over.
class Meeting : public std::enable_shared_from_this<Meeting> {
public:
  Meeting(const Identity &self, tcp::acceptor acceptor, const std::map<int32_t, tcp::endpoint> &peers)
      : self(self), acceptor(std::move(acceptor)), timer(this->acceptor.get_executor()), expected(peers) {}

  void begin(std::chrono::milliseconds deadline) {
    if (expected.empty())
      return finish({});
    if (deadline.count() > 0) {
      timer.expires_after(deadline);
      timer.async_wait([me = shared_from_this(), deadline](std::error_code error) {
        if (!error)
          me->finish(Status::run(fmt::format("rank {}: {} did not come to the meeting within {:g} s", me->self.rank,
                                             me->missing(), double(deadline.count()) / 1000)));
      });
    }
    for (const auto &[peer, endpoint] : expected)
      if (peer > self.rank)
        asio::co_spawn(acceptor.get_executor(), connect(shared_from_this(), peer, endpoint), asio::detached);
    asio::co_spawn(acceptor.get_executor(), accept(shared_from_this()), asio::detached);
  }

  std::promise<Status> done;
  Sockets sockets; // left alone once `done` is set

private:
  // A coroutine's parameters live in its frame: `me` keeps the object alive.
  static asio::awaitable<void> connect(std::shared_ptr<Meeting> me, int32_t peer, tcp::endpoint endpoint) {
    tcp::socket socket(me->acceptor.get_executor());
    std::error_code error;
    co_await socket.async_connect(endpoint, asio::redirect_error(kAwait, error));
    if (error) {
      me->finish(
          Status::run(fmt::format("rank {}: cannot connect to rank {}: {}", me->self.rank, peer, error.message())));
      co_return;
    }
    Greeting greeting = co_await greet(socket, me->self);
    if (greeting.status.ok() && greeting.peer != peer)
      greeting.status = Status::run(
          fmt::format("rank {}: reached rank {} where rank {} was expected", me->self.rank, greeting.peer, peer));
    me->arrived(peer, std::move(socket), std::move(greeting.status));
  }

  static asio::awaitable<void> accept(std::shared_ptr<Meeting> me) {
    while (!me->finished) {
      std::error_code error;
      tcp::socket socket = co_await me->acceptor.async_accept(asio::redirect_error(kAwait, error));
      if (me->finished)
        co_return;
      if (error == asio::error::connection_aborted)
        continue; // who called has hung up
      if (error) {
        me->finish(Status::run(fmt::format("rank {}: cannot accept a connection: {}", me->self.rank, error.message())));
        co_return;
      }
      asio::co_spawn(me->acceptor.get_executor(), welcome(me, std::move(socket)), asio::detached);
    }
  }

  static asio::awaitable<void> welcome(std::shared_ptr<Meeting> me, tcp::socket socket) {
    Greeting greeting = co_await greet(socket, me->self);
    if (greeting.stranger || me->finished)
      co_return;
    bool due = greeting.peer < me->self.rank && me->expected.count(greeting.peer) && !me->sockets.count(greeting.peer);
    if (greeting.status.ok() && !due)
      greeting.status =
          Status::run(fmt::format("rank {}: rank {} connected and was not expected", me->self.rank, greeting.peer));
    me->arrived(greeting.peer, std::move(socket), std::move(greeting.status));
  }

  void arrived(int32_t peer, tcp::socket socket, Status status) {
    if (finished)
      return;
    if (!status.ok())
      return finish(std::move(status));
    setOptions(socket);
    sockets.emplace(peer, std::move(socket));
    if (sockets.size() == expected.size())
      finish({});
  }

  void finish(Status status) {
    if (finished)
      return;
    finished = true;
    timer.cancel();
    std::error_code ignored;
    acceptor.close(ignored);
    done.set_value(std::move(status));
  }

  std::string missing() const {
    std::string text;
    for (const auto &[peer, endpoint] : expected)
      if (!sockets.count(peer))
        text += fmt::format("{}rank {}", text.empty() ? "" : ", ", peer);
    return text;
  }

  const Identity self;
  tcp::acceptor acceptor;
  asio::steady_timer timer;
  const std::map<int32_t, tcp::endpoint> expected;
  bool finished = false;
};

} // namespace

Status meet(const Identity &self, tcp::acceptor acceptor, const std::map<int32_t, tcp::endpoint> &peers,
            std::chrono::milliseconds deadline, Sockets &sockets) {
  auto executor = acceptor.get_executor();
  auto meeting = std::make_shared<Meeting>(self, std::move(acceptor), peers);
  std::future<Status> done = meeting->done.get_future();
  asio::post(executor, [meeting, deadline] { meeting->begin(deadline); });
  Status status = done.get();
  sockets = std::move(meeting->sockets);
  return status;
}

} // namespace pipec::runtime
