#include "runtime/transport/host/Connection.h"

#include "runtime/transport/host/Socket.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <utility>

namespace pipec::runtime {

static constexpr auto kAwait = asio::use_awaitable;

/// Payloads are written in as few calls as the socket allows. Asio's default writes 64 KiB per call, with a turn of its
/// loop in between.
static size_t allAtOnce(const std::error_code &error, size_t) { return error ? 0 : SIZE_MAX; }

static bool isSum(wire::Type type) {
  return type == wire::Type::Here || type == wire::Type::Sum || type == wire::Type::Total;
}

Connection::Connection(Line line, int32_t peer, Handler &handler)
    : socket(std::move(line.socket)), in(std::move(line.session.in)), outbox(std::move(line.session.out), kBacklog),
      peer(peer), handler(handler) {
  prepareSocket(socket);
}

void Connection::start() { asio::co_spawn(socket.get_executor(), read(), asio::detached); }

void Connection::mute() { muteSocket(socket); }

/// Reads and opens the next text.size() bytes. False on failure; the cause is in `error`, or the handler has been told.
asio::awaitable<bool> Connection::readSealed(std::span<uint8_t> text, std::error_code &error) {
  incoming.resize(text.size() + in.extra());
  co_await asio::async_read(socket, asio::buffer(incoming), asio::redirect_error(kAwait, error));
  if (error || closed)
    co_return false;
  if (in.open(incoming)) {
    std::memcpy(text.data(), incoming.data(), text.size());
    co_return true;
  }
  handler.onLost(peer, "what it sent was changed, repeated or left out on the way");
  co_return false;
}

asio::awaitable<void> Connection::read() {
  std::error_code error;
  while (!closed) {
    wire::Frame frame;
    if (!co_await readSealed({reinterpret_cast<uint8_t *>(&frame), sizeof frame}, error))
      break;
    if (frame.type == wire::Type::Credit && frame.bytes == 0) {
      handler.onCredit(peer, frame);
    } else if (isSum(frame.type) && frame.bytes == 0) {
      handler.onSum(peer, frame);
    } else if (frame.type == wire::Type::Ask && frame.bytes == 0) {
      handler.onAsk(peer, frame);
    } else if (frame.type == wire::Type::Block || frame.type == wire::Type::Part) {
      const std::vector<asio::mutable_buffer> *pieces = handler.onBlock(peer, frame);
      if (!pieces)
        co_return;
      co_await asio::async_read(socket, *pieces, allAtOnce, asio::redirect_error(kAwait, error));
      if (error)
        break;
      handler.onBlockArrived(peer, frame);
    } else if (frame.type == wire::Type::Data) {
      Slot slot = handler.onData(peer, frame);
      if (!slot.data)
        co_return;
      co_await asio::async_read(socket, asio::buffer(slot.data, frame.bytes), allAtOnce,
                                asio::redirect_error(kAwait, error));
      if (error)
        break;
      handler.onArrived(peer, frame);
    } else if (frame.type == wire::Type::Talk && frame.bytes > 0 && frame.bytes <= wire::kTalkBytes) {
      std::vector<uint8_t> bytes(frame.bytes);
      if (!co_await readSealed(bytes, error))
        break;
      if (const std::string wrong = handler.onTalk(peer, frame.tag.of, bytes); !wrong.empty()) {
        handler.onLost(peer, "it sent " + wrong);
        co_return;
      }
    } else if (frame.type == wire::Type::Abort && frame.bytes <= wire::kAbortBytes) {
      std::string reason(frame.bytes, '\0');
      if (!co_await readSealed({reinterpret_cast<uint8_t *>(reason.data()), reason.size()}, error))
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

static std::span<const uint8_t> bytesOf(const wire::Frame &frame) {
  static_assert(sizeof frame <= Outbox::kHead);
  return {reinterpret_cast<const uint8_t *>(&frame), sizeof frame};
}

void Connection::write(const wire::Frame &frame, const std::byte *payload, std::function<void()> written) {
  std::vector<asio::const_buffer> buffers;
  if (payload)
    buffers.emplace_back(payload, frame.bytes);
  write(frame, std::move(buffers), std::move(written));
}

void Connection::write(const wire::Frame &frame, std::vector<asio::const_buffer> payload,
                       std::function<void()> written) {
  push(frame, nullptr, std::move(payload), std::move(written));
}

void Connection::talk(uint32_t kind, std::shared_ptr<const std::vector<uint8_t>> bytes) {
  wire::Frame frame;
  frame.type = wire::Type::Talk;
  frame.bytes = bytes->size();
  frame.tag.of = kind;
  push(frame, std::move(bytes), {}, {});
}

void Connection::push(const wire::Frame &frame, std::shared_ptr<const std::vector<uint8_t>> body,
                      std::vector<asio::const_buffer> payload, std::function<void()> written) {
  if (closed)
    return;
  if (!outbox.push(bytesOf(frame), std::move(body), std::move(payload), std::move(written)))
    return handler.onLost(peer, "it does not read what it is sent");
  if (outbox.size() == 1)
    writeNext();
}

void Connection::writeNext() {
  asio::async_write(socket, outbox.next(), allAtOnce, [this](std::error_code error, size_t) {
    if (error == asio::error::operation_aborted)
      return; // this end has closed the socket, and this object may be gone
    if (error)
      return lost(error);
    const std::function<void()> written = outbox.giveUp(); // a body is sealed in one piece, so all of it has been sent
    if (!outbox.empty())
      writeNext();
    if (written)
      written();
  });
}

void Connection::abort(const std::string &reason) {
  if (closed)
    return;
  if (!outbox.empty() && !std::exchange(aborting, true)) // it may have been written: then its handler runs first
    return asio::post(socket.get_executor(), [this, reason] { abort(reason); });
  closed = true;
  std::error_code ignored;
  wire::Frame frame;
  frame.type = wire::Type::Abort;
  frame.bytes = std::min<uint64_t>(reason.size(), wire::kAbortBytes);
  socket.non_blocking(true, ignored);
  if (outbox.empty()) { // else the frame would land inside another
    const auto *text = reinterpret_cast<const uint8_t *>(reason.data());
    const std::span<const uint8_t> sealed = outbox.sealed(bytesOf(frame), {text, size_t(frame.bytes)});
    socket.write_some(asio::buffer(sealed.data(), sealed.size()), ignored);
  }
  socket.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  socket.cancel(ignored); // payloads may belong to an owner that no longer waits for them
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
