// One TCP connection with a peer, after the handshake. It writes frames in order and hands frames that come to a
// handler. Frames and the reason of an Abort are sealed, payloads are plain. Everything runs on the io_context's
// thread.
#pragma once

#include "runtime/transport/Outbox.h"
#include "runtime/transport/host/Meeting.h"
#include "runtime/transport/host/Wire.h"

#include <asio.hpp>
#include <functional>
#include <memory>

namespace pipec::runtime {

class Connection {
public:
  /// Handles what comes from a peer.
  class Handler {
  public:
    virtual ~Handler() = default;
    virtual void onCredit(int32_t peer, const wire::Frame &frame) = 0;
    /// Returns where the payload behind a Data frame goes. An empty slot if the payload is not wanted; the handler has
    /// then raised a failure.
    virtual Slot onData(int32_t peer, const wire::Frame &frame) = 0;
    /// The payload behind a Data frame is in its slot.
    virtual void onArrived(int32_t peer, const wire::Frame &frame) = 0;
    /// A frame of type Here, Sum or Total.
    virtual void onSum(int32_t peer, const wire::Frame &frame) = 0;
    virtual void onAsk(int32_t peer, const wire::Frame &frame) = 0;
    /// Where the payload behind a Block or Part frame goes; null if it is not wanted, as for onData.
    virtual const std::vector<asio::mutable_buffer> *onBlock(int32_t peer, const wire::Frame &frame) = 0;
    virtual void onBlockArrived(int32_t peer, const wire::Frame &frame) = 0;
    /// As HeardOfPeer.
    virtual std::string onTalk(int32_t peer, uint32_t kind, std::span<const uint8_t> bytes) = 0;
    virtual void onAbort(int32_t peer, const std::string &reason) = 0;
    virtual void onLost(int32_t peer, const std::string &reason) = 0;
  };

  Connection(Line line, int32_t peer, Handler &handler);

  void start();

  /// Queues a frame; `payload` (frame.bytes of it) must stay as it is until `written` is called.
  void write(const wire::Frame &frame, const std::byte *payload, std::function<void()> written);
  /// The same with a payload in pieces.
  void write(const wire::Frame &frame, std::vector<asio::const_buffer> payload, std::function<void()> written);

  /// Queues a message (HeardOfPeer), of wire::kTalkBytes at most.
  void talk(uint32_t kind, std::shared_ptr<const std::vector<uint8_t>> bytes);

  /// Makes the network between the two ends silent, as a scenario may ask for.
  void mute();

  /// Tells the peer the reason, if that can be done without waiting, and closes. The handler hears no more, and no
  /// payload is read or written from then on.
  void abort(const std::string &reason);

private:
  /// The most bytes of frames that may wait behind the one that is being written.
  static constexpr uint64_t kBacklog = 16 << 20;

  asio::awaitable<void> read();
  asio::awaitable<bool> readSealed(std::span<uint8_t> text, std::error_code &error);
  void push(const wire::Frame &frame, std::shared_ptr<const std::vector<uint8_t>> body,
            std::vector<asio::const_buffer> payload, std::function<void()> written);
  void writeNext();
  void lost(const std::error_code &error);

  asio::ip::tcp::socket socket;
  Seal in;
  Outbox outbox;
  int32_t peer;
  Handler &handler;
  std::vector<uint8_t> incoming; // sealed bytes
  bool closed = false;
  bool aborting = false;
};

} // namespace pipec::runtime
