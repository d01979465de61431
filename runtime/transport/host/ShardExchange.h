// The calls between the shards of a rank, over the connections between all of them. A call is one round of messages,
// one from each shard to each other; a sum of much data takes two. So a shard is at most one round ahead of another:
// messages of the next round are kept. A sum adds in the order of shards, each shard its block of the numbers, whatever
// arrives first. The calling thread waits; everything else runs on the io_context's thread.
#pragma once

#include "runtime/device/ShardGroup.h"
#include "runtime/device/Wait.h"
#include "runtime/plan/Place.h"
#include "runtime/transport/host/BlockExchange.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

namespace pipec::runtime {

class ShardExchange final : public ShardGroup {
public:
  using Time = plan::Time;
  static constexpr plan::Bytes kSmall = 32 * 1024; // up to this size, or with two shards, each sends all to all

  /// `io` must outlive this object.
  ShardExchange(const plan::Place &place, asio::io_context &io);
  /// To call before the first call between shards. `owner` must outlive all calls.
  void connect(BlockExchange::Owner &itsOwner) { owner = &itsOwner; }

  int32_t shard() const override { return place.shard; }
  int32_t shards() const override { return place.shards; }
  void begin(const Label &label) override;
  void end() override { within.reset(); }
  std::string meet(Time ready, Time &latest) override;
  std::string sum(std::byte *values, int64_t count, Number type) override;
  std::string scatter(const std::byte *values, int64_t count, Number type, std::byte *share) override;
  std::string gather(const std::byte *share, int64_t count, Number type, std::byte *values) override;
  std::string exchange(const std::byte *out, std::span<const int64_t> sent, std::byte *in,
                       std::span<const int64_t> received) override;

  // On the io_context's thread, or once that thread has ended.

  /// Whether the process is one of the other shards.
  bool has(int32_t process) const;
  /// Returns where the payload of a frame goes; null: the frame is refused.
  const std::vector<asio::mutable_buffer> *onPart(int32_t process, const wire::Frame &frame);
  void onArrived(int32_t process, const wire::Frame &frame);
  /// To call when the run has failed and no connection touches a payload any more: ends the wait of the calling thread.
  void release();
  /// Whether a thread waits in a call.
  bool open() const { return isOpen; }
  /// The call: "rank 0 shard 1: F stage 0 microbatch 3: sum 2 (1024 float32)".
  std::string describe() const;
  /// The call, with a shard that has not come to it, if any.
  std::string waiting() const;
  /// The same as a Wait, while a thread waits in a call.
  Wait wait() const;

private:
  /// What is sent to a shard in a round, and where the shard's data goes.
  struct Piece {
    const std::byte *out = nullptr;
    plan::Bytes outBytes = 0;
    std::byte *in = nullptr;
    plan::Bytes inBytes = 0;
  };
  struct Round {
    Label label;
    wire::CallTag call;
    std::vector<Piece> pieces; // by shard
    Time ready = 0;
  };
  struct Peer {
    bool came = false;                         // its message of the round has come
    std::optional<wire::Frame> early;          // its frame of the next round
    bool whole = false;                        // whether all of its payload has come
    std::vector<std::byte> kept;               // the payload
    std::vector<asio::mutable_buffer> landing; // of the message that is being received
  };
  wire::CallTag next(wire::Call call, int64_t count = 0, uint8_t type = 0);
  std::string trade(const wire::CallTag &call, std::vector<Piece> pieces, Time ready = 0);
  std::string scatterBlocks(const wire::CallTag &call, const std::byte *values, const std::vector<int64_t> &firsts,
                            Number type, std::byte *share);
  std::string gatherBlocks(const wire::CallTag &call, const std::byte *share, const std::vector<int64_t> &firsts,
                           Number type, std::byte *values);
  void start(Round round);
  bool isDue(int32_t shard, const wire::Frame &frame);
  void refuse(int32_t process, const std::string &wrong);
  void came(int32_t shard, const wire::Frame &frame);
  void look();
  int32_t processOf(int32_t shard) const { return place.world() - place.shard + shard; }

  const plan::Place place;
  asio::io_context &io;
  BlockExchange::Owner *owner = nullptr;

  // Used by the calling thread:
  std::optional<Label> within;
  uint32_t calls = 0;             // number of calls since begin()
  std::vector<std::byte> scratch; // numbers that are to be added

  std::mutex mutex; // guards the next three
  std::condition_variable changed;
  bool finished = false;
  bool released = false;
  Time last = 0; // when the last shard was ready; set before `finished`

  // Used by the io_context's thread:
  Round current;
  bool isOpen = false;
  int64_t since = 0; // nanoseconds
  std::vector<Peer> peers;
  int32_t sending = 0; // number of messages that are still being sent
  Time latest = 0;
  bool stopped = false;
};

} // namespace pipec::runtime
