// Transfers over sockets. Each communicator queue of the device is a small state machine on the io_context's thread:
// its head becomes ready, meets its other end, is on the wire, is done. Nothing here blocks.
//
// A receiver sends a credit when its receive is ready, and the sender answers a credit with the data (Wire.h). The wire
// of the plan is emulated on top. A transfer that costs `cost` in the plan holds both queues that long, and its data
// count as arrived a `latency` later. How that is timed depends on the pace and the network:
//   Pace::Carry: the credit carries when the receive was ready, the data when the transfer starts and ends; so the
//     times are those of runtime/simulate.
//   Pace::Naive: a transfer starts when it really can.
//   With a scenario, which takes the place of the plan's figures: payloads are whole, really travel, and end no earlier
//     than the scenario allows.
//   On a real network (Pace::Real or Options::realNetwork, and no scenario): nothing is emulated, a transfer takes what
//     the sockets take.
//
// An all-reduce takes the plan's cost from when the last rank was ready; on a real network it ends when the total is
// there. The same holds for collectives of layers between replicas and for reshards, whose payloads always travel.
// Calls between shards belong to no queue: the thread that computes makes them (ShardExchange.h).
#pragma once

#include "runtime/device/PaceClock.h"
#include "runtime/device/Wait.h"
#include "runtime/device/host/HostDevice.h"
#include "runtime/simulate/Scenario.h"
#include "runtime/transport/Talk.h"
#include "runtime/transport/Transport.h"
#include "runtime/transport/host/BlockExchange.h"
#include "runtime/transport/host/Connection.h"
#include "runtime/transport/host/Meeting.h"
#include "runtime/transport/host/SampleExchange.h"
#include "runtime/transport/host/ShardExchange.h"
#include "runtime/transport/host/SumRing.h"

#include <list>
#include <map>
#include <memory>
#include <vector>

namespace pipec::runtime {

class HostTransport final : public Transport, public Connection::Handler, public BlockExchange::Owner {
public:
  using Time = plan::Time;

  struct Options {
    Pace pace = Pace::Carry;
    const simulate::Scenario *network = nullptr; // outlives the transport; null: no scenario
    bool realNetwork = false;                    // whether nothing is emulated; without a scenario only
    int32_t processes = 1;                       // number of processes: the members of an all-reduce without a group
    std::vector<plan::Group> groups = {};        // members of the other all-reduces (plan::Operation::group)
    int64_t batch = 0;                           // where samples change ranks: samples of a step, and
    std::vector<int32_t> widths = {};            // by stage: number of its ranks
    Meter *meter = nullptr;                      // measures transfers to this rank, outlives the transport; null: none
    ShardExchange *shards = nullptr; // gets the connections with the other shards, outlives the transport; null: none
    HeardOfPeer heard = {};          // handles messages of peers besides transfers; empty: they may send none
  };

  /// `device`, `clock`, `failure` and `io` outlive the transport. One other thread runs `io`; destroy the transport
  /// only once that thread stands still. The device must not be started yet.
  HostTransport(Layout layout, Sockets sockets, asio::io_context &io, HostDevice &device, const Clock &clock,
                Failure &failure, const Options &options);
  ~HostTransport() override;

  void send(QueueId queue, const Label &label, Slot slot, Slot landing) override;
  void recv(QueueId queue, const Label &label, Slot slot) override;
  void allReduce(QueueId queue, const Label &label, Summand &summand) override;
  void exchange(QueueId queue, const Label &label, Summand &stage) override { allReduce(queue, label, stage); }

  void start();

  /// Says that the rank's own steps are done: from now on a peer that closes its connection is no failure. From any
  /// thread.
  void rest();

  // On the thread of the io_context.

  /// What the queues of the device wait for, if one has waited for longer than `limit`: "rank 1: recv … from rank 0:
  /// rank 0 did not come to it"; else nothing. The transport outlives the waits.
  std::vector<Wait> waits(Time limit) const;
  /// Sends a message (HeardOfPeer) to a process; false: there is no connection with it.
  bool say(int32_t process, uint32_t kind, std::shared_ptr<const std::vector<uint8_t>> bytes);

private:
  enum class State { Idle, Early, Meeting, Wire, Stage };

  /// A communicator queue, and the transfer or all-reduce at its head.
  struct Stream {
    Stream(QueueId queue, asio::io_context &io) : queue(queue), timer(io) {}
    QueueId queue;
    State state = State::Idle;
    HostWork work;
    Time ready = 0;                        // when this end was ready
    Time since = 0;                        // when it began to wait for the other end
    Time start = 0;                        // when the transfer starts
    Time end = 0;                          // when the wire is free
    Time arrival = 0;                      // when the data are there
    Time begun = 0;                        // receive: when its first bytes were there
    bool written = false;                  // whether the payload was sent or received, or the total is there
    alignas(kAlignment) double number = 0; // all-reduce: this rank's number, then the total
    asio::steady_timer timer;
    bool isCollective() const { return plan::isCollective(work.operation().kind); }
    bool isOfLayers() const { return plan::isOfLayers(work.operation()); }
    bool isReshard() const { return plan::movesSamples(work.operation().kind); }
    bool isSend() const { return plan::sends(work.operation().kind); }
    int32_t group() const { return work.operation().group; }
  };
  struct Peer {
    std::unique_ptr<Connection> connection;
    Stream *sending = nullptr;         // the queue whose head sends to the peer
    Stream *receiving = nullptr;       // the queue whose head receives from the peer
    std::optional<wire::Frame> credit; // of the receive that the peer has posted
    Time creditAt = 0;                 // when the credit came
    Time linkFree = 0;                 // when the link from here to the peer is free
    Time roundTrip = INT64_MAX;        // the shortest recent time from a credit to the first bytes of its data
  };
  class Doorbell;

  /// The process at the other end of a transfer.
  int32_t peerOf(const Stream &stream) const { return layout.place.worldOf(stream.work.operation().peer); }
  std::string nameOf(int32_t process) const { return plan::processName(process, layout.place.grid()); }

  void advanceAll();
  void advance(Stream &stream);
  void post(Stream &stream);
  void match(Peer &peer);
  /// The all-reduces of all ranks, or of one group; there is never more than one at a time.
  struct Reduction {
    SumRing ring;
    std::vector<int32_t> members; // world ranks; the ring numbers them from 0
    Stream *stream = nullptr;     // the queue with the current all-reduce at its head
    int32_t before() const { return members[size_t(ring.before())]; }
  };
  Reduction makeReduction(std::vector<int32_t> members);
  Reduction &reductionOf(const Stream &stream) { return reductions.at(stream.group()); }
  const Reduction &reductionOf(const Stream &stream) const { return reductions.at(stream.group()); }
  /// A queue at a collective that is under way; null if there is none.
  const Stream *summing() const;
  void joinSum(Stream &stream);
  void callStage(Stream &stream, void (Summand::*call)(QueueId, const Label &, Slot, const Summand::Then &),
                 std::function<void()> then);
  void conclude(Reduction &reduction, const SumRing::Outcome &outcome);
  /// The collectives of layers of a group.
  struct Replicas {
    Replicas(HostTransport &of, const std::vector<int32_t> &members)
        : exchange(members, of.layout.place.world(), of.io, *of.adder, of) {}
    BlockExchange exchange;
    Stream *stream = nullptr; // the queue with the current collective at its head
  };
  void joinExchange(Stream &stream);
  /// The reshards of a group.
  struct Reshards {
    Reshards(HostTransport &of, const std::vector<int32_t> &members) : exchange(members, of.layout.place.world(), of) {}
    SampleExchange exchange;
    Stream *stream = nullptr; // the queue with the current reshard at its head
  };
  void joinReshard(Stream &stream);
  template <typename Exchanges> void concludeAll(Exchanges &exchanges);
  Time collectiveEnd(const Stream &stream) const;
  void write(int32_t process, const wire::Frame &frame, std::vector<asio::const_buffer> payload,
             std::function<void()> written) override {
    peers.at(process).connection->write(frame, std::move(payload), std::move(written));
  }
  void exchanged() override;
  void refuse(int32_t process, const std::string &wrong) override;
  template <typename Heard> bool hear(const wire::Tag &tag, Heard heard);
  ShardExchange *shardsWith(int32_t process, const wire::Frame &frame) const;
  Stream *&underWay(Stream &stream);
  bool real() const { return !options.network && (options.realNetwork || options.pace == Pace::Real); }
  simulate::Scenario::Passage passage(const Stream &stream) const;
  void holdWire(Stream &stream);
  void leaveWire(Stream &stream);
  void measure(const Stream &stream, Time end);
  void at(Stream &stream, Time time, void (HostTransport::*then)(Stream &));

  void onCredit(int32_t peer, const wire::Frame &frame) override;
  Slot onData(int32_t peer, const wire::Frame &frame) override;
  void onArrived(int32_t peer, const wire::Frame &frame) override;
  void onSum(int32_t peer, const wire::Frame &frame) override;
  void onAsk(int32_t peer, const wire::Frame &frame) override;
  const std::vector<asio::mutable_buffer> *onBlock(int32_t peer, const wire::Frame &frame) override;
  void onBlockArrived(int32_t peer, const wire::Frame &frame) override;
  std::string onTalk(int32_t peer, uint32_t kind, std::span<const uint8_t> bytes) override;
  void onAbort(int32_t peer, const std::string &reason) override;
  void onLost(int32_t peer, const std::string &reason) override;

  bool matches(const Stream &stream, int32_t peer, const wire::Frame &frame);
  std::string where(int32_t peer) const;
  int32_t missingFrom(const Stream &stream, std::vector<int32_t> &whom) const;
  void armCut(int32_t peer);
  void cancelTimers();
  void stop();

  const Layout layout;
  asio::io_context &io;
  HostDevice &device;
  const Clock &clock;
  Failure &failure;
  Options options;
  const PaceClock paced;
  std::vector<std::unique_ptr<Stream>> streams;
  std::map<int32_t, Peer> peers;           // by world rank
  std::map<int32_t, Reduction> reductions; // by group, for the groups of this rank; -1: of all ranks
  std::map<int32_t, Replicas> replicas;    // by group, for groups with collectives of layers
  std::map<int32_t, Reshards> reshards;    // by group, if stages are on several ranks
  std::unique_ptr<Doorbell> bell;
  std::list<asio::steady_timer> cuts; // when the scenario cuts links
  std::string reason;                 // why the run ends; peers are told
  bool resting = false;
  bool stopped = false;
  std::optional<asio::thread_pool> adder; // of BlockExchange, if there are groups; ends first
};

} // namespace pipec::runtime
