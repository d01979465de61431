// The state machine of a communicator queue. Idle: no head is ready. Early: the head becomes ready at a time that has
// not come yet. Meeting: the other end has been told, or this rank has come to the all-reduce. Wire: the transfer has
// started, or the total is there. Then Idle again. Stage: an all-reduce waits for this rank's stage, before Meeting and
// before Wire.
#include "runtime/transport/host/HostTransport.h"

#include "runtime/plan/Disassemble.h"

#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <numeric>
#include <sys/eventfd.h>

namespace pipec::runtime {

/// The device rings this bell, from any thread, when a queue has a new head. Rings close together cause one visit of
/// all queues. The bell uses a descriptor: asio::post wakes the thread while holding a lock that the thread takes
/// first, and on a busy processor the thread would then wait for milliseconds until the computing thread releases the
/// lock.
class HostTransport::Doorbell final : public Bell {
public:
  Doorbell(asio::io_context &io, HostTransport &transport)
      : event(io, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), transport(transport) {}
  void ring() override {
    if (!rung.exchange(true))
      eventfd_write(event.native_handle(), 1);
  }
  void listen() {
    event.async_read_some(asio::buffer(&rings, sizeof rings), [this](std::error_code error, size_t) {
      if (error)
        return;
      rung.exchange(false); // after this, the visit sees the work of ringers that did not write
      transport.advanceAll();
      listen();
    });
  }

private:
  asio::posix::stream_descriptor event;
  HostTransport &transport;
  uint64_t rings = 0;
  std::atomic<bool> rung{false};
};

HostTransport::HostTransport(Layout queuesOf, Sockets sockets, asio::io_context &io, HostDevice &device,
                             const Clock &clock, Failure &failure, const Options &options)
    : layout(std::move(queuesOf)), io(io), device(device), clock(clock), failure(failure), options(options),
      paced(clock, options.pace), bell(std::make_unique<Doorbell>(io, *this)) {
  std::vector<int32_t> all(size_t(options.processes));
  std::iota(all.begin(), all.end(), 0);
  reductions.emplace(-1, makeReduction(std::move(all)));
  if (!options.groups.empty())
    adder.emplace(1);
  for (size_t g = 0; g < options.groups.size(); ++g)
    if (const std::vector<int32_t> &members = options.groups[g].members;
        std::binary_search(members.begin(), members.end(), layout.place.world())) {
      reductions.emplace(int32_t(g), makeReduction(members));
      replicas.try_emplace(int32_t(g), *this, members);
      if (!options.widths.empty())
        reshards.try_emplace(int32_t(g), *this, members);
    }
  for (QueueId q = 0; q < layout.queues.size(); ++q)
    if (layout.queues[q].kind == plan::QueueKind::Communicator) {
      streams.push_back(std::make_unique<Stream>(q, io));
      device.setBell(q, *bell);
    }
  for (auto &[peer, line] : sockets)
    peers[peer].connection = std::make_unique<Connection>(std::move(line), peer, *this);
  if (options.shards)
    options.shards->connect(*this);
  failure.listen([this] { asio::post(this->io, [this] { stop(); }); });
}

HostTransport::~HostTransport() {
  if (options.shards)
    options.shards->release();
}

const HostTransport::Stream *HostTransport::summing() const {
  for (const auto &[group, reduction] : reductions)
    if (reduction.stream)
      return reduction.stream;
  for (const auto &[group, of] : replicas)
    if (of.stream)
      return of.stream;
  for (const auto &[group, of] : reshards)
    if (of.stream)
      return of.stream;
  return nullptr;
}

HostTransport::Reduction HostTransport::makeReduction(std::vector<int32_t> members) {
  const auto own = std::find(members.begin(), members.end(), layout.place.world()) - members.begin();
  auto write = [this, members](int32_t to, const wire::Frame &frame) {
    peers.at(members[size_t(to)]).connection->write(frame, nullptr, {});
  };
  return {SumRing(int32_t(own), int32_t(members.size()), std::move(write)), std::move(members), nullptr};
}

void HostTransport::send(QueueId queue, const Label &label, Slot slot, Slot) {
  device.submit(queue, label, {}, slot, nullptr);
}
void HostTransport::recv(QueueId queue, const Label &label, Slot slot) {
  device.submit(queue, label, {}, slot, nullptr);
}

void HostTransport::allReduce(QueueId queue, const Label &label, Summand &summand) {
  device.submit(queue, label, {}, {}, nullptr, &summand);
}

void HostTransport::start() {
  asio::post(io, [this] {
    for (auto &[rank, peer] : peers) {
      peer.connection->start();
      armCut(rank);
    }
    bell->listen();
    advanceAll();
  });
}

void HostTransport::rest() {
  asio::post(io, [this] {
    resting = true;
    cancelTimers();
  });
}

void HostTransport::advanceAll() {
  for (auto &stream : streams)
    advance(*stream);
}

void HostTransport::advance(Stream &stream) {
  if (stream.state != State::Idle || stopped)
    return;
  std::optional<HostDevice::Head> head = device.head(stream.queue);
  if (!head)
    return;
  stream.work = head->work;
  stream.ready = head->ready;
  stream.state = State::Early;
  at(stream, stream.ready, &HostTransport::post);
}

/// Lets the other end know that this one is ready.
void HostTransport::post(Stream &stream) {
  Time now = clock.now();
  stream.ready = paced.begin(stream.ready);
  stream.since = now;
  stream.state = State::Meeting;
  if (stream.isOfLayers())
    return joinExchange(stream);
  if (stream.isReshard())
    return joinReshard(stream);
  if (stream.isCollective())
    return joinSum(stream);
  Peer &peer = peers.at(peerOf(stream));
  if (stream.isSend()) {
    peer.sending = &stream;
    match(peer);
    return;
  }
  peer.receiving = &stream;
  wire::Frame credit;
  credit.type = wire::Type::Credit;
  credit.tag = wire::tagOf(stream.work.label());
  credit.start = stream.ready;
  peer.connection->write(credit, nullptr, {});
}

void HostTransport::onCredit(int32_t rank, const wire::Frame &frame) {
  Peer &peer = peers.at(rank);
  if (peer.credit)
    return onLost(rank, "it posted two receives at once");
  peer.credit = frame;
  peer.creditAt = clock.now();
  match(peer);
}

/// Starts the transfer to a peer if both ends are ready. The sending end decides on the times.
void HostTransport::match(Peer &peer) {
  if (!peer.sending || peer.sending->state != State::Meeting || !peer.credit || stopped)
    return; // a credit may also come while the previous transfer still holds the wire
  Stream &stream = *peer.sending;
  if (!matches(stream, peerOf(stream), *peer.credit))
    return;
  stream.start = std::max(paced.begin(std::max(stream.ready, peer.credit->start)), peer.linkFree);
  simulate::Scenario::Passage through = passage(stream);
  if (through.lost)
    return; // the scenario loses the transfer: both ends wait until the deadline
  stream.end = peer.linkFree = through.end;
  stream.arrival = through.arrival;
  peer.credit.reset();
  wire::Frame data;
  data.type = wire::Type::Data;
  data.bytes = uint64_t(stream.work.out().bytes);
  data.tag = wire::tagOf(stream.work.label());
  data.start = stream.start;
  data.end = stream.end;
  data.arrival = stream.arrival;
  data.waited = clock.now() - peer.creditAt;
  stream.written = false;
  peer.connection->write(data, stream.work.out().data, [this, &stream] {
    stream.written = true;
    leaveWire(stream);
  });
  holdWire(stream);
}

/// Calls the stage, which may answer later, on another thread; `then` runs on this thread.
void HostTransport::callStage(Stream &stream,
                              void (Summand::*call)(QueueId, const Label &, Slot, const Summand::Then &),
                              std::function<void()> then) {
  stream.state = State::Stage;
  (stream.work.summand->*call)(stream.queue, stream.work.label(),
                               {reinterpret_cast<std::byte *>(&stream.number), sizeof stream.number},
                               [this, then = std::move(then)] {
                                 asio::dispatch(io, [this, then] {
                                   if (!stopped && !failure.raised())
                                     then();
                                 });
                               });
}

void HostTransport::joinSum(Stream &stream) {
  stream.number = 0;
  callStage(stream, &Summand::gradientNorm, [this, &stream] {
    Reduction &reduction = reductionOf(stream);
    reduction.stream = &stream;
    stream.since = clock.now();
    stream.state = State::Meeting;
    conclude(reduction, reduction.ring.join(wire::tagOf(stream.work.label()), stream.number, stream.ready));
  });
}

void HostTransport::onSum(int32_t rank, const wire::Frame &frame) {
  if (stopped)
    return;
  const auto found = reductions.find(wire::groupOf(frame.tag));
  if (found == reductions.end() || rank != found->second.before())
    return onLost(rank, "it is no neighbour in the ring of the all_reduce");
  conclude(found->second, found->second.ring.hear(frame));
}

void HostTransport::conclude(Reduction &reduction, const SumRing::Outcome &outcome) {
  const int32_t before = reduction.before();
  if (!outcome.wrong.empty())
    return failure.raise(Status::run(fmt::format("{}: {} {}", where(before), nameOf(before), outcome.wrong)));
  if (!outcome.total)
    return;
  Stream &stream = *reduction.stream;
  stream.number = outcome.total->sum;
  stream.start = outcome.total->ready;
  stream.end = stream.arrival = stream.start + (real() ? 0 : stream.work.operation().cost);
  stream.written = true;
  callStage(stream, &Summand::setGlobalNorm, [this, &stream] { holdWire(stream); });
}

simulate::Scenario::Passage HostTransport::passage(const Stream &stream) const {
  const plan::Operation &op = stream.work.operation();
  if (options.network)
    return options.network->transfer(layout.place.rank, op.peer, op, stream.start);
  if (real())
    return {stream.start, stream.start};
  return {stream.start + op.cost, stream.start + op.cost + op.latency};
}

Slot HostTransport::onData(int32_t rank, const wire::Frame &frame) {
  Stream *stream = peers.at(rank).receiving;
  if (stopped)
    return {};
  if (!stream) {
    onLost(rank, "it sent what no receive was posted for");
    return {};
  }
  if (!matches(*stream, rank, frame))
    return {};
  if (plan::Bytes(frame.bytes) != stream->work.out().bytes) {
    failure.raise(
        Status::run(fmt::format("{}: {} sent {} bytes where {} were expected", device.describeHead(stream->queue),
                                nameOf(rank), frame.bytes, stream->work.out().bytes)));
    return {};
  }
  Peer &peer = peers.at(rank);
  stream->begun = clock.now();
  const Time round = std::max<Time>(stream->begun - stream->since - frame.waited, 0);
  peer.roundTrip = peer.roundTrip < round ? peer.roundTrip + (round - peer.roundTrip) / 64 : round;
  return stream->work.out();
}

void HostTransport::onArrived(int32_t rank, const wire::Frame &frame) {
  Stream &stream = *peers.at(rank).receiving;
  stream.start = real() ? stream.begun : frame.start;
  stream.end = real() ? clock.now() : frame.end; // nothing is emulated, and machines' clocks drift apart
  stream.arrival = real() ? stream.end : frame.arrival;
  stream.written = true;
  holdWire(stream);
}

void HostTransport::holdWire(Stream &stream) {
  stream.state = State::Wire;
  at(stream, stream.end, &HostTransport::leaveWire);
}

/// The pointer that records which queue's collective is under way.
HostTransport::Stream *&HostTransport::underWay(Stream &stream) {
  if (stream.isOfLayers())
    return replicas.at(stream.group()).stream;
  if (stream.isReshard())
    return reshards.at(stream.group()).stream;
  if (stream.isCollective())
    return reductionOf(stream).stream;
  Peer &peer = peers.at(peerOf(stream));
  return stream.isSend() ? peer.sending : peer.receiving;
}

/// Completes the head of a queue, once both the emulated and the real wire are done with it.
void HostTransport::leaveWire(Stream &stream) {
  Time now = clock.now();
  if (stream.state != State::Wire || !stream.written || now < stream.end || stopped)
    return;
  underWay(stream) = nullptr;
  stream.state = State::Idle;
  if (real() || options.pace == Pace::Real) // report the real end
    stream.end = now;
  Time end = stream.isSend() ? stream.end : std::max(stream.end, stream.arrival);
  if (options.meter && !stream.isCollective() && !stream.isSend())
    measure(stream, end);
  device.finish(stream.queue, {stream.end, end, stream.start, std::max(stream.start, stream.since), std::max(now, end),
                               now - stream.end});
  advance(stream);
}

/// Measures a received transfer. On an emulated wire the emulated times count, so that a busy machine does not look
/// like a slow network. On a real network the time from the first byte to the last counts, since the credit may have
/// waited for the send, or behind other data on the connection. The latency is half of the shortest round trip of a
/// credit and its first data.
void HostTransport::measure(const Stream &stream, Time end) {
  if (!real()) {
    options.meter->transferred(stream.work.operation().peer, stream.start, stream.arrival, stream.arrival - stream.end,
                               stream.work.operation().bytes);
    return;
  }
  const Time latency = peers.at(peerOf(stream)).roundTrip / 2;
  options.meter->transferred(stream.work.operation().peer, stream.begun - latency, end, latency,
                             stream.work.out().bytes);
}

void HostTransport::at(Stream &stream, Time time, void (HostTransport::*then)(Stream &)) {
  if (time <= clock.now())
    return (this->*then)(stream);
  stream.timer.expires_at(clock.at(time));
  stream.timer.async_wait([this, &stream, then](std::error_code error) {
    if (!error && !stopped)
      (this->*then)(stream);
  });
}

} // namespace pipec::runtime
