// What waits to be sent: in order, in pieces, sealed but for payloads, and no more than the bound.
#include "runtime/transport/Outbox.h"

#include <gtest/gtest.h>

using namespace pipec::runtime;

namespace {

using Bytes = Outbox::Bytes;

std::shared_ptr<const Bytes> body(size_t size) { return std::make_shared<const Bytes>(size, 'b'); }

Bytes textOf(std::span<const asio::const_buffer> buffers) {
  Bytes text;
  for (const asio::const_buffer &each : buffers)
    text.insert(text.end(), static_cast<const uint8_t *>(each.data()),
                static_cast<const uint8_t *>(each.data()) + each.size());
  return text;
}

TEST(Outbox, WhatWaitsBehindTheFirstHasABound) {
  Outbox outbox(Seal(), 100);
  const Bytes head(10, 'h');
  EXPECT_TRUE(outbox.push(head, body(1000), {}, {}));
  EXPECT_TRUE(outbox.push(head, body(80), {}, {}));
  EXPECT_FALSE(outbox.push(head, body(1), {}, {}));
  EXPECT_TRUE(outbox.push(head, nullptr, {}, {}));
  EXPECT_FALSE(outbox.push(head, nullptr, {}, {}));
  EXPECT_EQ(outbox.size(), 3u);
  outbox.next();
  EXPECT_TRUE(outbox.wrote());
  EXPECT_TRUE(outbox.push(head, body(80), {}, {})); // the place of the one that is being written
  EXPECT_FALSE(outbox.push(head, body(1), {}, {}));
  while (!outbox.empty())
    outbox.giveUp();
  EXPECT_TRUE(outbox.push(head, body(1000), {}, {}));
  EXPECT_TRUE(outbox.push(head, body(90), {}, {}));
}

TEST(Outbox, ABodyGoesInPiecesAndAPayloadBehindTheLast) {
  Key key;
  key.fill(7);
  Outbox outbox{Seal(key), 0};
  Seal other(key);
  const Bytes head(Outbox::kHead, 'h'), payload(5, 'p');
  int written = 0;
  ASSERT_TRUE(outbox.push(head, body(2 * Outbox::kPiece + 3), {asio::buffer(payload)}, [&] { ++written; }));
  const auto open = [&](std::span<uint8_t> sealed) {
    EXPECT_TRUE(other.open(sealed));
    return Bytes(sealed.begin(), sealed.end() - ptrdiff_t(other.extra()));
  };
  const size_t sealedHead = head.size() + other.extra();
  Bytes text = textOf(outbox.next());
  ASSERT_EQ(text.size(), sealedHead + Outbox::kPiece + other.extra());
  EXPECT_EQ(open(std::span(text).first(sealedHead)), head);
  EXPECT_EQ(open(std::span(text).subspan(sealedHead)), Bytes(Outbox::kPiece, 'b'));
  EXPECT_FALSE(outbox.wrote());
  text = textOf(outbox.next());
  EXPECT_EQ(open(text), Bytes(Outbox::kPiece, 'b'));
  EXPECT_FALSE(outbox.wrote());
  text = textOf(outbox.next());
  ASSERT_EQ(text.size(), 3 + other.extra() + payload.size());
  EXPECT_EQ(open(std::span(text).first(3 + other.extra())), Bytes(3, 'b'));
  EXPECT_EQ(Bytes(text.end() - 5, text.end()), payload);
  const std::optional<Outbox::Written> done = outbox.wrote();
  ASSERT_TRUE(done && *done);
  (*done)();
  EXPECT_EQ(written, 1);
  EXPECT_TRUE(outbox.empty());
}

} // namespace
