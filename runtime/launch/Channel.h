// Messages between the controller and a process of the run, or between the controller and a client of the control
// socket (`piperun --control`). They go both ways on a stream socket. Each is a header and a CBOR object with a "type";
// it is sealed if it leaves the machine.
//
// Controller and process say, in this order:
//   process:    listening {address, port}
//   controller: table {endpoints, first, files, boot}
//   process:    ready
//   controller: start {at, since_1970}, permit {until, epoch, program, last, level} …
//   process:    progress {step, needs} …, saved {step, name, bytes, hash, events} …,
//               (where it has nothing to do: waits; and once the others are done, the controller: rest) report {…}
//   controller: finish {report}
// at any time after start:
//   controller: prepare {program, plan}, drop {program, count}, measure {round},
//               decision {at, step, from, to, policy, why}
//   process:    prepared {program, code, message}, measured {round, samples, steps}, stop {why}
// of a host, at any time after start:
//   process:    put {key, text}, swap {variant}, finishes {step}
//   controller: text {key, text}, swapped {code, message, from}, underway {step}
// at any time:
//   process:    failed {message}, clock
//   controller: end {message}, clock {now}
//
// A client says load {path}, offer {path, name}, swap {variant}, adapt {mode}, plan, status or stop. The controller
// answers done {…} or refused {code, message}.
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

/// With this begins what a rank says of a failure that it was told of; the cause follows.
inline constexpr std::string_view kEndedByController = "the controller ended the run: ";

class Channel : public std::enable_shared_from_this<Channel> {
public:
  using Socket = asio::generic::stream_protocol::socket; // any stream socket

  /// A type of message, and the most bytes that a message of it may have.
  struct Kind {
    std::string_view type;
    uint64_t most;
  };
  /// All kinds; Header::kind is an index of them. The first stands for all types that are not listed.
  static std::span<const Kind> kinds();

  /// Sent before each message.
  struct Header {
    uint32_t kind = 0;
    uint32_t reserved = 0;
    uint64_t size = 0; // bytes of the message
  };
  /// A message is sealed in pieces of at most so many bytes. Its header is sealed before them.
  static constexpr size_t kPiece = 1 << 20;

  /// All callbacks are called on the thread of the socket's io_context. Without keys in `session`, nothing is sealed.
  explicit Channel(Socket socket, Session session = {}) : socket(std::move(socket)), session(std::move(session)) {}
  /// Over one end of a socket pair.
  Channel(asio::io_context &io, int descriptor)
      : Channel(Socket(io, asio::generic::stream_protocol(AF_UNIX, 0), descriptor)) {}

  /// Begins to read. `onMessage` is called for each message; then `onClosed` once, with what went wrong, or with
  /// nothing if the other end just closed.
  void start(std::function<void(Message)> onMessage, std::function<void(std::string why)> onClosed);

  /// From any thread. `sent` is called once the message has left, or cannot leave.
  void send(const Message &message, std::function<void()> sent = {}) { send(encode(message), std::move(sent)); }

  /// A message that is encoded once and sent to several.
  struct Body {
    Header header;
    std::vector<uint8_t> bytes;
  };
  using Encoded = std::shared_ptr<const Body>;
  static Encoded encode(const Message &message);
  void send(Encoded message, std::function<void()> sent = {});

  /// Closes the socket once all that was sent before has left. From any thread.
  void close();

private:
  struct Outgoing {
    Encoded body;
    std::function<void()> sent;
    size_t written = 0; // bytes of the body
  };
  static asio::awaitable<void> read(std::shared_ptr<Channel> me);
  asio::awaitable<std::string> readAll();
  asio::awaitable<std::string> readSealed(std::vector<uint8_t> &bytes, size_t size);
  void appendSealed(const void *text, size_t size);
  void hangUp();
  void writeNext();

  Socket socket;
  Session session;
  std::vector<uint8_t> piece; // the sealed bytes that are being written
  std::function<void(Message)> onMessage;
  std::function<void(std::string)> onClosed;
  std::deque<Outgoing> outbox;
  bool ended = false; // the other end has closed
  bool closing = false;
};

} // namespace pipec::runtime
