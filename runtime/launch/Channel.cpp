// Messages on a stream socket. A message that cannot be understood closes the channel.
#include "runtime/launch/Channel.h"

#include "runtime/plan/Limits.h"

#include <algorithm>

namespace pipec::runtime {

// A plan with all that stands around it; traces stay well below.
static constexpr uint64_t kMostBytes = 4 * uint64_t(limits::kPlanBytes);

void Channel::start(std::function<void(Message)> message, std::function<void(std::string)> closed) {
  onMessage = std::move(message);
  onClosed = std::move(closed);
  asio::co_spawn(socket.get_executor(), read(shared_from_this()), asio::detached);
}

asio::awaitable<void> Channel::read(std::shared_ptr<Channel> me) { // the parameter keeps the object alive
  std::string why = co_await me->readAll();
  me->onClosed(std::move(why));
}

asio::awaitable<std::string> Channel::readAll() {
  constexpr auto kAwait = asio::use_awaitable;
  std::error_code error;
  while (true) {
    uint64_t size = 0;
    co_await asio::async_read(socket, asio::buffer(&size, sizeof size), asio::redirect_error(kAwait, error));
    if (error == asio::error::eof || error == asio::error::operation_aborted)
      co_return "";
    if (error)
      co_return error.message();
    if (size > kMostBytes)
      co_return "it sent a message that is too long";
    std::vector<uint8_t> bytes;
    for (uint64_t have = 0; have < size && !error; have = bytes.size()) { // grows with what really comes
      bytes.resize(have + std::min<uint64_t>(size - have, 1 << 20));
      co_await asio::async_read(socket, asio::buffer(bytes.data() + have, bytes.size() - have),
                                asio::redirect_error(kAwait, error));
    }
    if (error)
      co_return error == asio::error::eof ? "" : error.message();
    Message message = Message::from_cbor(bytes, true, false);
    try {
      if (!message.is_object())
        co_return "it sent a message that cannot be read";
      onMessage(std::move(message));
    } catch (const nlohmann::json::exception &wrong) {
      co_return std::string("it sent a message that cannot be read: ") + wrong.what();
    }
  }
}

Channel::Encoded Channel::encode(const Message &message) {
  return std::make_shared<const std::vector<uint8_t>>(Message::to_cbor(message));
}

void Channel::send(Encoded message, std::function<void()> sent) {
  asio::post(socket.get_executor(),
             [me = shared_from_this(), bytes = std::move(message), sent = std::move(sent)]() mutable {
               if (me->closing)
                 return;
               uint64_t size = bytes->size();
               me->outbox.push_back({size, std::move(bytes), std::move(sent)});
               if (me->outbox.size() == 1)
                 me->writeNext();
             });
}

void Channel::writeNext() {
  const Outgoing &next = outbox.front();
  std::array<asio::const_buffer, 2> buffers{asio::buffer(&next.size, sizeof next.size), asio::buffer(*next.bytes)};
  asio::async_write(socket, buffers, [me = shared_from_this()](std::error_code, size_t) {
    std::function<void()> sent = std::move(me->outbox.front().sent);
    me->outbox.pop_front();
    if (sent)
      sent();
    if (!me->outbox.empty())
      me->writeNext();
    else if (me->closing)
      me->socket.close();
  });
}

void Channel::close() {
  asio::post(socket.get_executor(), [me = shared_from_this()] {
    me->closing = true;
    if (me->outbox.empty())
      me->socket.close();
  });
}

} // namespace pipec::runtime
