// The cryptography of a connection, all of it libsodium's: a secret that people type is stretched into a key, two ends
// agree on keys that die with the connection, and what they say to each other is sealed, so that nobody in between can
// read it, change it, repeat it or leave some of it out unnoticed. SECURITY.md says what this is worth.
#pragma once

#include "runtime/plan/Status.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace pipec::runtime {

using Key = std::array<uint8_t, 32>;

/// Argon2id with `job` as its salt: takes about a tenth of a second and 64 MiB, also for whoever guesses secrets.
Status stretch(const std::string &secret, const std::array<uint8_t, 16> &job, Key &key);

/// One direction of a connection. Each message is sealed under the next number, so both ends must come to the messages
/// in the same order. A seal cannot be copied, since no number may be used twice.
class Seal {
public:
  /// Seals nothing: for sockets that never leave the process or the machine.
  Seal() = default;
  explicit Seal(const Key &key) : key(key), sealing(true) {}
  Seal(Seal &&) = default;
  Seal &operator=(Seal &&) = default;

  /// How many bytes longer a sealed message is.
  size_t extra() const;
  /// Seals the message that fills all of `bytes` but the last extra().
  void close(std::span<uint8_t> bytes);
  /// The reverse; false: these are not the bytes that the other end has sealed as its next message.
  bool open(std::span<uint8_t> bytes);

private:
  Key key{};
  bool sealing = false;
  uint64_t number = 0;
};

/// Both directions, as one end sees them.
struct Session {
  Seal out, in;
};

/// What both ends work out, and nobody else can: what each says to prove that it holds the secret, and the keys.
struct Agreement {
  Key callerProof{}, listenerProof{};
  Session session;
};

/// One end's part in agreeing on keys: a key pair that is used once.
class Exchange {
public:
  Exchange();
  ~Exchange();
  Exchange(const Exchange &) = delete;

  const Key &publicKey() const { return ownPublic; }

  /// `transcript`: all that both have said before, the caller's first. Returns false if `peerPublic` is no key.
  bool agree(bool caller, const Key &peerPublic, const Key &secret, std::span<const uint8_t> transcript,
             Agreement &agreement) const;

private:
  Key ownPublic{}, ownSecret{};
};

} // namespace pipec::runtime
