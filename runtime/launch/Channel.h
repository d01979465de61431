// The line between the controller and a process of the run, or a client of the control socket: small messages both ways
// on a stream socket, each a header and a CBOR object with a "type", sealed where it leaves the machine. What is said
// on it, in this order:
//   process: listening {endpoint} · controller: table {endpoints, first, files, boot} · process: ready · controller:
//   start {at} and permit {until, epoch, program, last} … · process: progress {step} …, saved {step, file, …} …,
//   report {…} · controller: finish;
// at any time after start, controller: prepare {program, plan}, drop {program} · process: prepared {program, code,
//   message}, stop {why}; and at any time, process: failed {message} and controller: end {message}, process: clock and
//   controller: clock {now}.
// A client says load {path}, swap {variant}, status or stop, and hears done {…} or refused {code, message}.
#pragma once

#include "runtime/transport/Seal.h"

#include <asio.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <vector>

namespace pipec::runtime {

using Message = nlohmann::json;

class Channel : public std::enable_shared_from_this<Channel> {
public:
  using Socket = asio::generic::stream_protocol::socket; // made of any stream socket

  /// A type of message and its most bytes.
  struct Kind {
    std::string_view type;
    uint64_t most;
  };
  /// The kinds, by the number in a header; the first stands for all other types.
  static std::span<const Kind> kinds();

  /// Sent before each message: its kind and its size.
  struct Header {
    uint32_t kind = 0;
    uint32_t reserved = 0;
    uint64_t size = 0; // of the message
  };
  /// A message is sealed in pieces of at most so many bytes, the first together with its header.
  static constexpr size_t kPiece = 1 << 20;

  /// Everything runs on the thread of the socket's io_context.
  explicit Channel(Socket socket, Session session = {}) : socket(std::move(socket)), session(std::move(session)) {}
  /// An end of a socket pair.
  Channel(asio::io_context &io, int descriptor)
      : Channel(Socket(io, asio::generic::stream_protocol(AF_UNIX, 0), descriptor)) {}

  /// Exactly one of the two is called for whatever comes; `onClosed` once, last: with why, or nothing if the other end
  /// just closed.
  void start(std::function<void(Message)> onMessage, std::function<void(std::string why)> onClosed);

  /// From any thread; `sent` is called once the message has left, or cannot.
  void send(const Message &message, std::function<void()> sent = {}) { send(encode(message), std::move(sent)); }

  /// The same of a message that goes to several, encoded once.
  struct Body {
    Header header;
    std::vector<uint8_t> bytes;
  };
  using Encoded = std::shared_ptr<const Body>;
  static Encoded encode(const Message &message);
  void send(Encoded message, std::function<void()> sent = {});

  /// From any thread; the other end hears all that was sent before.
  void close();

private:
  struct Outgoing {
    Encoded body;
    std::function<void()> sent;
    size_t written = 0; // of the body
  };
  static asio::awaitable<void> read(std::shared_ptr<Channel> me);
  asio::awaitable<std::string> readAll();
  asio::awaitable<std::string> readSealed(std::vector<uint8_t> &bytes, size_t size);
  void appendSealed(const void *text, size_t size);
  void writeNext();

  Socket socket;
  Session session;
  std::vector<uint8_t> piece; // being written
  std::function<void(Message)> onMessage;
  std::function<void(std::string)> onClosed;
  std::deque<Outgoing> outbox;
  bool ended = false; // the other end has closed
  bool closing = false;
};

} // namespace pipec::runtime
