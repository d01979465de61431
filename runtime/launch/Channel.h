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
// A client says load {path}, load_for {path, name, recuts}, swap {variant}, adapt {mode}, plan, status or stop. The
// controller answers done {…} or refused {code, message}, and says alive while that takes long.
//
// Each end hears only what the other has to say to it (Way). What it may not say, what is too long, or cannot be read,
// ends the connection; who sent it hears why.
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

/// From whom to whom a message goes; a bit each. ToRun: from a client of the control socket.
enum class Way : uint8_t { ToController = 1, ToRank = 2, ToRun = 4, ToClient = 8 };

class Channel : public std::enable_shared_from_this<Channel> {
public:
  using Socket = asio::generic::stream_protocol::socket; // any stream socket

  /// A type of message, the most bytes that a message of it may have, and the ways that it goes.
  struct Kind {
    std::string_view type;
    uint64_t most;
    uint8_t ways;
  };
  /// All kinds; Header::kind is an index of them.
  static std::span<const Kind> kinds();

  /// Sent before each message.
  struct Header {
    uint32_t kind = 0;
    uint32_t reserved = 0;
    uint64_t size = 0; // bytes of the message
  };
  /// A message is sealed in pieces of at most so many bytes. Its header is sealed before them.
  static constexpr size_t kPiece = 1 << 20;
  /// How deep arrays and objects of a message may be in each other.
  static constexpr int kDepth = 8;

  /// `hears`: the way of the messages that come. All callbacks are called on the thread of the socket's io_context.
  /// Without keys in `session`, nothing is sealed.
  Channel(Socket socket, Way hears, Session session = {})
      : socket(std::move(socket)), hears(hears), session(std::move(session)) {}
  /// Over one end of a socket pair, or a local socket.
  Channel(asio::io_context &io, int descriptor, Way hears)
      : Channel(Socket(io, asio::generic::stream_protocol(AF_UNIX, 0), descriptor), hears) {}

  /// Begins to read. `onMessage` is called for each message; then `onClosed` once, with what went wrong, or with
  /// nothing if the other end just closed. What is wrong with a message itself, the other end is told.
  void start(std::function<void(Message)> onMessage, std::function<void(std::string why)> onClosed);

  /// To call in `onMessage`: the message may not be said at this time, or like this. That ends the connection as if it
  /// could not be read. `what`: "a report before the start".
  void refuse(std::string what) { refused = std::move(what); }

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
  /// Closes the socket at once. On the io_context's thread.
  void drop() { hangUp(); }

private:
  struct Outgoing {
    Encoded body;
    std::function<void()> sent;
    size_t written = 0; // bytes of the body
  };
  static asio::awaitable<void> read(std::shared_ptr<Channel> me);
  asio::awaitable<std::string> readAll();
  asio::awaitable<void> discard();
  void sayWhy(const std::string &why);
  asio::awaitable<std::string> readSealed(std::vector<uint8_t> &bytes, size_t size);
  void appendSealed(const void *text, size_t size);
  void leave();
  void hangUp();
  void writeNext();

  Socket socket;
  const Way hears;
  Session session;
  std::vector<uint8_t> piece; // the sealed bytes that are being written
  std::function<void(Message)> onMessage;
  std::function<void(std::string)> onClosed;
  std::deque<Outgoing> outbox;
  std::string refused;     // what the owner refuses of the last message
  bool ended = false;      // the other end has closed, or somebody else speaks
  bool discarding = false; // what comes is not heard any more
  bool closing = false;
};

} // namespace pipec::runtime
