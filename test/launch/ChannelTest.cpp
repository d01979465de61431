// Messages as they go over the wire, and what becomes of those that somebody has touched or that nobody would send.
#include "runtime/launch/Channel.h"
#include "test/launch/Played.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace pipec;
using namespace pipec::runtime;
using namespace pipec::runtime::messages;
using pipec::test::encoded;

namespace {

std::pair<Session, Session> sessions() {
  Key up, down;
  up.fill(1);
  down.fill(2);
  return {Session{Seal(up), Seal(down)}, Session{Seal(down), Seal(up)}};
}

struct Pair {
  Pair() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0); }
  Channel::Socket socket() {
    return Channel::Socket(io, asio::generic::stream_protocol(AF_UNIX, 0), ends[0]); // which closes it
  }
  asio::io_context io;
  int ends[2];
};

/// What a channel writes.
Bytes written(Session session, const std::vector<Message> &messages) {
  Pair pair;
  std::future<Bytes> bytes = std::async(std::launch::async, [&] {
    Bytes all, some(1 << 16);
    for (ssize_t n; (n = ::read(pair.ends[1], some.data(), some.size())) > 0;)
      all.insert(all.end(), some.begin(), some.begin() + n);
    return all;
  });
  auto channel = std::make_shared<Channel>(pair.socket(), std::move(session));
  for (const Message &message : messages)
    channel->send(encoded(message));
  channel->close();
  pair.io.run();
  Bytes all = bytes.get();
  ::close(pair.ends[1]);
  return all;
}

struct Heard {
  std::vector<Message> messages;
  std::optional<std::string> closed;
};

/// What a channel makes of these bytes and the end after them.
Heard hear(Session session, const Bytes &bytes, Way way = ToRank) {
  Pair pair;
  Heard heard;
  auto channel = std::make_shared<Channel>(pair.socket(), std::move(session));
  const auto closed = [&](std::string why) { heard.closed = std::move(why); };
  const auto onMessage = [&]<typename T>(T &&message) {
    heard.messages.push_back(write(message));
    heard.messages.back()["type"] = T::kind.name;
  };
  if (way == ToController)
    channel->start<ToController>(onMessage, closed);
  else if (way == ToRank)
    channel->start<ToRank>(onMessage, closed);
  else if (way == ToRun)
    channel->start<ToRun>(onMessage, closed);
  else
    channel->start<ToClient>(onMessage, closed);
  std::thread says([&] {
    for (size_t at = 0; at < bytes.size();) {
      ssize_t n = ::send(pair.ends[1], bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (n <= 0)
        break;
      at += size_t(n);
    }
    ::shutdown(pair.ends[1], SHUT_WR);
  });
  pair.io.run();
  channel.reset(); // closes its end, so that nobody writes for ever
  says.join();
  ::close(pair.ends[1]);
  return heard;
}

const Message kPermit{{"type", "permit"}, {"until", 8}, {"epoch", 1}, {"program", 0}, {"last", false}};
const Message kEnd{{"type", "end"}, {"message", "rank 3 is gone"}};
constexpr const char *kChanged = "what it sent was changed, repeated or left out on the way";

bool holds(const Bytes &bytes, const std::string &text) {
  return std::search(bytes.begin(), bytes.end(), text.begin(), text.end()) != bytes.end();
}

Bytes operator+(Bytes a, const Bytes &b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(Channel, NobodyInBetweenCanReadWhatIsSaid) {
  const Message plan{{"type", "prepare"}, {"program", 2}, {"plan", Message::binary(Bytes(5 << 20, 'x'))}};
  const std::vector<Message> messages{kPermit, plan, kEnd};
  const Bytes sealed = written(sessions().first, messages);
  for (const char *text : {"permit", "prepare", "rank 3 is gone", "xxxxxxxx"})
    EXPECT_FALSE(holds(sealed, text)) << text;
  Heard heard = hear(sessions().second, sealed);
  EXPECT_EQ(heard.messages, messages);
  EXPECT_EQ(heard.closed, "");

  const Bytes plain = written({}, messages); // within the machine
  EXPECT_TRUE(holds(plain, "rank 3 is gone"));
  EXPECT_EQ(hear({}, plain).messages, messages);
}

TEST(Channel, WhatIsChangedRepeatedOrLeftOutIsRefused) {
  const Bytes first = written(sessions().first, {kPermit});
  const Bytes both = written(sessions().first, {kPermit, kEnd});
  const Bytes second(both.begin() + ptrdiff_t(first.size()), both.end());
  for (size_t i = 0; i < first.size(); ++i) {
    Bytes changed = first;
    changed[i] ^= 0x10;
    Heard heard = hear(sessions().second, changed);
    EXPECT_TRUE(heard.messages.empty()) << i;
    EXPECT_EQ(heard.closed, kChanged) << i;
  }
  for (const auto &[bytes, taken] :
       {std::pair(first + first, 1u), {second, 0u}, {second + first, 0u}, {first + second + second, 2u}}) {
    Heard heard = hear(sessions().second, bytes);
    EXPECT_EQ(heard.messages.size(), taken);
    EXPECT_EQ(heard.closed, kChanged);
  }
  EXPECT_EQ(hear(sessions().first, first).closed, kChanged); // what one end has said is not said back to it
  for (size_t cut = 0; cut < first.size(); ++cut)
    EXPECT_TRUE(hear(sessions().second, Bytes(first.begin(), first.begin() + ptrdiff_t(cut))).messages.empty()) << cut;
}

/// A message whose header says what it likes.
Bytes made(const Header &header, const Bytes &body = {}) {
  Seal seal = sessions().first.out;
  Bytes all;
  for (const Bytes &text :
       {Bytes(reinterpret_cast<const uint8_t *>(&header), reinterpret_cast<const uint8_t *>(&header) + sizeof header),
        body}) {
    Bytes sealed = text + Bytes(seal.extra());
    seal.close(sealed);
    all = all + sealed;
  }
  return all;
}

constexpr Way kWays[] = {ToController, ToRank, ToRun, ToClient};

TEST(Channel, EachKindHasItsLimitAndGoesItsWays) {
  uint64_t least = UINT64_MAX, most = 0;
  for (uint32_t kind = 0; kind < kKinds.size(); ++kind) {
    const Kind &of = kKinds[kind];
    least = std::min(least, of.most);
    most = std::max(most, of.most);
    EXPECT_NE(of.ways, 0) << of.name;
    for (const Way way : kWays) {
      const bool goes = (of.ways & way) != 0;
      Heard heard = hear(sessions().second, made({kind, 0, of.most + 1}), way);
      EXPECT_EQ(heard.closed, goes ? "it sent a message that is too long, " + std::to_string(of.most + 1) +
                                         " bytes of at most " + std::to_string(of.most) + ": " + std::string(of.name)
                                   : "it sent a message that it may not send here: " + std::string(of.name));
      EXPECT_TRUE(heard.messages.empty());
      if (goes) {
        EXPECT_EQ(hear(sessions().second, made({kind, 0, of.most}), way).closed, "") << of.name; // and waited for
      }
    }
  }
  EXPECT_LT(least, most);
}

uint32_t kindOf(std::string_view type) {
  for (uint32_t kind = 0; kind < kKinds.size(); ++kind)
    if (kKinds[kind].name == type)
      return kind;
  return UINT32_MAX;
}

TEST(Channel, AMessageIsOfTheKindThatItsHeaderSays) {
  const Bytes body = encoded(kPermit)->bytes;
  EXPECT_EQ(hear(sessions().second, made({kindOf("permit"), 0, body.size()}, body)).messages,
            std::vector<Message>{kPermit});
  const auto unknown = uint32_t(kKinds.size());
  for (const auto &[kind, says] :
       {std::pair(kindOf("prepare"), std::string("a message that has fields that it should not have: prepare")),
        {kindOf("table"), "a message that lacks \"first\": table"},
        {unknown, "a message of unknown kind " + std::to_string(unknown)},
        {UINT32_MAX, "a message of unknown kind 4294967295"}}) {
    Heard heard = hear(sessions().second, made({kind, 0, body.size()}, body));
    EXPECT_TRUE(heard.messages.empty());
    EXPECT_EQ(heard.closed, "it sent " + says);
  }
}

TEST(Channel, WhatCannotBeReadIsNotRead) {
  const auto unread = [](size_t bytes) {
    return fmt::format("it sent a message that cannot be read, {} bytes of no object: permit", bytes);
  };
  const std::string deep = "it sent a message that has more than 8 objects and arrays in each other: permit";
  const auto nested = [](size_t depth) { return Bytes{0xa1, 0x61, 'a'} + Bytes(depth, 0x81) + Bytes{0x00}; };
  for (const auto &[body, says] : {std::pair(Bytes(100, 0xff), unread(100)),
                                   {nested(7), "it sent a message that lacks \"until\": permit"},
                                   {nested(8), deep},
                                   {nested(60'000), deep},
                                   {Bytes(60'000, 0x9f), deep},
                                   {Bytes{0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, unread(9)},
                                   {Bytes{0xbb, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, unread(9)},
                                   {Bytes{0x7b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, unread(9)},
                                   {Bytes{0x80}, unread(1)},
                                   {Bytes{}, unread(0)}}) {
    Heard heard = hear(sessions().second, made({kindOf("permit"), 0, body.size()}, body));
    EXPECT_TRUE(heard.messages.empty());
    EXPECT_EQ(heard.closed, says);
  }
}

template <typename T> void comesBack(T message) {
  const Encoded sent = encode(message);
  EXPECT_EQ(kKinds[sent->header.kind].name, T::kind.name);
  EXPECT_EQ(sent->header.size, sent->bytes.size());
  T heard;
  EXPECT_EQ(decode(sent->bytes, heard), "") << T::kind.name;
  EXPECT_EQ(write(heard), write(message));
}

TEST(Messages, AllComeBackAsTheyWere) {
  std::apply([](const auto &...each) { (comesBack(each), ...); }, All());
  comesBack(Progress{INT64_MAX, INT64_MIN});
  comesBack(messages::Permit{8, 1, 0, true, 1000});
  comesBack(messages::Prepare{2, Bytes{0, 255}});
  const StateFile file{"step-4-rank-1.state", 3, "abc"};
  comesBack(Saved{4,
                  {{1, file}},
                  true,
                  false,
                  std::vector<OwnedUnits>{{1, 2, 3, "batch", 4, {{5, 6}}}},
                  JobState{1, "a", 2, file},
                  Numbers{1, 2}});
  comesBack(Layers{{4, {{1}, {2}}, {file, file}, 2, 3, {{}}, {}}});
  comesBack(Table{1, "boot", {{"127.0.0.1", 65535}}, {}});
  comesBack(Report{{1, 2}, {}, {6, 7}, {3}, {}, {1, 2, 3, 4, 5}, "ended", {}});
  comesBack(Done{{{"plans", {{{"plan", Message::binary({1, 2})}}}}}});
}

TEST(Channel, WhoSendsWhatItMayNotIsTold) {
  for (const auto &[way, kind] : {std::pair(ToController, "permit"), {ToRank, "report"}, {ToRun, "put"}}) {
    Pair pair;
    auto channel = std::make_shared<Channel>(pair.socket());
    std::string closed;
    const auto ignore = [](uint32_t, std::span<const uint8_t>) { return std::string(); };
    channel->start(way, ignore, [&](const std::string &why) { closed = why; });
    const Header header{kindOf(kind), 0, 1};
    ASSERT_EQ(::send(pair.ends[1], &header, sizeof header, 0), ssize_t(sizeof header));
    asio::io_context io;
    auto other = std::make_shared<Channel>(io, pair.ends[1]);
    std::vector<std::string> told;
    const Way back = way == ToController ? ToRank : way == ToRank ? ToController : ToClient;
    other->start(
        back,
        [&](uint32_t, std::span<const uint8_t> bytes) {
          told.push_back(Message::from_cbor(bytes.begin(), bytes.end()).at("message"));
          return std::string();
        },
        [&](const std::string &) { other->close(); });
    std::thread hears([&] { io.run(); });
    pair.io.run();
    hears.join();
    EXPECT_EQ(closed, std::string("it sent a message that it may not send here: ") + kind);
    EXPECT_EQ(told,
              std::vector<std::string>{
                  std::string("what it was sent ends the connection: a message that it may not send here: ") + kind});
  }
}

} // namespace
