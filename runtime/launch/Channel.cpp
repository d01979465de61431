// Messages on a socket pair.
#include "runtime/launch/Channel.h"

namespace pipec::runtime {

Channel::Channel(asio::io_context &io, int descriptor)
    : io(io), socket(io, asio::local::stream_protocol(), descriptor) {}

void Channel::start(std::function<void(Message)> message, std::function<void()> closed) {
  onMessage = std::move(message);
  onClosed = std::move(closed);
  asio::co_spawn(io, read(shared_from_this()), asio::detached);
}

asio::awaitable<void> Channel::read(std::shared_ptr<Channel> me) {
  std::error_code error;
  while (true) {
    uint64_t size = 0;
    co_await asio::async_read(me->socket, asio::buffer(&size, sizeof size),
                              asio::redirect_error(asio::use_awaitable, error));
    if (error)
      break;
    std::vector<uint8_t> bytes(size);
    co_await asio::async_read(me->socket, asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, error));
    if (error)
      break;
    Message message = Message::from_cbor(bytes, true, false);
    if (message.is_discarded())
      break;
    me->onMessage(std::move(message));
  }
  me->onClosed();
}

void Channel::send(Message message, std::function<void()> sent) {
  asio::post(io, [me = shared_from_this(), bytes = Message::to_cbor(message), sent = std::move(sent)]() mutable {
    uint64_t size = bytes.size();
    me->outbox.push_back({size, std::move(bytes), std::move(sent)});
    if (me->outbox.size() == 1)
      me->writeNext();
  });
}

void Channel::writeNext() {
  const Outgoing &next = outbox.front();
  std::array<asio::const_buffer, 2> buffers{asio::buffer(&next.size, sizeof next.size), asio::buffer(next.bytes)};
  asio::async_write(socket, buffers, [me = shared_from_this()](std::error_code, size_t) {
    std::function<void()> sent = std::move(me->outbox.front().sent);
    me->outbox.pop_front();
    if (sent)
      sent();
    if (!me->outbox.empty())
      me->writeNext();
  });
}

} // namespace pipec::runtime
