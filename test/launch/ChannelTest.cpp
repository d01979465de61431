// Messages as they go over the wire, and what becomes of those that somebody has touched or that nobody would send.
#include "runtime/launch/Channel.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace pipec;
using namespace pipec::runtime;

namespace {

using Bytes = std::vector<uint8_t>;

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
  auto channel = std::make_shared<Channel>(pair.socket(), Way::ToController, std::move(session));
  for (const Message &message : messages)
    channel->send(message);
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
Heard hear(Session session, const Bytes &bytes, Way way = Way::ToRank) {
  Pair pair;
  Heard heard;
  auto channel = std::make_shared<Channel>(pair.socket(), way, std::move(session));
  channel->start([&](Message message) { heard.messages.push_back(std::move(message)); },
                 [&](std::string why) { heard.closed = std::move(why); });
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
Bytes made(const Channel::Header &header, const Bytes &body = {}) {
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

constexpr Way kWays[] = {Way::ToController, Way::ToRank, Way::ToRun, Way::ToClient};

TEST(Channel, EachKindHasItsLimitAndGoesItsWays) {
  uint64_t least = UINT64_MAX, most = 0;
  for (uint32_t kind = 0; kind < Channel::kinds().size(); ++kind) {
    const Channel::Kind &of = Channel::kinds()[kind];
    least = std::min(least, of.most);
    most = std::max(most, of.most);
    EXPECT_NE(of.ways, 0) << of.type;
    for (const Way way : kWays) {
      const bool goes = of.ways & uint8_t(way);
      Heard heard = hear(sessions().second, made({kind, 0, of.most + 1}), way);
      EXPECT_EQ(heard.closed, goes ? "it sent a message that is too long: " + std::string(of.type) + " of " +
                                         std::to_string(of.most + 1) + " bytes, at most " + std::to_string(of.most)
                                   : "it sent a message that it may not send here: " + std::string(of.type));
      EXPECT_TRUE(heard.messages.empty());
      if (goes) {
        EXPECT_EQ(hear(sessions().second, made({kind, 0, of.most}), way).closed, "") << of.type; // and waited for
      }
    }
  }
  EXPECT_LT(least, most);
}

uint32_t kindOf(std::string_view type) {
  for (uint32_t kind = 0; kind < Channel::kinds().size(); ++kind)
    if (Channel::kinds()[kind].type == type)
      return kind;
  return UINT32_MAX;
}

TEST(Channel, AMessageIsOfTheKindThatItsHeaderSays) {
  const Bytes body = Message::to_cbor(kPermit);
  EXPECT_EQ(hear(sessions().second, made({kindOf("permit"), 0, body.size()}, body)).messages,
            std::vector<Message>{kPermit});
  const auto unknown = uint32_t(Channel::kinds().size());
  for (const auto &[kind, says] : {std::pair(kindOf("prepare"), "a message that cannot be read, prepare of " +
                                                                    std::to_string(body.size()) + " bytes"),
                                   {unknown, "a message of unknown kind " + std::to_string(unknown)},
                                   {UINT32_MAX, "a message of unknown kind 4294967295"}}) {
    Heard heard = hear(sessions().second, made({kind, 0, body.size()}, body));
    EXPECT_TRUE(heard.messages.empty());
    EXPECT_EQ(heard.closed, "it sent " + says);
  }
}

TEST(Channel, WhatCannotBeReadIsNotRead) {
  const std::string unread = "it sent a message that cannot be read, permit of ";
  const std::string deep =
      "it sent a message that is too deep: permit with more than 8 objects and arrays in each other";
  const auto nested = [](size_t depth) { return Bytes{0xa1, 0x61, 'a'} + Bytes(depth, 0x81) + Bytes{0x00}; };
  Message eight = kPermit;
  eight["a"] = Message::parse("[[[[[[[]]]]]]]");
  EXPECT_EQ(
      hear(sessions().second, made({kindOf("permit"), 0, Message::to_cbor(eight).size()}, Message::to_cbor(eight)))
          .messages,
      std::vector<Message>{eight});
  for (const auto &[body, says] : {std::pair(Bytes(100, 0xff), unread + "100 bytes"),
                                   {nested(8), deep},
                                   {nested(60'000), deep},
                                   {Bytes(60'000, 0x9f), deep},
                                   {Bytes{0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, unread + "9 bytes"},
                                   {Bytes{0xbb, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, unread + "9 bytes"},
                                   {Bytes{0x7b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, unread + "9 bytes"},
                                   {Bytes{0x80}, unread + "1 bytes"},
                                   {Bytes{}, unread + "0 bytes"}}) {
    Heard heard = hear(sessions().second, made({kindOf("permit"), 0, body.size()}, body));
    EXPECT_TRUE(heard.messages.empty());
    EXPECT_EQ(heard.closed, says);
  }
}

TEST(Channel, WhoSendsWhatItMayNotIsTold) {
  for (const auto &[way, kind] :
       {std::pair(Way::ToController, "permit"), {Way::ToRank, "report"}, {Way::ToRun, "put"}}) {
    Pair pair;
    auto channel = std::make_shared<Channel>(pair.socket(), way);
    std::string closed;
    channel->start([](const Message &) {}, [&](const std::string &why) { closed = why; });
    const Channel::Header header{kindOf(kind), 0, 1};
    ASSERT_EQ(::send(pair.ends[1], &header, sizeof header, 0), ssize_t(sizeof header));
    asio::io_context io;
    auto other = std::make_shared<Channel>(io, pair.ends[1],
                                           way == Way::ToController ? Way::ToRank
                                           : way == Way::ToRank     ? Way::ToController
                                                                    : Way::ToClient);
    std::vector<std::string> told;
    other->start([&](const Message &message) { told.push_back(message.at("message")); },
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
