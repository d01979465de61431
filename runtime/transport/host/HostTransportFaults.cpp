// What may go wrong with transfers. The other end is at another transfer; a peer is lost, ends the run or does not
// come; a scenario cuts a link. And how a rank that stops tells its peers.
#include "runtime/transport/host/HostTransport.h"

#include "runtime/plan/Disassemble.h"

#include <algorithm>
#include <fmt/format.h>

namespace pipec::runtime {

bool HostTransport::matches(const Stream &stream, int32_t rank, const wire::Frame &frame) {
  wire::Tag own = wire::tagOf(stream.work.label());
  if (own == frame.tag)
    return true;
  failure.raise(Status::run(fmt::format("{}: {} is at {}, this rank at {}", device.describeHead(stream.queue),
                                        nameOf(rank), wire::describe(frame.tag), wire::describe(own))));
  return false;
}

/// The instruction of this rank that trouble with a peer is about: the transfer or the call with the peer, else an
/// all-reduce, else what the rank computes.
std::string HostTransport::where(int32_t rank) const {
  const Peer &peer = peers.at(rank);
  if (options.shards && options.shards->has(rank) && options.shards->open())
    return options.shards->describe();
  for (const Stream *stream : {peer.receiving, peer.sending})
    if (stream)
      return device.describeHead(stream->queue);
  for (const auto &[group, each] : replicas)
    if (each.stream && each.exchange.has(rank))
      return device.describeHead(each.stream->queue);
  for (const auto &[group, each] : reshards)
    if (each.stream && each.exchange.has(rank))
      return device.describeHead(each.stream->queue);
  if (const Stream *stream = summing())
    return device.describeHead(stream->queue);
  for (QueueId q = 0; q < layout.queues.size(); ++q)
    if (std::string text = device.describeHead(q); !text.empty())
      return text;
  return plan::nameOf(layout.place);
}

void HostTransport::onAbort(int32_t rank, const std::string &text) {
  if (resting || stopped)
    return;
  reason = text; // peers are told the first cause, not this rank's message about it
  // Who waits for a shard knows more of the cause than who waits for what comes of it.
  const bool waits = options.shards && options.shards->open();
  failure.raise(Status::run(
      fmt::format("{}: {} ended the run: {}", waits ? options.shards->waiting() : where(rank), nameOf(rank), text)));
}

void HostTransport::onLost(int32_t rank, const std::string &text) {
  if (resting || stopped)
    return;
  failure.raise(Status::run(fmt::format("{}: lost {}: {}", where(rank), nameOf(rank), text)));
}

/// A neighbour in the ring of a collective that is not known to have come to it; -1: there is none.
int32_t HostTransport::missingIn(const Stream &stream) const {
  if (stream.isOfLayers())
    return replicas.at(stream.group()).exchange.missing();
  if (stream.isReshard())
    return reshards.at(stream.group()).exchange.missing();
  const Reduction &reduction = reductionOf(stream);
  return reduction.ring.heard() ? -1 : reduction.before();
}

/// Says who has let a stream wait for too long. In a collective a process only knows whether its neighbours have
/// come. If they have, a rank further back is missing, and the rank behind that one names it. So this rank waits for as
/// long again before it says that not all have come.
std::optional<std::string> HostTransport::absent(const Stream &stream, Time limit) const {
  if (stream.state != State::Meeting && stream.state != State::Wire)
    return std::nullopt;
  // The wire's deadline may be long past where a machine cannot keep up with what it emulates: that is nobody's
  // absence.
  Time waited = clock.now() - (stream.state == State::Meeting ? stream.since : std::max(stream.since, stream.end));
  if (waited < limit)
    return std::nullopt;
  if (!stream.isCollective())
    return nameOf(peerOf(stream)) + " did not come to it";
  if (const int32_t missing = missingIn(stream); stream.state == State::Meeting && missing >= 0)
    return nameOf(missing) + " did not come to it";
  return waited / 2 < limit ? std::nullopt : std::optional<std::string>("not all ranks came to it");
}

std::optional<std::string> HostTransport::overdue(Time limit) const {
  if (options.shards && options.shards->open()) // all else may wait for that
    return options.shards->overdue(limit);
  std::optional<std::string> late;
  for (const auto &stream : streams)
    if (std::optional<std::string> who = absent(*stream, limit))
      late = fmt::format("{}: {}", device.describeHead(stream->queue), *who);
  if (late || summing()) // during a collective, the rank's other queues may wait for it
    return late;
  return device.overdue(limit);
}

void HostTransport::armCut(int32_t rank) {
  Time at = options.network ? options.network->cutAt(layout.place.rank, plan::placeOf(rank, layout.place.grid()).rank)
                            : simulate::kNever;
  if (at == simulate::kNever)
    return;
  cuts.emplace_back(io, clock.at(at)).async_wait([this, rank](std::error_code error) {
    if (!error)
      peers.at(rank).connection->mute();
  });
}

void HostTransport::cancelTimers() {
  for (asio::steady_timer &cut : cuts)
    cut.cancel();
}

void HostTransport::stop() {
  stopped = true;
  cancelTimers();
  if (reason.empty())
    reason = failure.status().message;
  for (auto &[rank, peer] : peers)
    peer.connection->abort(reason);
  for (auto &stream : streams)
    stream->timer.cancel();
  if (options.shards)
    options.shards->release();
}

} // namespace pipec::runtime
