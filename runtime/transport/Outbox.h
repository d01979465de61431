// An outbox holds what one end of a connection has still to send, in order. Heads and bodies are sealed; payloads are
// sent unsealed, directly from their memory. The owner writes what next() returns, and calls wrote() when that has been
// sent. The bytes that may wait are bounded, so a peer that does not read costs no more memory than that.
#pragma once

#include "runtime/transport/Seal.h"

#include <array>
#include <asio.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace pipec::runtime {

class Outbox {
public:
  using Bytes = std::vector<uint8_t>;
  using Payload = std::vector<asio::const_buffer>;
  using Written = std::function<void()>;

  static constexpr size_t kHead = 112;
  /// The most bytes of a body that are sealed at once.
  static constexpr size_t kPiece = 1 << 20;

  /// `most`: bytes of heads and bodies that may wait behind what is being written.
  Outbox(Seal seal, uint64_t most) : seal(std::move(seal)), most(most) {}

  /// Queues a head of at most kHead bytes, with a body (null: none) and a payload whose memory must not change until it
  /// has been sent. `written`: the owner's callback for that time. False, and nothing is queued: too much waits.
  bool push(std::span<const uint8_t> head, std::shared_ptr<const Bytes> body, Payload payload, Written written);

  bool empty() const { return entries.empty(); }
  size_t size() const { return entries.size(); }

  /// What to write now; the memory stays valid until wrote().
  std::span<const asio::const_buffer> next();

  /// To call when what next() returned has been sent. Returns the callback of the entry if that was its last part;
  /// none: more of it is to be sent.
  std::optional<Written> wrote();
  /// Gives up the first entry, of which nothing more will be sent, and returns its callback.
  Written giveUp();

  /// Seals a head and a body now, ahead of everything that waits. Not while an entry is half written.
  std::span<const uint8_t> sealed(std::span<const uint8_t> head, std::span<const uint8_t> body);

private:
  struct Entry {
    std::array<uint8_t, kHead> head;
    size_t headSize = 0;
    std::shared_ptr<const Bytes> body;
    Payload payload;
    Written written;
    size_t done = 0; // bytes of the body that are done
    size_t bodySize() const { return body ? body->size() : 0; }
  };
  void append(std::span<const uint8_t> text);

  Seal seal;
  const uint64_t most;
  uint64_t waiting = 0; // bytes of heads and bodies, without those of the first entry
  std::deque<Entry> entries;
  Bytes piece;     // the sealed bytes that are being written
  Payload buffers; // everything that is being written
};

} // namespace pipec::runtime
