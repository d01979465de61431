#include "runtime/transport/host/ShardExchange.h"

#include "runtime/device/Clock.h"
#include "runtime/plan/Disassemble.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <new>

namespace pipec::runtime {

namespace {

/// Writes to `to` the sums of the numbers at `from`, added in that order. `to` may be one of them.
template <typename T> void add(const std::vector<const std::byte *> &from, int64_t count, std::byte *to) {
  std::array<T, 512> sums, more;
  for (int64_t first = 0; first < count; first += int64_t(sums.size())) {
    const auto some = size_t(std::min<int64_t>(count - first, int64_t(sums.size())));
    const int64_t at = first * int64_t(sizeof(T));
    std::memcpy(sums.data(), from.front() + at, some * sizeof(T));
    for (size_t f = 1; f < from.size(); ++f) {
      std::memcpy(more.data(), from[f] + at, some * sizeof(T));
      for (size_t i = 0; i < some; ++i)
        sums[i] += more[i];
    }
    std::memcpy(to + at, sums.data(), some * sizeof(T));
  }
}

void addUp(const std::vector<const std::byte *> &from, int64_t count, Number type, std::byte *to) {
  if (count > 0)
    (type == Number::Float64 ? add<double> : add<float>)(from, count, to);
}

void copy(const std::byte *from, plan::Bytes bytes, std::byte *to) {
  if (bytes > 0 && from != to)
    std::memmove(to, from, size_t(bytes));
}

/// The first index of each shard's block of `count` numbers, and the end of the last.
std::vector<int64_t> blocksOf(int64_t count, int32_t shards) {
  std::vector<int64_t> firsts;
  for (int32_t s = 0; s <= shards; ++s)
    firsts.push_back(int64_t(__int128(count) * s / shards));
  return firsts;
}
std::vector<int64_t> equalBlocks(int64_t count, int32_t shards) {
  std::vector<int64_t> firsts;
  for (int32_t s = 0; s <= shards; ++s)
    firsts.push_back(count * s);
  return firsts;
}

} // namespace

ShardExchange::ShardExchange(const plan::Place &place, asio::io_context &io)
    : place(place), io(io), peers(size_t(place.shards)) {}

void ShardExchange::begin(const Label &label) {
  within = label;
  calls = 0;
}

wire::CallTag ShardExchange::next(wire::Call call, int64_t count, uint8_t type) {
  return {call, type, 0, 0, ++calls, count};
}

std::string ShardExchange::meet(Time ready, Time &latestReady) {
  std::string wrong = trade(next(wire::Call::Meeting), std::vector<Piece>(peers.size()), ready);
  latestReady = last;
  return wrong;
}

std::string ShardExchange::sum(std::byte *values, int64_t count, Number type) {
  wire::CallTag call = next(wire::Call::Sum, count, uint8_t(type));
  const plan::Bytes bytes = count * sizeOf(type);
  if (bytes > kSmall && place.shards > 2) {
    const std::vector<int64_t> blocks = blocksOf(count, place.shards);
    std::byte *own = values + blocks[size_t(place.shard)] * sizeOf(type);
    std::string wrong = scatterBlocks(call, values, blocks, type, own);
    call.round = 1;
    return wrong.empty() ? gatherBlocks(call, own, blocks, type, values) : wrong;
  }
  scratch.resize(size_t(bytes) * peers.size());
  std::vector<Piece> pieces;
  std::vector<const std::byte *> from;
  for (int32_t s = 0; s < place.shards; ++s) {
    pieces.push_back({values, bytes, scratch.data() + s * bytes, bytes});
    from.push_back(s == place.shard ? values : pieces.back().in);
  }
  std::string wrong = trade(call, std::move(pieces));
  if (wrong.empty())
    addUp(from, count, type, values);
  return wrong;
}

std::string ShardExchange::scatter(const std::byte *values, int64_t count, Number type, std::byte *share) {
  return scatterBlocks(next(wire::Call::Scatter, count, uint8_t(type)), values, equalBlocks(count, place.shards), type,
                       share);
}

std::string ShardExchange::gather(const std::byte *share, int64_t count, Number type, std::byte *values) {
  return gatherBlocks(next(wire::Call::Gather, count, uint8_t(type)), share, equalBlocks(count, place.shards), type,
                      values);
}

/// Each shard receives all shards' numbers of its own block, and adds them.
std::string ShardExchange::scatterBlocks(const wire::CallTag &call, const std::byte *values,
                                         const std::vector<int64_t> &firsts, Number type, std::byte *share) {
  const auto own = size_t(place.shard);
  const int64_t count = firsts[own + 1] - firsts[own];
  const plan::Bytes bytes = count * sizeOf(type);
  scratch.resize(size_t(bytes) * peers.size());
  std::vector<Piece> pieces;
  std::vector<const std::byte *> from;
  for (size_t s = 0; s < peers.size(); ++s) {
    const std::byte *block = values + firsts[s] * sizeOf(type);
    pieces.push_back(
        {block, (firsts[s + 1] - firsts[s]) * sizeOf(type), scratch.data() + plan::Bytes(s) * bytes, bytes});
    from.push_back(s == own ? block : pieces.back().in);
  }
  std::string wrong = trade(call, std::move(pieces));
  if (wrong.empty())
    addUp(from, count, type, share);
  return wrong;
}

std::string ShardExchange::gatherBlocks(const wire::CallTag &call, const std::byte *share,
                                        const std::vector<int64_t> &firsts, Number type, std::byte *values) {
  const auto own = size_t(place.shard);
  const plan::Bytes bytes = (firsts[own + 1] - firsts[own]) * sizeOf(type);
  std::vector<Piece> pieces;
  for (size_t s = 0; s < peers.size(); ++s)
    pieces.push_back({share, bytes, values + firsts[s] * sizeOf(type), (firsts[s + 1] - firsts[s]) * sizeOf(type)});
  std::byte *place = pieces[own].in;
  std::string wrong = trade(call, std::move(pieces));
  if (wrong.empty())
    copy(share, bytes, place);
  return wrong;
}

std::string ShardExchange::exchange(const std::byte *out, std::span<const int64_t> sent, std::byte *in,
                                    std::span<const int64_t> received) {
  const wire::CallTag call = next(wire::Call::Exchange);
  std::vector<Piece> pieces;
  for (size_t s = 0; s < peers.size(); ++s) {
    pieces.push_back({out, sent[s], in, received[s]});
    out += sent[s];
    in += received[s];
  }
  const Piece own = pieces[size_t(place.shard)];
  if (own.outBytes != own.inBytes)
    return fmt::format("{}: sends itself {} bytes where {} are expected", wire::describe(call), own.outBytes,
                       own.inBytes);
  std::string wrong = trade(call, std::move(pieces));
  if (wrong.empty())
    copy(own.out, own.outBytes, own.in);
  return wrong;
}

/// Runs a round, on the calling thread.
std::string ShardExchange::trade(const wire::CallTag &call, std::vector<Piece> pieces, Time ready) {
  if (!within)
    return wire::describe(call) + ": sums between shards are for passes, optimizer steps and portions";
  std::unique_lock lock(mutex);
  finished = false;
  if (!released)
    asio::post(io,
               [this, round = Round{*within, call, std::move(pieces), ready}]() mutable { start(std::move(round)); });
  changed.wait(lock, [this] { return finished || released; });
  return finished ? "" : "the run has failed";
}

void ShardExchange::start(Round round) {
  if (stopped)
    return;
  current = std::move(round);
  isOpen = true;
  since = Clock::monotonic();
  latest = current.ready;
  sending = place.shards - 1;
  for (Peer &peer : peers)
    peer.came = false;
  for (int32_t s = 0; s < place.shards; ++s) {
    const Piece &piece = current.pieces[size_t(s)];
    if (s == place.shard)
      continue;
    wire::Frame frame;
    frame.type = wire::Type::Part;
    frame.tag = wire::tagWithin(current.label);
    frame.call = current.call;
    frame.start = current.ready;
    frame.bytes = uint64_t(piece.outBytes);
    owner->write(processOf(s), frame, {asio::buffer(piece.out, frame.bytes)}, [this] {
      --sending;
      look();
    });
  }
  for (int32_t s = 0; s < place.shards && !stopped; ++s) {
    Peer &peer = peers[size_t(s)];
    if (!peer.early || !isDue(s, *peer.early) || !peer.whole)
      continue;
    const wire::Frame frame = *peer.early;
    came(s, frame);
  }
  look();
}

bool ShardExchange::has(int32_t process) const {
  return process != place.world() && process >= processOf(0) && process < processOf(place.shards);
}

/// Whether a frame is what the round needs from the shard; refuses it otherwise.
bool ShardExchange::isDue(int32_t shard, const wire::Frame &frame) {
  const wire::Tag own = wire::tagWithin(current.label);
  const Piece &piece = current.pieces[size_t(shard)];
  std::string wrong;
  if (frame.tag != own || frame.call != current.call)
    wrong = fmt::format("is at {}, this shard at {}", wire::describe(frame.call, frame.tag),
                        wire::describe(current.call, own));
  else if (plan::Bytes(frame.bytes) != piece.inBytes)
    wrong = fmt::format("sends {} bytes to it where {} are expected", frame.bytes, piece.inBytes);
  if (!wrong.empty())
    refuse(processOf(shard), wrong);
  return wrong.empty();
}

/// Stops the round: data that has begun to arrive may not fit where it would be put.
void ShardExchange::refuse(int32_t process, const std::string &wrong) {
  stopped = true;
  owner->refuse(process, wrong);
}

const std::vector<asio::mutable_buffer> *ShardExchange::onPart(int32_t process, const wire::Frame &frame) {
  const int32_t shard = process - processOf(0);
  Peer &peer = peers[size_t(shard)];
  if (stopped)
    return nullptr;
  peer.landing.clear();
  if (isOpen && !peer.came && !peer.early) {
    const Piece &piece = current.pieces[size_t(shard)];
    if (!isDue(shard, frame))
      return nullptr;
    if (piece.inBytes > 0)
      peer.landing.push_back(asio::buffer(piece.in, size_t(piece.inBytes)));
    return &peer.landing;
  }
  if (peer.early) {
    refuse(process, fmt::format("is at {} already", wire::describe(frame.call, frame.tag)));
    return nullptr;
  }
  try {
    peer.kept.resize(frame.bytes);
  } catch (const std::exception &) { // the size is too large to be true
    refuse(process, fmt::format("sends {} bytes of {}, for which there is no memory", frame.bytes,
                                wire::describe(frame.call, frame.tag)));
    return nullptr;
  }
  peer.early = frame;
  peer.whole = false;
  peer.landing.push_back(asio::buffer(peer.kept));
  return &peer.landing;
}

void ShardExchange::onArrived(int32_t process, const wire::Frame &frame) {
  const int32_t shard = process - processOf(0);
  Peer &peer = peers[size_t(shard)];
  if (stopped)
    return;
  if (peer.early) {
    peer.whole = true;
    if (!isOpen || peer.came) // it is of the next round
      return;
  }
  came(shard, frame);
  look();
}

/// To call when all of a shard's message of the round has come.
void ShardExchange::came(int32_t shard, const wire::Frame &frame) {
  Peer &peer = peers[size_t(shard)];
  if (peer.early) {
    copy(peer.kept.data(), plan::Bytes(frame.bytes), current.pieces[size_t(shard)].in);
    peer.early.reset();
  }
  peer.came = true;
  latest = std::max(latest, frame.start);
}

/// Ends the round once everything has been received and sent.
void ShardExchange::look() {
  if (!isOpen || stopped || sending > 0)
    return;
  for (int32_t s = 0; s < place.shards; ++s)
    if (s != place.shard && !peers[size_t(s)].came)
      return;
  isOpen = false;
  std::lock_guard lock(mutex);
  last = latest;
  finished = true;
  changed.notify_all();
}

void ShardExchange::release() {
  stopped = true;
  std::lock_guard lock(mutex);
  released = true;
  changed.notify_all();
}

std::string ShardExchange::describe() const {
  const Label &label = current.label;
  return fmt::format("{}: {}",
                     label.operation ? plan::describe(place, *label.operation, label.microbatch)
                                     : fmt::format("{}: portions for step {}", plan::nameOf(place), label.step),
                     wire::describe(current.call));
}

std::string ShardExchange::waiting() const {
  std::string missing;
  for (int32_t s = 0; s < place.shards; ++s)
    if (s != place.shard && !peers[size_t(s)].came)
      missing += (missing.empty() ? "" : ", ") + plan::processName(processOf(s), place.grid());
  return describe() + (missing.empty() ? "" : fmt::format(": {} did not come to it", missing));
}

Wait ShardExchange::wait() const {
  Wait wait{.late = [this] { return waiting(); }, .since = since};
  for (int32_t s = 0; s < place.shards; ++s)
    if (s != place.shard && !peers[size_t(s)].whole)
      wait.whom.push_back(processOf(s));
  return wait;
}

} // namespace pipec::runtime
