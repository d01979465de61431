// The failures of transfers: the other end is at another transfer; a peer is lost, ends the run or does not come; a
// scenario cuts a link. And how a rank that stops tells its peers.
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

/// The instruction of this rank that a problem with a peer is about: the transfer or the call with the peer, else an
/// all-reduce, else the current computation.
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
  // A rank that waits for a shard is closer to the cause than one that waits for a result.
  const bool waits = options.shards && options.shards->open();
  failure.raise(Status::run(
      fmt::format("{}: {} ended the run: {}", waits ? options.shards->waiting() : where(rank), nameOf(rank), text)));
}

void HostTransport::onLost(int32_t rank, const std::string &text) {
  if (resting || stopped)
    return;
  failure.raise(Status::run(fmt::format("{}: lost {}: {}", where(rank), nameOf(rank), text)));
}

/// The process that a stream waits for; -1: not all have come, and it is unknown who is missing. `whom`: the processes
/// to ask. In a collective a process knows only whether its neighbours have come. If they have, a rank further back is
/// missing, for which the previous neighbour waits too.
int32_t HostTransport::missingFrom(const Stream &stream, std::vector<int32_t> &whom) const {
  int32_t missing = -1;
  if (!stream.isCollective()) {
    missing = peerOf(stream);
  } else if (stream.isOfLayers()) {
    const BlockExchange &exchange = replicas.at(stream.group()).exchange;
    missing = exchange.missing();
    whom = {exchange.before()};
  } else if (stream.isReshard()) {
    missing = reshards.at(stream.group()).exchange.missing();
  } else {
    const Reduction &reduction = reductionOf(stream);
    missing = reduction.ring.heard() ? -1 : reduction.before();
    whom = {reduction.before()};
  }
  if (stream.isCollective() && stream.state != State::Meeting)
    return -1;
  if (missing >= 0)
    whom = {missing};
  return missing;
}

std::vector<Wait> HostTransport::waits(Time limit) const {
  std::vector<Wait> all;
  const int64_t real = runtime::Clock::monotonic();
  if (options.shards && options.shards->open()) { // everything else may wait for that call
    if (Wait wait = options.shards->wait(); (real - wait.since) * 1000 >= limit)
      all.push_back(std::move(wait));
    return all;
  }
  if (!summing()) // during a collective, the rank's other queues may wait for it
    all = device.waits(limit);
  const Time now = clock.now();
  const auto isWaiting = [](const Stream &stream) {
    return stream.state == State::Meeting || stream.state == State::Wire;
  };
  // The end of an emulated transfer may be long past if the machine cannot keep up with the emulation: then nobody is
  // missing.
  const auto waited = [&](const Stream &stream) {
    return now - (stream.state == State::Meeting ? stream.since : std::max(stream.since, stream.end));
  };
  if (all.empty() &&
      std::ranges::none_of(streams, [&](const auto &each) { return isWaiting(*each) && waited(*each) >= limit; }))
    return all;
  for (const auto &each : streams) {
    const Stream &stream = *each;
    if (!isWaiting(stream))
      continue;
    Wait &wait = all.emplace_back();
    const int32_t missing = missingFrom(stream, wait.whom);
    wait.late = [this, &stream, missing] {
      return fmt::format("{}: {}", device.describeHead(stream.queue),
                         missing < 0 ? "not all ranks came to it" : nameOf(missing) + " did not come to it");
    };
    wait.since = real - waited(stream) / 1000;
    wait.vague = missing < 0;
  }
  return all;
}

bool HostTransport::say(int32_t process, uint32_t kind, std::shared_ptr<const std::vector<uint8_t>> bytes) {
  const auto found = peers.find(process);
  if (found == peers.end() || stopped || bytes->size() > wire::kTalkBytes)
    return false;
  found->second.connection->talk(kind, std::move(bytes));
  return true;
}

std::string HostTransport::onTalk(int32_t process, uint32_t kind, std::span<const uint8_t> bytes) {
  if (stopped)
    return "";
  return options.heard ? options.heard(process, kind, bytes) : "a message that nobody hears";
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
