// What may go wrong with transfers: an end that is about something else, a peer that is lost, ends the run or does not
// come, a link that a scenario cuts; and how a rank that stops tells its peers.
#include "runtime/transport/host/HostTransport.h"

#include "runtime/plan/Disassemble.h"

#include <fmt/format.h>

namespace pipec::runtime {

bool HostTransport::matches(const Stream &stream, int32_t rank, const wire::Frame &frame) {
  wire::Tag own = wire::tagOf(stream.work.label());
  if (own == frame.tag)
    return true;
  failure.raise(Status::run(fmt::format("{}: rank {} is at {}, this rank at {}", device.describeHead(stream.queue),
                                        rank, wire::describe(frame.tag), wire::describe(own))));
  return false;
}

/// This rank's instruction that a peer is about: the transfer with it, the all-reduce, or what the rank computes.
std::string HostTransport::where(int32_t rank) const {
  const Peer &peer = peers.at(rank);
  for (const Stream *stream : {peer.receiving, peer.sending})
    if (stream)
      return device.describeHead(stream->queue);
  if (const Stream *stream = summing())
    return device.describeHead(stream->queue);
  for (QueueId q = 0; q < layout.queues.size(); ++q)
    if (std::string text = device.describeHead(q); !text.empty())
      return text;
  return fmt::format("rank {}", layout.rank);
}

void HostTransport::onAbort(int32_t rank, const std::string &text) {
  if (resting || stopped)
    return;
  reason = text; // the first cause, passed on as it is
  failure.raise(Status::run(fmt::format("{}: rank {} ended the run: {}", where(rank), rank, text)));
}

void HostTransport::onLost(int32_t rank, const std::string &text) {
  if (resting || stopped)
    return;
  failure.raise(Status::run(fmt::format("{}: lost rank {}: {}", where(rank), rank, text)));
}

/// Who has let a stream wait for too long. Whether the neighbour has come to an all-reduce is known; if it has, its own
/// neighbour names who has not, and only later this rank says that something is wrong.
std::optional<std::string> HostTransport::absent(const Stream &stream, Time limit) const {
  if (stream.state != State::Meeting && stream.state != State::Wire)
    return std::nullopt;
  Time waited = clock.now() - (stream.state == State::Meeting ? stream.since : stream.end);
  if (waited < limit)
    return std::nullopt;
  if (!stream.isSum())
    return fmt::format("rank {} did not come to it", stream.peer());
  if (const Reduction &reduction = reductionOf(stream); stream.state == State::Meeting && !reduction.ring.heard())
    return fmt::format("rank {} did not come to it", reduction.before());
  return waited / 2 < limit ? std::nullopt : std::optional<std::string>("not all ranks came to it");
}

std::optional<std::string> HostTransport::overdue(Time limit) const {
  std::optional<std::string> late;
  for (const auto &stream : streams)
    if (std::optional<std::string> who = absent(*stream, limit))
      late = fmt::format("{}: {}", device.describeHead(stream->queue), *who);
  if (late || summing()) // all that waits on this rank waits for that
    return late;
  return device.overdue(limit);
}

void HostTransport::armCut(int32_t rank) {
  Time at = options.network ? options.network->cutAt(layout.rank, rank) : simulate::kNever;
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
}

} // namespace pipec::runtime
