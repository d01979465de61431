// What a connection puts on the wire and takes from it, seen from between its ends.
#include "runtime/transport/host/Connection.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>

using namespace pipec;
using namespace pipec::runtime;
using asio::ip::tcp;

namespace {

using Bytes = std::vector<uint8_t>;

struct Heard final : Connection::Handler {
  void onCredit(int32_t, const wire::Frame &frame) override { credits.push_back(frame); }
  Slot onData(int32_t, const wire::Frame &frame) override {
    payload.resize(frame.bytes);
    return {reinterpret_cast<std::byte *>(payload.data()), plan::Bytes(frame.bytes)};
  }
  void onArrived(int32_t, const wire::Frame &) override { ++arrived; }
  void onSum(int32_t, const wire::Frame &) override {}
  void onAsk(int32_t, const wire::Frame &) override {}
  const std::vector<asio::mutable_buffer> *onBlock(int32_t, const wire::Frame &) override { return nullptr; }
  void onBlockArrived(int32_t, const wire::Frame &) override {}
  std::string onTalk(int32_t, uint32_t kind, std::span<const uint8_t> bytes) override {
    talk = std::to_string(kind) + std::string(bytes.begin(), bytes.end());
    return refuses;
  }
  void onAbort(int32_t, const std::string &reason) override { abort = reason; }
  void onLost(int32_t, const std::string &reason) override { lost = reason; }

  std::vector<wire::Frame> credits;
  Bytes payload;
  int arrived = 0;
  std::string abort, lost, talk, refuses;
};

/// A connection and its other end, bare.
struct Wire {
  explicit Wire(Session session) : other(io) {
    tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
    other.connect(acceptor.local_endpoint());
    connection.emplace(Line(acceptor.accept(), std::move(session)), 1, heard);
  }
  asio::io_context io;
  tcp::socket other;
  Heard heard;
  std::optional<Connection> connection;
};

std::pair<Session, Session> sessions() {
  Key up, down;
  up.fill(1);
  down.fill(2);
  return {Session{Seal(up), Seal(down)}, Session{Seal(down), Seal(up)}};
}

const std::string kText = "the payload, which stays as it is";

wire::Frame dataFrame() {
  wire::Frame frame;
  frame.type = wire::Type::Data;
  frame.bytes = kText.size();
  return frame;
}

/// What a credit, data and the end of the run look like on the wire.
Bytes said() {
  Wire wire(sessions().first);
  wire.connection->write({}, nullptr, {});
  wire.connection->write(dataFrame(), reinterpret_cast<const std::byte *>(kText.data()), {});
  wire.io.run();
  wire.connection->abort("rank 3 is gone");
  Bytes bytes;
  std::error_code error;
  asio::read(wire.other, asio::dynamic_buffer(bytes), error);
  return bytes;
}

void hear(Wire &wire, const Bytes &bytes) {
  wire.connection->start();
  asio::write(wire.other, asio::buffer(bytes));
  wire.other.shutdown(tcp::socket::shutdown_send);
  wire.io.run();
}

bool holds(const Bytes &bytes, const std::string &text) {
  return std::search(bytes.begin(), bytes.end(), text.begin(), text.end()) != bytes.end();
}

TEST(Connection, FramesAreSealedAndPayloadsPlain) {
  const Bytes bytes = said();
  EXPECT_TRUE(holds(bytes, kText));
  EXPECT_FALSE(holds(bytes, "rank 3 is gone"));
  wire::Frame frame = dataFrame();
  EXPECT_FALSE(holds(bytes, {reinterpret_cast<const char *>(&frame), sizeof frame}));

  Wire wire(sessions().second);
  hear(wire, bytes);
  EXPECT_EQ(wire.heard.credits.size(), 1u);
  EXPECT_EQ(wire.heard.arrived, 1);
  EXPECT_EQ(std::string(wire.heard.payload.begin(), wire.heard.payload.end()), kText);
  EXPECT_EQ(wire.heard.abort, "rank 3 is gone");
}

TEST(Connection, EveryChangedByteOfAFrameIsNoticed) {
  const Bytes bytes = said();
  const size_t frame = sizeof(wire::Frame) + 16, payload = 2 * frame;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i >= payload && i < payload + kText.size())
      continue;
    Bytes changed = bytes;
    changed[i] ^= 1;
    Wire wire(sessions().second);
    hear(wire, changed);
    EXPECT_EQ(wire.heard.abort, "") << i;
    EXPECT_EQ(wire.heard.lost, "what it sent was changed, repeated or left out on the way") << i;
  }
  Wire repeated(sessions().second), left(sessions().second);
  Bytes twice(bytes.begin(), bytes.begin() + frame);
  twice.insert(twice.end(), bytes.begin(), bytes.end());
  hear(repeated, twice);
  EXPECT_EQ(repeated.heard.credits.size(), 1u);
  EXPECT_NE(repeated.heard.lost, "");
  hear(left, Bytes(bytes.begin() + frame, bytes.end()));
  EXPECT_EQ(left.heard.arrived, 0);
  EXPECT_NE(left.heard.lost, "");
}

} // namespace
