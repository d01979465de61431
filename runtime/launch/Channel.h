// The line between the controller and a process of the run, or a client of the control socket: small messages both ways
// on a stream socket, each a length and a CBOR object with a "type". What is said on it, in this order:
//   process: listening {endpoint} · controller: table {endpoints, first, files, boot} · process: ready · controller:
//   start {at} and permit {until, epoch, program, last} … · process: progress {step} …, saved {step, file, …} …,
//   report {…} · controller: finish;
// at any time after start, controller: prepare {program, plan}, drop {program} · process: prepared {program, code,
//   message}, stop; and at any time, process: failed {message} and controller: end {message}, process: clock and
//   controller: clock {now}.
// A client says load {path}, swap {variant}, status or stop, and hears done {…} or refused {code, message}.
#pragma once

#include <asio.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

namespace pipec::runtime {

using Message = nlohmann::json;

class Channel : public std::enable_shared_from_this<Channel> {
public:
  using Socket = asio::generic::stream_protocol::socket; // made of any stream socket

  /// Everything runs on the thread of the socket's io_context.
  explicit Channel(Socket socket) : socket(std::move(socket)) {}
  /// An end of a socket pair.
  Channel(asio::io_context &io, int descriptor)
      : Channel(Socket(io, asio::generic::stream_protocol(AF_UNIX, 0), descriptor)) {}

  /// Exactly one of the two is called for whatever comes; `onClosed` once, last: with why, or nothing if the other end
  /// just closed.
  void start(std::function<void(Message)> onMessage, std::function<void(std::string why)> onClosed);

  /// From any thread; `sent` is called once the message has left, or cannot.
  void send(const Message &message, std::function<void()> sent = {}) { send(encode(message), std::move(sent)); }

  /// The same of a message that goes to several, encoded once.
  using Encoded = std::shared_ptr<const std::vector<uint8_t>>;
  static Encoded encode(const Message &message);
  void send(Encoded message, std::function<void()> sent = {});

  /// From any thread; the other end hears all that was sent before.
  void close();

private:
  struct Outgoing {
    uint64_t size;
    Encoded bytes;
    std::function<void()> sent;
  };
  static asio::awaitable<void> read(std::shared_ptr<Channel> me);
  asio::awaitable<std::string> readAll();
  void writeNext();

  Socket socket;
  std::function<void(Message)> onMessage;
  std::function<void(std::string)> onClosed;
  std::deque<Outgoing> outbox;
  bool closing = false;
};

} // namespace pipec::runtime
