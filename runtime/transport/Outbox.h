// What one end of a connection has still to send, in order. Heads and bodies are sealed; payloads go as they are, from
// where they lie. The owner writes what next() gives, and says when that has left. What waits has a bound: an end that
// does not read costs no more than that.
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
  /// A body is sealed in pieces of at most so many bytes.
  static constexpr size_t kPiece = 1 << 20;

  /// `most`: how many bytes of heads and bodies may wait behind what is being written.
  Outbox(Seal seal, uint64_t most) : seal(std::move(seal)), most(most) {}

  /// Queues a head of at most kHead bytes, with a body (null: none) and a payload that stays as it is until it has
  /// left. `written` is the owner's, to call then. False, and nothing is queued: too much waits.
  bool push(std::span<const uint8_t> head, std::shared_ptr<const Bytes> body, Payload payload, Written written);

  bool empty() const { return entries.empty(); }
  size_t size() const { return entries.size(); }

  /// What to write now; it stays where it is until wrote().
  std::span<const asio::const_buffer> next();

  /// What next() gave has left: the callback of an entry of which that was the last. None: there is more of it.
  std::optional<Written> wrote();
  /// Nothing of the first entry will leave: its callback.
  Written giveUp();

  /// Seals a head and a body now, ahead of whatever waits. Not while an entry is half written.
  std::span<const uint8_t> sealed(std::span<const uint8_t> head, std::span<const uint8_t> body);

private:
  struct Entry {
    std::array<uint8_t, kHead> head;
    size_t headSize = 0;
    std::shared_ptr<const Bytes> body;
    Payload payload;
    Written written;
    size_t done = 0; // bytes of the body
    size_t bodySize() const { return body ? body->size() : 0; }
  };
  void append(std::span<const uint8_t> text);

  Seal seal;
  const uint64_t most;
  uint64_t waiting = 0; // bytes of heads and bodies, but for the first entry's
  std::deque<Entry> entries;
  Bytes piece;     // the sealed bytes that are being written
  Payload buffers; // all that is being written
};

} // namespace pipec::runtime
