// The collectives of layers between the replicas of a rank, over their connections: a ring of blocks (BlockRing.h) in
// the memory in which the stage keeps gradients and weights. Parts that are to be added are received in memory of this
// object and added on a thread of their own, so that they delay neither transfers nor computations. Everything else
// runs on the io_context's thread.
#pragma once

#include "runtime/device/Summand.h"
#include "runtime/transport/Shares.h"
#include "runtime/transport/host/BlockRing.h"
#include "runtime/transport/host/Connection.h"

#include <array>

namespace pipec::runtime {

class BlockExchange final : private BlockRing::Carrier {
public:
  static constexpr plan::Bytes kPart = 256 * 1024; // the most bytes of a part

  class Owner {
  public:
    virtual ~Owner() = default;
    /// Connection::write() to a process.
    virtual void write(int32_t process, const wire::Frame &frame, std::vector<asio::const_buffer> payload,
                       std::function<void()> written) = 0;
    /// To call when the collective may be done.
    virtual void exchanged() = 0;
    /// Reports an impossible message of a neighbour.
    virtual void refuse(int32_t process, const std::string &wrong) = 0;
  };

  /// `members`: world ranks, `self` one of them. `adder`: one thread, which ends before this object does. All must
  /// outlive this object.
  BlockExchange(std::vector<int32_t> members, int32_t self, asio::io_context &io, asio::thread_pool &adder,
                Owner &owner);

  /// To call when the process comes to a collective of the layers of a stage, and has ended the one before.
  void begin(const Label &label, std::span<const LayerMemory> layers, plan::Time ready);
  bool under() const { return ring.under(); }
  bool done() const { return ring.done(); }
  plan::Time latest() const { return ring.latest(); }
  void end() { ring.end(); }

  // Frames from neighbours.

  void onAsk(int32_t process, const wire::Frame &frame);
  /// Returns where the payload goes; null: the frame is refused.
  const std::vector<asio::mutable_buffer> *onBlock(int32_t process, const wire::Frame &frame);
  void onArrived(int32_t process, const wire::Frame &frame);

  bool has(int32_t process) const { return process == before() || process == after(); }
  /// A neighbour that is not known to have come to the collective; -1: both have.
  int32_t missing() const { return !ring.heard() ? before() : !ring.wanted() ? after() : -1; }
  int32_t before() const { return members[size_t(ring.before())]; }

private:
  using Part = std::vector<Extent>;
  void ask(const wire::Tag &tag, int64_t count) override;
  void give(const wire::Tag &tag, const BlockRing::Message &message, plan::Time ready) override;
  void add(const BlockRing::Message &message);
  Part &partOf(const BlockRing::Message &message) { return blocks[size_t(message.block)][size_t(message.part)]; }
  int32_t after() const { return members[size_t(ring.after())]; }

  const std::vector<int32_t> members;
  asio::io_context &io;
  asio::thread_pool &adder;
  Owner &owner;
  BlockRing ring;
  std::vector<std::vector<Part>> blocks;                                  // of the current collective
  std::array<std::vector<std::byte>, size_t(BlockRing::kAhead)> received; // parts to be added, by message
  std::vector<asio::mutable_buffer> landing;                              // of the message that is being received
};

} // namespace pipec::runtime
