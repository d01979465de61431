// Messages on a stream socket. A message that cannot be understood closes the channel.
#include "runtime/launch/Channel.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace pipec::runtime {

using namespace messages;

void Channel::start(Way way, Raw message, std::function<void(std::string)> closed) {
  hears = way;
  onMessage = std::move(message);
  onClosed = std::move(closed);
  asio::co_spawn(socket.get_executor(), read(shared_from_this()), asio::detached);
}

// The parameter keeps the object alive.
asio::awaitable<void> Channel::read(std::shared_ptr<Channel> me) {
  std::string why = co_await me->readAll();
  if (!me->overrun.empty())
    why = me->overrun;
  const bool wrong = !me->ended && !why.empty();
  if (wrong)
    me->sayWhy(why);
  me->onClosed(wrong ? "it sent " + why : std::move(why));
  if (wrong)
    co_await me->discard();
}

/// Tells the other end why the connection ends.
void Channel::sayWhy(const std::string &why) {
  const std::string text = "what it was sent ends the connection: " + why;
  if (hears == ToController)
    send(End{text});
  else if (hears == ToRank)
    send(Failed{text});
  else if (hears == ToRun)
    send(Refused{int(Code::Usage), text});
  discarding = true;
  close();
}

/// Reads and drops bytes for up to a second. If a socket is closed with unread bytes, the other end may lose what was
/// sent to it last.
asio::awaitable<void> Channel::discard() {
  asio::steady_timer patience(socket.get_executor(), std::chrono::seconds(1));
  patience.async_wait([me = shared_from_this()](std::error_code early) {
    if (!early)
      me->hangUp();
  });
  std::vector<uint8_t> bytes(64 << 10);
  std::error_code error;
  while (!error)
    co_await socket.async_read_some(asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, error));
  patience.cancel();
  hangUp();
}

/// Reads the next `size` bytes and appends them to `bytes`. Returns the error; empty: none. If the other end has
/// closed, the text is empty and `ended` is set.
asio::awaitable<std::string> Channel::readSealed(std::vector<uint8_t> &bytes, size_t size) {
  const size_t have = bytes.size();
  bytes.resize(have + size + in.extra());
  std::error_code error;
  co_await asio::async_read(socket, asio::buffer(bytes.data() + have, bytes.size() - have),
                            asio::redirect_error(asio::use_awaitable, error));
  ended = bool(error);
  if (error)
    co_return error == asio::error::eof || closing ? "" : error.message();
  ended = !in.open(std::span(bytes).subspan(have));
  if (ended) // the other end did not seal these bytes
    co_return "what it sent was changed, repeated or left out on the way";
  bytes.resize(have + size);
  co_return "";
}

asio::awaitable<std::string> Channel::readAll() {
  while (true) {
    std::vector<uint8_t> bytes;
    std::string wrong = co_await readSealed(bytes, sizeof(Header));
    if (ended || !wrong.empty())
      co_return wrong;
    Header header;
    std::memcpy(&header, bytes.data(), sizeof header);
    if (header.kind >= kKinds.size())
      co_return fmt::format("a message of unknown kind {}", header.kind);
    const Kind &kind = kKinds[header.kind];
    if (!(kind.ways & hears))
      co_return wrongIn(kind.name, "it may not send here");
    if (header.size > kind.most)
      co_return wrongIn(kind.name, fmt::format("is too long, {} bytes of at most {}", header.size, kind.most));
    bytes.clear();
    while (bytes.size() < header.size) { // memory grows with what comes, not with what the header promises
      wrong = co_await readSealed(bytes, std::min<uint64_t>(header.size - bytes.size(), Outbox::kPiece));
      if (ended || !wrong.empty())
        co_return wrong;
    }
    if (wrong = onMessage(header.kind, bytes); !wrong.empty())
      co_return wrong;
    if (!refused.empty())
      co_return refused;
  }
}

void Channel::send(Encoded message, std::function<void()> sent) {
  asio::post(socket.get_executor(),
             [me = shared_from_this(), message = std::move(message), sent = std::move(sent)]() mutable {
               if (me->closing)
                 return sent ? sent() : void();
               const auto *header = reinterpret_cast<const uint8_t *>(&message->header);
               std::shared_ptr<const Bytes> body(message, &message->bytes);
               if (!me->outbox.push({header, sizeof message->header}, std::move(body), {}, std::move(sent))) {
                 me->overrun = "it does not read what it is sent";
                 return me->hangUp();
               }
               if (me->outbox.size() == 1)
                 me->writeNext();
             });
}

void Channel::writeNext() {
  asio::async_write(socket, outbox.next(), [me = shared_from_this()](std::error_code error, size_t) {
    const std::optional<Outbox::Written> written = error ? me->outbox.giveUp() : me->outbox.wrote();
    if (written && *written)
      (*written)();
    if (!me->outbox.empty())
      me->writeNext();
    else if (me->closing)
      me->leave();
  });
}

void Channel::close() {
  asio::post(socket.get_executor(), [me = shared_from_this()] {
    me->closing = true;
    if (me->outbox.empty())
      me->leave();
  });
}

/// Ends the connection after the last message has been sent.
void Channel::leave() {
  std::error_code ignored;
  if (discarding)
    socket.shutdown(asio::socket_base::shutdown_send, ignored);
  else
    hangUp();
}

/// Shuts down before closing, so that the other end notices even if a forked process still holds the socket.
void Channel::hangUp() {
  closing = true;
  std::error_code ignored;
  socket.shutdown(asio::socket_base::shutdown_both, ignored);
  socket.close(ignored);
}

} // namespace pipec::runtime
