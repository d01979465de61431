// An end that finds a difference must not close at once. It first says all that the other end needs to find the
// difference too, and reads all that the other end says. So both name the difference, and a reset connection hides it
// from neither.
#include "runtime/transport/host/Handshake.h"

#include <cstring>
#include <fmt/format.h>
#include <sodium.h>

namespace pipec::runtime {

using asio::ip::tcp;

namespace {

constexpr auto kAwait = asio::use_awaitable;

/// One handshake. Each part returns whether the handshake goes on; if not, `greeting` says why.
class Handshake {
public:
  Handshake(tcp::socket &socket, const Identity &self, wire::Side side);
  asio::awaitable<Greeting> run();

private:
  asio::awaitable<bool> exchangeHellos();
  asio::awaitable<bool> exchangeProofs();
  asio::awaitable<bool> exchangeTerms();
  asio::awaitable<bool> say(asio::const_buffer what);
  asio::awaitable<bool> hear(asio::mutable_buffer what);

  bool refuse(std::string message);
  bool differ(const char *what, const std::string &theirs, const std::string &ours);
  bool secretDiffers();
  std::string callerName() const;
  std::string listenerName() const;
  bool dials() const { return own.side == wire::Side::Dials; }

  tcp::socket &socket;
  const Identity &self;
  const Exchange exchange;
  wire::Hello own, peer;
  Agreement agreement;
  Greeting greeting;
};

Handshake::Handshake(tcp::socket &socket, const Identity &self, wire::Side side) : socket(socket), self(self) {
  own.protocol = self.protocol;
  own.guarded = self.guarded;
  own.rank = uint32_t(self.rank);
  own.side = side;
  own.job = self.job;
  own.key = exchange.publicKey();
  randombytes_buf(own.nonce.data(), own.nonce.size());
}

asio::awaitable<Greeting> Handshake::run() {
  bool on = co_await exchangeHellos();
  if (on)
    on = co_await exchangeProofs();
  if (on)
    co_await exchangeTerms();
  co_return std::move(greeting);
}

/// A listener says nothing to an end that does not speak the protocol.
asio::awaitable<bool> Handshake::exchangeHellos() {
  if (dials() && !co_await say(asio::buffer(&own, sizeof own)))
    co_return false;
  if (!co_await hear(asio::buffer(&peer, sizeof peer)))
    co_return false;
  if (peer.magic != wire::kMagic || peer.rank > uint32_t(INT32_MAX) || peer.side == own.side)
    co_return refuse(fmt::format("{}: a connection that is not piperun's", self.name()));
  greeting.peer = int32_t(peer.rank);
  greeting.sameJob = peer.job == own.job;
  if (!dials() && !co_await say(asio::buffer(&own, sizeof own)))
    co_return false;
  if (peer.protocol != own.protocol)
    co_return differ("the protocol version", std::to_string(peer.protocol), std::to_string(own.protocol));
  if (peer.job != own.job)
    co_return differ("the job id", wire::hex(peer.job.data(), 8), wire::hex(own.job.data(), 8));
  if (bool(peer.guarded) != self.guarded) {
    auto text = [](bool guarded) { return guarded ? "one" : "none (--no-secret)"; };
    co_return differ("the secret", text(peer.guarded), text(self.guarded));
  }
  co_return true;
}

asio::awaitable<bool> Handshake::exchangeProofs() {
  std::array<uint8_t, 2 * sizeof(wire::Hello)> transcript;
  std::memcpy(transcript.data(), dials() ? &own : &peer, sizeof own);
  std::memcpy(transcript.data() + sizeof own, dials() ? &peer : &own, sizeof own);
  if (!exchange.agree(dials(), peer.key, self.secret, transcript, agreement))
    co_return refuse(fmt::format("{}: a connection that is not piperun's", self.name()));
  wire::Answer answer;
  if (dials()) {
    if (!co_await say(asio::buffer(agreement.callerProof)) || !co_await hear(asio::buffer(&answer, sizeof answer)))
      co_return false;
    co_return (answer.verdict == wire::Verdict::Accepted &&
               sodium_memcmp(answer.proof.data(), agreement.listenerProof.data(), answer.proof.size()) == 0) ||
        secretDiffers();
  }
  wire::Proof proof;
  if (!co_await hear(asio::buffer(proof)))
    co_return false;
  const bool right = sodium_memcmp(proof.data(), agreement.callerProof.data(), proof.size()) == 0;
  if (right)
    answer = {wire::Verdict::Accepted, agreement.listenerProof};
  if (!co_await say(asio::buffer(&answer, sizeof answer)))
    co_return false;
  co_return right || secretDiffers();
}

/// Compares what both must agree on; the message is about the first difference.
asio::awaitable<bool> Handshake::exchangeTerms() {
  wire::Terms ours, theirs;
  ours.steps = self.steps;
  ours.world = uint32_t(self.world);
  ours.plan = self.plan;
  Session &session = agreement.session;
  std::vector<uint8_t> sealed(sizeof ours + session.out.extra());
  std::memcpy(sealed.data(), &ours, sizeof ours);
  session.out.close(sealed);
  if (!co_await say(asio::buffer(sealed)) || !co_await hear(asio::buffer(sealed)))
    co_return false;
  if (!session.in.open(sealed))
    co_return refuse(fmt::format("what {} said to {} was changed on the way", dials() ? listenerName() : callerName(),
                                 dials() ? callerName() : listenerName()));
  greeting.stranger = false;
  greeting.session = std::move(session);
  std::memcpy(&theirs, sealed.data(), sizeof theirs);
  if (theirs.world != ours.world)
    co_return differ("the world size", std::to_string(theirs.world), std::to_string(ours.world));
  if (theirs.plan != ours.plan)
    co_return differ("the plan", wire::hex(theirs.plan.data(), 8), wire::hex(ours.plan.data(), 8));
  if (theirs.steps != ours.steps)
    co_return differ("the number of steps (--steps)", std::to_string(theirs.steps), std::to_string(ours.steps));
  co_return true;
}

asio::awaitable<bool> Handshake::say(asio::const_buffer what) {
  std::error_code error;
  co_await asio::async_write(socket, what, asio::redirect_error(kAwait, error));
  greeting.lost = bool(error);
  co_return !error ||
      refuse(fmt::format("{}: the connection closed during the handshake: {}", self.name(), error.message()));
}

asio::awaitable<bool> Handshake::hear(asio::mutable_buffer what) {
  std::error_code error;
  co_await asio::async_read(socket, what, asio::redirect_error(kAwait, error));
  greeting.lost = bool(error);
  co_return !error ||
      refuse(fmt::format("{}: the connection closed during the handshake: {}", self.name(), error.message()));
}

bool Handshake::refuse(std::string message) {
  greeting.status = Status::run(std::move(message));
  return false;
}

/// The message has the caller's value first at both ends, so that both say the same.
bool Handshake::differ(const char *what, const std::string &theirs, const std::string &ours) {
  return refuse(fmt::format("{} differs: {} has {}, {} has {}", what, callerName(), dials() ? ours : theirs,
                            listenerName(), dials() ? theirs : ours));
}

/// The message says that secrets differ, and nothing else about them.
bool Handshake::secretDiffers() {
  return refuse(
      fmt::format("the secret differs: {} and {} have not the same PIPEC_SECRET", callerName(), listenerName()));
}

/// The caller's rank and address. Its port says nothing, since the system has chosen it.
std::string Handshake::callerName() const {
  std::error_code ignored;
  const tcp::endpoint at = dials() ? socket.local_endpoint(ignored) : socket.remote_endpoint(ignored);
  return fmt::format("{} at {}", self.nameOf(int32_t(dials() ? own.rank : peer.rank)), at.address().to_string());
}

std::string Handshake::listenerName() const {
  std::error_code ignored;
  const tcp::endpoint at = dials() ? socket.remote_endpoint(ignored) : socket.local_endpoint(ignored);
  const std::string address = at.address().to_string();
  return fmt::format("{} at {}:{}", self.nameOf(int32_t(dials() ? peer.rank : own.rank)),
                     at.address().is_v6() ? "[" + address + "]" : address, at.port());
}

} // namespace

asio::awaitable<Greeting> greet(tcp::socket &socket, const Identity &self, wire::Side side) {
  Handshake handshake(socket, self, side);
  co_return co_await handshake.run();
}

} // namespace pipec::runtime
