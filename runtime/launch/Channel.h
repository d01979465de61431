// Messages (Messages.h) between the controller and a process of the run, or between the controller and a client of the
// control socket (`piperun --control`). They go both ways on a stream socket, each a header and a CBOR object; they are
// sealed if they leave the machine. Each end hears only what the other has to say to it. What it may not say, what is
// too long, or cannot be read, ends the connection; who sent it hears why.
#pragma once

#include "runtime/launch/messages/Code.h"
#include "runtime/transport/Outbox.h"

#include <asio.hpp>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace pipec::runtime {

using messages::Encoded;

/// With this begins what a rank says of a failure that it was told of; the cause follows.
inline constexpr std::string_view kEndedByController = "the controller ended the run: ";

class Channel : public std::enable_shared_from_this<Channel> {
public:
  using Socket = asio::generic::stream_protocol::socket; // any stream socket

  /// All callbacks are called on the thread of the socket's io_context. Without keys in `session`, nothing is sealed.
  /// `backlog`: how many bytes may wait behind the message that is being sent; the connection ends with more.
  explicit Channel(Socket socket, Session session = {}, uint64_t backlog = messages::kEvents)
      : socket(std::move(socket)), in(std::move(session.in)), outbox(std::move(session.out), backlog) {}
  /// Over one end of a socket pair, or a local socket.
  Channel(asio::io_context &io, int descriptor, uint64_t backlog = messages::kEvents)
      : Channel(Socket(io, asio::generic::stream_protocol(AF_UNIX, 0), descriptor), {}, backlog) {}

  /// Begins to read. `onMessage` is called with each message that goes this way, as its struct; then `onClosed` once,
  /// with what went wrong, or with nothing if the other end just closed. What is wrong with a message, the other end is
  /// told.
  template <messages::Way way, typename Handler>
  void start(Handler onMessage, std::function<void(std::string why)> onClosed) {
    start(
        way,
        [onMessage = std::move(onMessage)](uint32_t kind, std::span<const uint8_t> bytes) mutable {
          return messages::dispatch<way>(kind, bytes, onMessage);
        },
        std::move(onClosed));
  }
  /// The same for messages that are not decoded yet: `onMessage` returns what is wrong with one, or nothing.
  using Raw = std::function<std::string(uint32_t kind, std::span<const uint8_t> bytes)>;
  void start(messages::Way way, Raw onMessage, std::function<void(std::string why)> onClosed);

  /// To call in `onMessage`: the message may not be said at this time, or like this. That ends the connection as if it
  /// could not be read. `what`: "a report before the start".
  void refuse(std::string what) { refused = std::move(what); }

  /// From any thread. `sent` is called once the message has left, or cannot leave.
  void send(Encoded message, std::function<void()> sent = {});
  template <messages::IsMessage T> void send(const T &message, std::function<void()> sent = {}) {
    send(messages::encode(message), std::move(sent));
  }

  /// Closes the socket once all that was sent before has left. From any thread.
  void close();
  /// Closes the socket at once. On the io_context's thread.
  void drop() { hangUp(); }

private:
  static asio::awaitable<void> read(std::shared_ptr<Channel> me);
  asio::awaitable<std::string> readAll();
  asio::awaitable<void> discard();
  void sayWhy(const std::string &why);
  asio::awaitable<std::string> readSealed(std::vector<uint8_t> &bytes, size_t size);
  void leave();
  void hangUp();
  void writeNext();

  Socket socket;
  messages::Way hears = messages::ToController;
  Seal in;
  Outbox outbox;
  Raw onMessage;
  std::function<void(std::string)> onClosed;
  std::string refused;     // what the owner refuses of the last message
  std::string overrun;     // that too much waits
  bool ended = false;      // the other end has closed, or somebody else speaks
  bool discarding = false; // what comes is not heard any more
  bool closing = false;
};

} // namespace pipec::runtime
