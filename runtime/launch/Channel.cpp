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

constexpr uint8_t kToController = uint8_t(Way::ToController), kToRank = uint8_t(Way::ToRank),
                  kToRun = uint8_t(Way::ToRun), kToClient = uint8_t(Way::ToClient);

constexpr Channel::Kind kKinds[] = {
    {"listening", kSmall, kToController},
    {"table", kFiles + kRank *uint64_t(limits::kRanks), kToRank},
    {"ready", kSmall, kToController},
    {"start", kSmall, kToRank},
    {"permit", kSmall, kToRank},
    {"progress", kSmall, kToController},
    {"saved", kEvents, kToController},
    {"report", kEvents, kToController},
    {"finish", kEvents, kToRank},
    {"prepare", kPlan, kToRank},
    {"drop", kSmall, kToRank},
    {"prepared", kText, kToController},
    {"stop", kSmall, kToController | kToRun},
    {"failed", kText, kToController},
    {"end", kText, kToRank},
    {"clock", kSmall, kToController | kToRank},
    {"load", kSmall, kToRun},
    {"load_for", kSmall, kToRun},
    {"swap", kSmall, kToController | kToRun},
    {"status", kSmall, kToRun},
    {"adapt", kSmall, kToRun},
    {"plan", kSmall, kToRun},
    {"done", kPlan, kToClient},
    {"refused", kAnswer, kToClient},
    {"alive", kSmall, kToClient},
    {"measure", kSmall, kToRank},
    {"measured", kText, kToController},
    {"decision", kText, kToRank},
    {"layers", kFiles, kToRank},
    {"paced", kSmall, kToController},
    {"waits", kSmall, kToController},
    {"rest", kSmall, kToRank},
    {"put", kText, kToController},
    {"text", kText, kToRank},
    {"swapped", kText, kToRank},
    {"finishes", kSmall, kToController},
    {"underway", kSmall, kToRank},
    {"offer", kText, kToController},
    {"offers", kText *uint64_t(limits::kRanks), kToRank},
};

/// Looks at a message without keeping any of it: how deep it is, and whether it promises more than comes.
class Depth final : public nlohmann::json_sax<Message> {
public:
  explicit Depth(size_t bytes) : bytes(bytes) {}
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t &) override { return true; }
  bool string(string_t &) override { return true; }
  bool binary(binary_t &) override { return true; }
  bool key(string_t &) override { return true; }
  bool start_object(size_t size) override { return enter(size); }
  bool start_array(size_t size) override { return enter(size); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool parse_error(size_t, const std::string &, const nlohmann::json::exception &) override { return false; }

  bool tooDeep() const { return depth > Channel::kDepth; }

private:
  bool enter(size_t size) { return ++depth <= Channel::kDepth && (size == size_t(-1) || size <= bytes); }
  bool leave() {
    --depth;
    return true;
  }
  const size_t bytes;
  int depth = 0;
};

uint32_t kindOf(const Message &message) {
  const std::string type = message.value("type", "");
  for (uint32_t kind = 0; kind < std::size(kKinds); ++kind)
    if (kKinds[kind].type == type)
      return kind;
  return uint32_t(std::size(kKinds));
}

/// What is wrong with a message of these bytes; nothing: `message` is it.
std::string decode(uint32_t kind, const std::vector<uint8_t> &bytes, Message &message) {
  const std::string unread =
      fmt::format("a message that cannot be read, {} of {} bytes", kKinds[kind].type, bytes.size());
  try {
    Depth depth(bytes.size());
    if (!Message::sax_parse(bytes, &depth, Message::input_format_t::cbor))
      return depth.tooDeep()
                 ? fmt::format("a message that is too deep: {} with more than {} objects and arrays in each other",
                               kKinds[kind].type, Channel::kDepth)
                 : unread;
    message = Message::from_cbor(bytes, true, false);
    return message.is_object() && kindOf(message) == kind ? "" : unread;
  } catch (const nlohmann::json::exception &) {
    return unread;
  }
}

} // namespace

std::span<const Channel::Kind> Channel::kinds() { return kKinds; }

void Channel::start(std::function<void(Message)> message, std::function<void(std::string)> closed) {
  onMessage = std::move(message);
  onClosed = std::move(closed);
  asio::co_spawn(socket.get_executor(), read(shared_from_this()), asio::detached);
}

// The parameter keeps the object alive.
asio::awaitable<void> Channel::read(std::shared_ptr<Channel> me) {
  std::string why = co_await me->readAll();
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
  if (hears == Way::ToController)
    send({{"type", "end"}, {"message", text}});
  else if (hears == Way::ToRank)
    send({{"type", "failed"}, {"message", text}});
  else if (hears == Way::ToRun)
    send({{"type", "refused"}, {"code", int(Code::Usage)}, {"message", text}});
  discarding = true;
  close();
}

/// Reads on for a moment: closing a socket on which something came unread may take from the other end what it was told.
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
    co_return error == asio::error::eof || closing ? "" : error.message();
  ended = !session.in.open(std::span(bytes).subspan(have));
  if (ended) // it is not the other end that says this
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
      co_return fmt::format("a message of unknown kind {}", header.kind);
    const Kind &kind = kKinds[header.kind];
    if (!(kind.ways & uint8_t(hears)))
      co_return fmt::format("a message that it may not send here: {}", kind.type);
    if (header.size > kind.most)
      co_return fmt::format("a message that is too long: {} of {} bytes, at most {}", kind.type, header.size,
                            kind.most);
    bytes.clear();
    while (bytes.size() < header.size) { // memory grows with what comes, not with what the header promises
      wrong = co_await readSealed(bytes, std::min<uint64_t>(header.size - bytes.size(), kPiece));
      if (ended || !wrong.empty())
        co_return wrong;
    }
    Message message;
    if (wrong = decode(header.kind, bytes, message); !wrong.empty())
      co_return wrong;
    try {
      onMessage(std::move(message));
    } catch (const nlohmann::json::exception &) {
      co_return fmt::format("a message that lacks something, or has something of the wrong type: {}", kind.type);
    }
    if (!refused.empty())
      co_return refused;
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

/// All that was to be said has left.
void Channel::leave() {
  std::error_code ignored;
  if (discarding)
    socket.shutdown(asio::socket_base::shutdown_send, ignored);
  else
    hangUp();
}

/// The other end hears of it also where a process that this one has forked still has the socket.
void Channel::hangUp() {
  closing = true;
  std::error_code ignored;
  socket.shutdown(asio::socket_base::shutdown_both, ignored);
  socket.close(ignored);
}

} // namespace pipec::runtime
