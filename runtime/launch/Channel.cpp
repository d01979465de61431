// Messages on a stream socket. A message that cannot be understood closes the channel.
#include "runtime/launch/Channel.h"

#include "runtime/plan/Limits.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace pipec::runtime {

namespace {

constexpr uint64_t kSmall = 64 << 10, kText = 1 << 20, kAnswer = 16 << 20;
constexpr uint64_t kRank = 512; // a rank's part of the table
constexpr uint64_t kPlan = uint64_t(limits::kPlanBytes) + kSmall;
constexpr uint64_t kEvents = uint64_t(limits::kTraceBytes); // messages with the events of a trace
constexpr uint64_t kFiles = 256 << 20;                      // names, sizes and hashes of the files of a checkpoint

constexpr Channel::Kind kKinds[] = {
    {"other", kSmall},    {"listening", kSmall}, {"table", kFiles + kRank *uint64_t(limits::kRanks)},
    {"ready", kSmall},    {"start", kSmall},     {"permit", kSmall},
    {"progress", kSmall}, {"saved", kEvents},    {"report", kEvents},
    {"finish", kEvents},  {"prepare", kPlan},    {"drop", kSmall},
    {"prepared", kText},  {"stop", kSmall},      {"failed", kText},
    {"end", kText},       {"clock", kSmall},     {"load", kSmall},
    {"swap", kSmall},     {"status", kSmall},    {"done", kPlan},
    {"refused", kAnswer}, {"measure", kSmall},   {"measured", kText},
    {"offer", kSmall},    {"adapt", kSmall},     {"decision", kText},
    {"layers", kFiles},   {"paced", kSmall},     {"waits", kSmall},
    {"rest", kSmall},     {"put", kText},        {"text", kText},
};

} // namespace

std::span<const Channel::Kind> Channel::kinds() { return kKinds; }

static uint32_t kindOf(const Message &message) {
  const std::string type = message.value("type", "");
  for (uint32_t kind = 1; kind < std::size(kKinds); ++kind)
    if (kKinds[kind].type == type)
      return kind;
  return 0;
}

void Channel::start(std::function<void(Message)> message, std::function<void(std::string)> closed) {
  onMessage = std::move(message);
  onClosed = std::move(closed);
  asio::co_spawn(socket.get_executor(), read(shared_from_this()), asio::detached);
}

// The parameter keeps the object alive.
asio::awaitable<void> Channel::read(std::shared_ptr<Channel> me) {
  std::string why = co_await me->readAll();
  me->onClosed(std::move(why));
}

/// Appends the next `size` bytes of the other end to `bytes`. Returns what went wrong, or nothing. If the other end has
/// just closed, that is nothing too, and `ended` is set.
asio::awaitable<std::string> Channel::readSealed(std::vector<uint8_t> &bytes, size_t size) {
  const size_t have = bytes.size();
  bytes.resize(have + size + session.in.extra());
  std::error_code error;
  co_await asio::async_read(socket, asio::buffer(bytes.data() + have, bytes.size() - have),
                            asio::redirect_error(asio::use_awaitable, error));
  ended = bool(error);
  if (error)
    co_return error == asio::error::eof || error == asio::error::operation_aborted ? "" : error.message();
  if (!session.in.open(std::span(bytes).subspan(have)))
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
    if (header.kind >= std::size(kKinds))
      co_return "it sent a message that cannot be read";
    if (header.size > kKinds[header.kind].most)
      co_return fmt::format("it sent a message that is too long: {} of {} bytes, at most {}", kKinds[header.kind].type,
                            header.size, kKinds[header.kind].most);
    bytes.clear();
    while (bytes.size() < header.size) { // memory grows with what comes, not with what the header promises
      wrong = co_await readSealed(bytes, std::min<uint64_t>(header.size - bytes.size(), kPiece));
      if (ended || !wrong.empty())
        co_return wrong;
    }
    Message message = Message::from_cbor(bytes, true, false);
    try {
      if (!message.is_object() || kindOf(message) != header.kind)
        co_return "it sent a message that cannot be read";
      onMessage(std::move(message));
    } catch (const nlohmann::json::exception &error) {
      co_return std::string("it sent a message that cannot be read: ") + error.what();
    }
  }
}

Channel::Encoded Channel::encode(const Message &message) {
  auto body = std::make_shared<Body>();
  body->bytes = Message::to_cbor(message);
  body->header = {kindOf(message), 0, body->bytes.size()};
  return body;
}

void Channel::send(Encoded message, std::function<void()> sent) {
  asio::post(socket.get_executor(),
             [me = shared_from_this(), body = std::move(message), sent = std::move(sent)]() mutable {
               if (me->closing)
                 return;
               me->outbox.push_back({std::move(body), std::move(sent)});
               if (me->outbox.size() == 1)
                 me->writeNext();
             });
}

void Channel::appendSealed(const void *text, size_t size) {
  const size_t at = piece.size();
  piece.resize(at + size + session.out.extra());
  std::memcpy(piece.data() + at, text, size);
  session.out.close(std::span(piece).subspan(at));
}

void Channel::writeNext() {
  Outgoing &next = outbox.front();
  const Body &body = *next.body;
  piece.clear();
  if (next.written == 0)
    appendSealed(&body.header, sizeof body.header);
  const size_t size = std::min(body.bytes.size() - next.written, kPiece);
  appendSealed(body.bytes.data() + next.written, size);
  next.written += size;
  asio::async_write(socket, asio::buffer(piece), [me = shared_from_this()](std::error_code error, size_t) {
    if (Outgoing &last = me->outbox.front(); !error && last.written < last.body->bytes.size())
      return me->writeNext();
    std::function<void()> sent = std::move(me->outbox.front().sent);
    me->outbox.pop_front();
    if (sent)
      sent();
    if (!me->outbox.empty())
      me->writeNext();
    else if (me->closing)
      me->hangUp();
  });
}

void Channel::close() {
  asio::post(socket.get_executor(), [me = shared_from_this()] {
    me->closing = true;
    if (me->outbox.empty())
      me->hangUp();
  });
}

/// The other end hears of it also where a process that this one has forked still has the socket.
void Channel::hangUp() {
  std::error_code ignored;
  socket.shutdown(asio::socket_base::shutdown_both, ignored);
  socket.close(ignored);
}

} // namespace pipec::runtime
