// Frames on a socket.
#include "runtime/transport/host/Connection.h"

#include <algorithm>
#include <fmt/format.h>

namespace pipec::runtime {

static constexpr auto kAwait = asio::use_awaitable;

static bool isSum(wire::Type type) {
  return type == wire::Type::Here || type == wire::Type::Sum || type == wire::Type::Total;
}

Connection::Connection(asio::ip::tcp::socket connected, int32_t peer, Handler &handler)
    : socket(std::move(connected)), peer(peer), handler(handler) {
  prepareSocket(socket);
}

void Connection::start() { asio::co_spawn(socket.get_executor(), read(), asio::detached); }

asio::awaitable<void> Connection::read() {
  std::error_code error;
  while (!closed) {
    wire::Frame frame;
    co_await asio::async_read(socket, asio::buffer(&frame, sizeof frame), asio::redirect_error(kAwait, error));
    if (error)
      break;
    if (frame.type == wire::Type::Credit && frame.bytes == 0) {
      handler.onCredit(peer, frame);
    } else if (isSum(frame.type) && frame.bytes == 0) {
      handler.onSum(peer, frame);
    } else if (frame.type == wire::Type::Data) {
      Slot slot = handler.onData(peer, frame);
      if (!slot.data)
        co_return;
      co_await asio::async_read(socket, asio::buffer(slot.data, frame.bytes), asio::redirect_error(kAwait, error));
      if (error)
        break;
      handler.onArrived(peer, frame);
    } else if (frame.type == wire::Type::Abort && frame.bytes <= wire::kAbortBytes) {
      std::string reason(frame.bytes, '\0');
      co_await asio::async_read(socket, asio::buffer(reason), asio::redirect_error(kAwait, error));
      if (error)
        break;
      handler.onAbort(peer, reason);
      co_return;
    } else {
      handler.onLost(peer, fmt::format("it sent a frame of unknown kind {}", uint32_t(frame.type)));
      co_return;
    }
  }
  if (error)
    lost(error);
}

void Connection::write(const wire::Frame &frame, const std::byte *payload, std::function<void()> written) {
  if (closed)
    return;
  outbox.push_back({frame, payload, std::move(written)});
  if (outbox.size() == 1)
    writeNext();
}

void Connection::writeNext() {
  const Outgoing &next = outbox.front();
  std::array<asio::const_buffer, 2> buffers{asio::buffer(&next.frame, sizeof next.frame),
                                            asio::buffer(next.payload, next.payload ? next.frame.bytes : 0)};
  asio::async_write(socket, buffers, [this](std::error_code error, size_t) {
    if (error == asio::error::operation_aborted)
      return; // closed here; this object may be gone
    if (error)
      return lost(error);
    std::function<void()> written = std::move(outbox.front().written);
    outbox.pop_front();
    if (!outbox.empty())
      writeNext();
    if (written)
      written();
  });
}

void Connection::abort(const std::string &reason) {
  if (closed)
    return;
  closed = true;
  std::error_code ignored;
  wire::Frame frame;
  frame.type = wire::Type::Abort;
  frame.bytes = std::min<uint64_t>(reason.size(), wire::kAbortBytes);
  std::array<asio::const_buffer, 2> buffers{asio::buffer(&frame, sizeof frame), asio::buffer(reason, frame.bytes)};
  socket.non_blocking(true, ignored);
  if (outbox.empty()) // else it would land inside another frame
    socket.write_some(buffers, ignored);
  socket.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
}

void Connection::lost(const std::error_code &error) {
  if (closed || error == asio::error::operation_aborted)
    return;
  closed = true;
  bool gone = error == asio::error::eof || error == asio::error::connection_reset || error == asio::error::broken_pipe;
  bool silent = error == asio::error::timed_out;
  handler.onLost(peer, gone     ? "it closed the connection"
                       : silent ? fmt::format("the network to it has been silent for {} s", kSilence)
                                : error.message());
}

} // namespace pipec::runtime
