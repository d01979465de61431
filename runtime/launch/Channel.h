// A channel carries messages (Messages.h) between the controller and a process of the run, or between the controller
// and a client of the control socket (`piperun --control`). Messages go both ways on a stream socket, each as a header
// and a CBOR object. They are sealed (Seal.h) if they leave the machine. A channel accepts only the kinds of messages
// that its end may receive. A message of another kind, one that is too long, or one that cannot be read ends the
// connection, and the sender is told why.
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

/// Prefix of a rank's message about a failure that the controller told the rank of; the cause follows.
inline constexpr std::string_view kEndedByController = "the controller ended the run: ";

class Channel : public std::enable_shared_from_this<Channel> {
public:
  using Socket = asio::generic::stream_protocol::socket; // any stream socket

  /// All callbacks are called on the thread of the socket's io_context. Without keys in `session`, nothing is sealed.
  /// `backlog`: most bytes that may wait behind the message that is being sent; with more, the connection ends.
  explicit Channel(Socket socket, Session session = {}, uint64_t backlog = messages::kEvents)
      : socket(std::move(socket)), in(std::move(session.in)), outbox(std::move(session.out), backlog) {}
  /// Over one end of a socket pair, or a local socket.
  Channel(asio::io_context &io, int descriptor, uint64_t backlog = messages::kEvents)
      : Channel(Socket(io, asio::generic::stream_protocol(AF_UNIX, 0), descriptor), {}, backlog) {}

  /// Starts reading. Calls `onMessage` with the struct of each message that this end may receive. At the end calls
  /// `onClosed` once: with the error, or with an empty text if the other end closed the connection. If a message was
  /// wrong, the other end is told why.
  template <messages::Way way, typename Handler>
  void start(Handler onMessage, std::function<void(std::string why)> onClosed) {
    start(
        way,
        [onMessage = std::move(onMessage)](uint32_t kind, std::span<const uint8_t> bytes) mutable {
          return messages::dispatch<way>(kind, bytes, onMessage);
        },
        std::move(onClosed));
  }
  /// The same with messages that are not decoded. `onMessage` returns what is wrong with the message; empty: nothing.
  using Raw = std::function<std::string(uint32_t kind, std::span<const uint8_t> bytes)>;
  void start(messages::Way way, Raw onMessage, std::function<void(std::string why)> onClosed);

  /// To call in `onMessage` if the message is wrong at this time or has wrong values. Ends the connection, as a message
  /// does that cannot be read. `what`: "a report before the start".
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
  std::string refused;     // argument of refuse() for the last message; empty: none
  std::string overrun;     // the error, if more than the backlog waits; empty: none
  bool ended = false;      // the other end has closed, or bytes came that it did not seal
  bool discarding = false; // bytes that still arrive are read and dropped
  bool closing = false;
};

} // namespace pipec::runtime
