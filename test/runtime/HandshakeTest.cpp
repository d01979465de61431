// Two ends that shake hands while somebody sits between them, who sees all and changes, repeats or cuts what is said.
#include "runtime/transport/host/Handshake.h"

#include <algorithm>
#include <functional>
#include <gtest/gtest.h>
#include <optional>

using namespace pipec;
using namespace pipec::runtime;
using asio::ip::tcp;

namespace {

constexpr auto kAwait = asio::use_awaitable;
using Bytes = std::vector<uint8_t>;

Identity identityOf(int32_t rank) {
  Identity identity;
  identity.rank = rank;
  identity.world = 2;
  identity.secret.fill(7);
  return identity;
}

/// A caller, a listener, and one between them.
class Between {
public:
  /// May change the next byte on its way; `from`: 0 the caller's, 1 the listener's.
  std::function<void(int from, size_t at, uint8_t &byte)> meddle;
  /// After so many bytes of the caller's the line is cut.
  size_t cut = SIZE_MAX;
  Bytes said[2];
  Greeting greetings[2];

  void run() {
    tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
    while (ends.size() < 2) {
      ends.emplace_back(io).connect(acceptor.local_endpoint());
      middles.push_back(acceptor.accept());
      ends.back().set_option(tcp::no_delay(true));
      middles.back().set_option(tcp::no_delay(true));
    }
    for (int end : {0, 1}) {
      asio::co_spawn(io, shake(end), asio::detached);
      asio::co_spawn(io, relay(end), asio::detached);
    }
    io.run();
  }

  bool trusts(int end) const { return !greetings[end].stranger && greetings[end].status.ok(); }

private:
  asio::awaitable<void> shake(int end) {
    const Identity identity = identityOf(end);
    greetings[end] = co_await greet(ends[size_t(end)], identity, end == 0 ? wire::Side::Dials : wire::Side::Accepts);
    if (!trusts(end) || ++done == 2)
      close();
  }

  asio::awaitable<void> relay(int from) {
    std::error_code error, ignored;
    Bytes bytes(1024), &all = said[from];
    while (!error) {
      size_t count =
          co_await middles[size_t(from)].async_read_some(asio::buffer(bytes), asio::redirect_error(kAwait, error));
      if (from == 0)
        count = std::min(count, cut - all.size());
      for (size_t i = 0; i < count; ++i) {
        if (meddle)
          meddle(from, all.size(), bytes[i]);
        all.push_back(bytes[i]);
      }
      co_await asio::async_write(middles[size_t(1 - from)], asio::buffer(bytes, count),
                                 asio::redirect_error(kAwait, ignored));
      if (from == 0 && all.size() == cut)
        break;
    }
    middles[size_t(1 - from)].shutdown(tcp::socket::shutdown_send, ignored);
  }

  void close() {
    std::error_code ignored;
    for (tcp::socket &end : ends)
      end.shutdown(tcp::socket::shutdown_both, ignored);
  }

  asio::io_context io;
  std::vector<tcp::socket> ends, middles;
  int done = 0;
};

constexpr size_t kTerms = sizeof(wire::Terms) + 16;
constexpr size_t kCallers = sizeof(wire::Hello) + sizeof(wire::Proof) + kTerms;
constexpr size_t kListeners = sizeof(wire::Hello) + sizeof(wire::Answer) + kTerms;

TEST(Handshake, BothTrustEachOther) {
  Between between;
  between.run();
  for (int end : {0, 1}) {
    EXPECT_TRUE(between.trusts(end)) << between.greetings[end].status.message;
    EXPECT_EQ(between.greetings[end].peer, 1 - end);
  }
  EXPECT_EQ(between.said[0].size(), kCallers);
  EXPECT_EQ(between.said[1].size(), kListeners);
}

// Whatever is changed, who hears it does not trust the other.
TEST(Handshake, EveryChangedByteIsNoticed) {
  for (int from : {0, 1})
    for (size_t changed = 0; changed < (from == 0 ? kCallers : kListeners); ++changed) {
      Between between;
      between.meddle = [&](int of, size_t at, uint8_t &byte) { byte ^= of == from && at == changed ? 0x40 : 0; };
      between.run();
      EXPECT_FALSE(between.trusts(1 - from)) << (from == 0 ? "caller's" : "listener's") << " byte " << changed;
      if (changed < sizeof(wire::Hello)) { // on which the proofs are: neither does
        EXPECT_FALSE(between.trusts(from)) << changed;
      }
    }
}

// Nor does the listener if it hears only a part, or what a caller has said to it before.
TEST(Handshake, WhatIsCutOrRepeatedIsNoticed) {
  for (size_t cut = 1; cut < kCallers; ++cut) {
    Between between;
    between.cut = cut;
    between.run();
    EXPECT_FALSE(between.trusts(1)) << cut;
  }
  Between first, second;
  first.run();
  ASSERT_TRUE(first.trusts(1));
  second.meddle = [&](int from, size_t at, uint8_t &byte) { byte = from == 0 ? first.said[0][at] : byte; };
  second.run();
  EXPECT_FALSE(second.trusts(1));
  EXPECT_NE(second.greetings[1].status.message.find("the secret differs"), std::string::npos);
}

// A listener that has no proof of its own has nothing of the caller but its proof, which is bound to this connection.
TEST(Handshake, AProofIsGoodForOneConnection) {
  Exchange caller, listener, other;
  Key secret;
  secret.fill(7);
  Agreement own, same, others, guessed;
  const Bytes transcript(208, 1), later(208, 2);
  ASSERT_TRUE(caller.agree(true, listener.publicKey(), secret, transcript, own));
  ASSERT_TRUE(listener.agree(false, caller.publicKey(), secret, transcript, same));
  EXPECT_EQ(own.callerProof, same.callerProof);
  EXPECT_EQ(own.listenerProof, same.listenerProof);
  EXPECT_NE(own.callerProof, own.listenerProof);
  // Who knows the secret and all that was said, but took no part, cannot even tell that the proof is right.
  ASSERT_TRUE(other.agree(true, listener.publicKey(), secret, transcript, others));
  EXPECT_NE(others.callerProof, own.callerProof);
  ASSERT_TRUE(listener.agree(false, caller.publicKey(), secret, later, others));
  EXPECT_NE(others.callerProof, own.callerProof);
  secret.fill(8);
  ASSERT_TRUE(listener.agree(false, caller.publicKey(), secret, transcript, guessed));
  EXPECT_NE(guessed.callerProof, own.callerProof);
}

TEST(Handshake, ASecretIsStretchedForItsJob) {
  std::array<uint8_t, 16> job{1}, other{2};
  Key key, again, elsewhere, wrong;
  ASSERT_TRUE(stretch("weak", job, key).ok());
  ASSERT_TRUE(stretch("weak", job, again).ok());
  ASSERT_TRUE(stretch("weak", other, elsewhere).ok());
  ASSERT_TRUE(stretch("week", job, wrong).ok());
  EXPECT_EQ(key, again);
  EXPECT_NE(key, elsewhere);
  EXPECT_NE(key, wrong);
}

} // namespace
