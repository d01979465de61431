// The cryptography of a connection, all from libsodium. A typed secret is stretched into a key. The two ends of a
// connection agree on keys for this connection alone. Messages are sealed: nobody in between can read them, nor change,
// repeat or leave out any unnoticed. SECURITY.md says against whom this helps.
#pragma once

#include "runtime/plan/Status.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace pipec::runtime {

using Key = std::array<uint8_t, 32>;

/// Makes a key from a secret with Argon2id, with `job` as the salt. This takes about a tenth of a second and 64 MiB,
/// also for an attacker who guesses secrets. Code::Run without that memory.
Status stretch(const std::string &secret, const std::array<uint8_t, 16> &job, Key &key);

/// Seals or opens the messages of one direction of a connection. Each is sealed under the next number, so both ends
/// must take the messages in the same order. A Seal cannot be copied, since no number may be used twice.
class Seal {
public:
  /// Without a key, nothing is sealed: for sockets within a process or a machine.
  Seal() = default;
  explicit Seal(const Key &key) : key(key), sealing(true) {}
  Seal(Seal &&) = default;
  Seal &operator=(Seal &&) = default;

  /// How many bytes longer a sealed message is.
  size_t extra() const;
  /// Seals in place the message that fills `bytes` up to the last extra() bytes.
  void close(std::span<uint8_t> bytes);
  /// Opens a sealed message in place. False if `bytes` are not what the other end has sealed as its next message.
  bool open(std::span<uint8_t> bytes);

private:
  Key key{};
  bool sealing = false;
  uint64_t number = 0;
};

/// The seals of both directions, as one end sees them.
struct Session {
  Seal out, in;
};

/// What both ends of a connection compute, and nobody else can: the proofs that they hold the secret, and the keys.
struct Agreement {
  Key callerProof{}, listenerProof{};
  Session session;
};

/// One end's part in the key exchange. Its key pair is for one connection.
class Exchange {
public:
  Exchange();
  ~Exchange();
  Exchange(const Exchange &) = delete;

  const Key &publicKey() const { return ownPublic; }

  /// Computes the agreement. `transcript`: everything that both ends have said before, the caller's part first. False
  /// if `peerPublic` is no key.
  bool agree(bool caller, const Key &peerPublic, const Key &secret, std::span<const uint8_t> transcript,
             Agreement &agreement) const;

private:
  Key ownPublic{}, ownSecret{};
};

} // namespace pipec::runtime
