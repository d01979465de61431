// The line between the launcher and a process it started: small messages both ways on a socket pair, each a length and
// a CBOR object with a "type". What is said on it, in this order:
//   process: listening {port} · launcher: table {ports} · process: ready · launcher: start {at} · process: report {…} ·
//   launcher: finish; or, at any time, process: failed {message} and launcher: end {message}.
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
  /// Takes the file descriptor over. Everything runs on `io`'s thread.
  Channel(asio::io_context &io, int descriptor);

  /// Exactly one of the two is called for whatever comes; `onClosed` once, last.
  void start(std::function<void(Message)> onMessage, std::function<void()> onClosed);

  /// From any thread; `sent` is called once the message has left, or cannot.
  void send(Message message, std::function<void()> sent = {});

private:
  struct Outgoing {
    uint64_t size;
    std::vector<uint8_t> bytes;
    std::function<void()> sent;
  };
  static asio::awaitable<void> read(std::shared_ptr<Channel> me);
  void writeNext();

  asio::io_context &io;
  asio::local::stream_protocol::socket socket;
  std::function<void(Message)> onMessage;
  std::function<void()> onClosed;
  std::deque<Outgoing> outbox;
};

} // namespace pipec::runtime
