// Each end sends its Hello before it reads the other's and closes only after reading it, so both see the same
// difference and neither loses it to a reset. A proof is over both Hellos, each of which has a nonce and says which end
// its sender is: what one end says can be given back neither to it nor to another.
#include "runtime/transport/host/Handshake.h"

#include <cstring>
#include <fmt/format.h>
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

static Status differ(const char *what, const wire::Hello &peer, const std::string &theirs, const wire::Hello &own,
                     const std::string &ours) {
  return Status::run(
      fmt::format("{} differs: rank {} has {}, rank {} has {}", what, peer.rank, theirs, own.rank, ours));
}

static Status differ(const char *what, const wire::Hello &peer, uint32_t theirs, const wire::Hello &own,
                     uint32_t ours) {
  return differ(what, peer, std::to_string(theirs), own, std::to_string(ours));
}

// What two processes of one job must agree on; the first difference is the message.
static Status compare(const wire::Hello &own, const wire::Hello &peer) {
  if (peer.world != own.world)
    return differ("the world size", peer, peer.world, own, own.world);
  if (peer.plan != own.plan)
    return differ("the plan", peer, wire::hex(peer.plan.data(), 8), own, wire::hex(own.plan.data(), 8));
  return {};
}

asio::awaitable<Greeting> greet(tcp::socket &socket, const Identity &self, wire::Side side) {
  wire::Hello own;
  own.protocol = self.protocol;
  own.world = uint32_t(self.world);
  own.rank = uint32_t(self.rank);
  own.side = side;
  own.job = self.job;
  own.plan = self.plan;
  randombytes_buf(own.nonce.data(), own.nonce.size());
  Greeting greeting;
  std::error_code error;
  auto lost = [&] {
    greeting.lost = true;
    greeting.status =
        Status::run(fmt::format("rank {}: the connection closed during the handshake: {}", self.rank, error.message()));
    return greeting;
  };
  co_await asio::async_write(socket, asio::buffer(&own, sizeof own), asio::redirect_error(kAwait, error));
  if (error)
    co_return lost();
  wire::Hello peer;
  co_await asio::async_read(socket, asio::buffer(&peer, sizeof peer), asio::redirect_error(kAwait, error));
  if (error)
    co_return lost();
  if (peer.magic != wire::kMagic || peer.rank > uint32_t(INT32_MAX) || peer.side == side) {
    greeting.status = Status::run(fmt::format("rank {}: a connection that is not piperun's", self.rank));
    co_return greeting;
  }
  greeting.peer = int32_t(peer.rank);
  if (peer.protocol != own.protocol) { // what follows may mean something else to the other end
    greeting.status = differ("the protocol version", peer, peer.protocol, own, own.protocol);
    co_return greeting;
  }

  wire::Proof proof = prove(own, peer, self.secret);
  co_await asio::async_write(socket, asio::buffer(proof), asio::redirect_error(kAwait, error));
  if (error)
    co_return lost();
  co_await asio::async_read(socket, asio::buffer(proof), asio::redirect_error(kAwait, error));
  if (error)
    co_return lost();
  wire::Proof due = prove(peer, own, self.secret);
  if (peer.job != own.job) {
    greeting.status = differ("the job id", peer, wire::hex(peer.job.data(), 8), own, wire::hex(own.job.data(), 8));
  } else if (sodium_memcmp(proof.data(), due.data(), due.size()) != 0) {
    greeting.status = Status::run(fmt::format("the secret differs: rank {}'s is not rank {}'s", peer.rank, own.rank));
  } else {
    greeting.stranger = false;
    greeting.status = compare(own, peer);
  }
  co_return greeting;
}

} // namespace pipec::runtime
