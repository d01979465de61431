// Transfers over sockets. Each communicator queue of the device is a small state machine on the io_context's thread:
// the head becomes ready, meets its other end, is on the wire, is done. Nothing here blocks.
//
// The wire is emulated on top: a transfer that the plan says takes `cost` holds both queues that long, and its data
// count as arrived a `latency` later. Under Pace::Carry ready times travel with the credit and start and end with the
// data, so that the times are those of runtime/simulate; under Pace::Naive a transfer starts when it really can. Under
// a scenario, which takes the place of the plan's figures, payloads are whole, really travel, and end no earlier than
// the scenario allows. On a real network (Pace::Real is always on one) a transfer takes what the sockets take. An
// all-reduce takes the plan's cost from when the last rank was ready; on a real network it ends when the total is
// there.
#pragma once

#include "runtime/device/PaceClock.h"
#include "runtime/device/host/HostDevice.h"
#include "runtime/simulate/Scenario.h"
#include "runtime/transport/Transport.h"
#include "runtime/transport/host/Connection.h"
#include "runtime/transport/host/Meeting.h"
#include "runtime/transport/host/SumRing.h"

#include <list>
#include <map>
#include <memory>
#include <vector>

namespace pipec::runtime {

class HostTransport final : public Transport, public Connection::Handler {
public:
  using Time = plan::Time;

  struct Options {
    Pace pace = Pace::Carry;
    const simulate::Scenario *network = nullptr; // outlives the transport
    bool realNetwork = false;                    // nothing is emulated; counts where there is no scenario
    int32_t ranks = 1;                           // of an all-reduce: all
    std::vector<plan::Group> groups = {};        // of other collectives
  };

  /// `device`, `clock`, `failure` and `io` outlive the transport; one other thread runs `io`. The device is not yet
  /// started. Destroy it only once that thread stands still.
  HostTransport(Layout layout, Sockets sockets, asio::io_context &io, HostDevice &device, const Clock &clock,
                Failure &failure, const Options &options);
  ~HostTransport() override;

  void send(QueueId queue, const Label &label, Slot slot) override;
  void recv(QueueId queue, const Label &label, Slot slot) override;
  void allReduce(QueueId queue, const Label &label, Summand &summand) override;

  void start();

  /// The rank's own steps are done: from now on peers may go. From any thread.
  void rest();

  /// What has waited for longer than `limit`, on any queue of the device, and for whom: "rank 1: recv … from rank 0:
  /// rank 0 did not come to it". On the thread of the io_context.
  std::optional<std::string> overdue(Time limit) const;

private:
  enum class State { Idle, Early, Meeting, Wire };

  /// A communicator queue and the transfer or all-reduce at its head.
  struct Stream {
    Stream(QueueId queue, asio::io_context &io) : queue(queue), timer(io) {}
    QueueId queue;
    State state = State::Idle;
    HostWork work;
    Time ready = 0; // of this side
    Time since = 0; // waits for its other end since then
    Time start = 0;
    Time end = 0;     // the wire is free
    Time arrival = 0; // of the data
    bool written = false;
    asio::steady_timer timer;
    bool isSum() const { return plan::isCollective(work.operation().kind); }
    bool isSend() const { return work.operation().kind == plan::Kind::Send; }
    int32_t peer() const { return work.operation().peer; }
    int32_t group() const { return work.operation().group; }
  };
  struct Peer {
    std::unique_ptr<Connection> connection;
    Stream *sending = nullptr;
    Stream *receiving = nullptr;
    std::optional<wire::Frame> credit; // of its posted receive
    Time linkFree = 0;                 // from here to there
  };
  class Doorbell;

  void advanceAll();
  void advance(Stream &stream);
  void post(Stream &stream);
  void match(Peer &peer);
  /// An all-reduce of all ranks, or of a group.
  struct Reduction {
    SumRing ring;
    std::vector<int32_t> members; // ranks; the ring numbers them from 0
    Stream *stream = nullptr;     // has come to it, and it is not done
    int32_t before() const { return members[size_t(ring.before())]; }
  };
  Reduction makeReduction(std::vector<int32_t> members);
  Reduction &reductionOf(const Stream &stream) { return reductions.at(stream.group()); }
  const Reduction &reductionOf(const Stream &stream) const { return reductions.at(stream.group()); }
  /// The stream at an all-reduce that is not done, if there is one.
  const Stream *summing() const;
  void joinSum(Stream &stream);
  void conclude(Reduction &reduction, const SumRing::Outcome &outcome);
  bool real() const { return !options.network && (options.realNetwork || options.pace == Pace::Real); }
  simulate::Scenario::Passage passage(const Stream &stream) const;
  void holdWire(Stream &stream);
  void leaveWire(Stream &stream);
  void at(Stream &stream, Time time, void (HostTransport::*then)(Stream &));

  void onCredit(int32_t peer, const wire::Frame &frame) override;
  Slot onData(int32_t peer, const wire::Frame &frame) override;
  void onArrived(int32_t peer, const wire::Frame &frame) override;
  void onSum(int32_t peer, const wire::Frame &frame) override;
  void onAbort(int32_t peer, const std::string &reason) override;
  void onLost(int32_t peer, const std::string &reason) override;

  bool matches(const Stream &stream, int32_t peer, const wire::Frame &frame);
  std::string where(int32_t peer) const;
  std::optional<std::string> absent(const Stream &stream, Time limit) const;
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
  std::map<int32_t, Peer> peers;
  std::map<int32_t, Reduction> reductions; // by group, those with this rank; -1: of all
  std::unique_ptr<Doorbell> bell;
  std::list<asio::steady_timer> cuts; // of links, by the scenario
  std::string reason;                 // why the run ends, passed on to peers
  bool resting = false;
  bool stopped = false;
};

} // namespace pipec::runtime
