#include "runtime/transport/host/BlockExchange.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace pipec::runtime {

namespace {

plan::Bytes bytesOf(const std::vector<Extent> &part) {
  plan::Bytes bytes = 0;
  for (const Extent &extent : part)
    bytes += extent.bytes();
  return bytes;
}

/// Received numbers of different types follow each other, so they need not be aligned.
template <typename T> void addTo(std::byte *to, const std::byte *from, int64_t count) {
  for (int64_t i = 0; i < count; ++i, to += sizeof(T), from += sizeof(T)) {
    T own, other;
    std::memcpy(&own, to, sizeof(T));
    std::memcpy(&other, from, sizeof(T));
    own = other + own;
    std::memcpy(to, &own, sizeof(T));
  }
}

} // namespace

BlockExchange::BlockExchange(std::vector<int32_t> ofGroup, int32_t self, asio::io_context &io, asio::thread_pool &adder,
                             Owner &owner)
    : members(std::move(ofGroup)), io(io), adder(adder), owner(owner),
      ring(int32_t(std::find(members.begin(), members.end(), self) - members.begin()), int32_t(members.size()), *this) {
}

void BlockExchange::begin(const Label &label, std::span<const LayerMemory> layers, plan::Time ready) {
  blocks.clear();
  std::vector<int32_t> counts;
  for (size_t block = 0; block < members.size(); ++block) {
    blocks.push_back(partsOf(shareOf(*label.operation, layers, int32_t(block), int32_t(members.size())), kPart));
    counts.push_back(int32_t(blocks.back().size()));
  }
  const std::string wrong = ring.begin(wire::tagOf(label), label.operation->kind, std::move(counts), ready);
  if (!wrong.empty())
    return owner.refuse(after(), wrong);
  owner.exchanged();
}

void BlockExchange::onAsk(int32_t process, const wire::Frame &frame) {
  if (process != after())
    return owner.refuse(process, "asked for blocks that go to another");
  if (const std::string wrong = ring.asked(frame.tag, frame.waited); !wrong.empty())
    return owner.refuse(process, wrong);
  owner.exchanged();
}

const std::vector<asio::mutable_buffer> *BlockExchange::onBlock(int32_t process, const wire::Frame &frame) {
  const std::optional<BlockRing::Message> due = ring.due();
  if (process != before() || !due || frame.tag != ring.tag() || plan::Bytes(frame.bytes) != bytesOf(partOf(*due))) {
    owner.refuse(process,
                 fmt::format("sent {} bytes of {} where none were due", frame.bytes, wire::describe(frame.tag)));
    return nullptr;
  }
  landing.clear();
  if (due->adds) {
    std::vector<std::byte> &place = received[size_t(due->number % BlockRing::kAhead)];
    place.resize(frame.bytes);
    landing.push_back(asio::buffer(place));
  } else {
    for (const Extent &extent : partOf(*due))
      landing.push_back(asio::buffer(extent.data, size_t(extent.bytes())));
  }
  return &landing;
}

void BlockExchange::onArrived(int32_t, const wire::Frame &frame) {
  const BlockRing::Message came = *ring.due();
  if (came.adds)
    add(came);
  ring.arrived(frame.start);
  owner.exchanged();
}

/// Adds a received part. Parts are added in the order in which they come, as the adder is one thread.
void BlockExchange::add(const BlockRing::Message &message) {
  asio::post(adder,
             [this, &part = partOf(message), from = received[size_t(message.number % BlockRing::kAhead)].data()] {
               const std::byte *at = from;
               for (const Extent &extent : part) {
                 (extent.type == Number::Float64 ? addTo<double> : addTo<float>)(extent.data, at, extent.count);
                 at += extent.bytes();
               }
               asio::post(io, [this] {
                 ring.dealt();
                 owner.exchanged();
               });
             });
}

void BlockExchange::ask(const wire::Tag &tag, int64_t count) {
  wire::Frame frame;
  frame.type = wire::Type::Ask;
  frame.tag = tag;
  frame.waited = count;
  owner.write(before(), frame, {}, {});
}

void BlockExchange::give(const wire::Tag &tag, const BlockRing::Message &message, plan::Time ready) {
  wire::Frame frame;
  frame.type = wire::Type::Block;
  frame.tag = tag;
  frame.start = ready;
  std::vector<asio::const_buffer> payload;
  for (const Extent &extent : partOf(message)) {
    payload.push_back(asio::buffer(extent.data, size_t(extent.bytes())));
    frame.bytes += uint64_t(extent.bytes());
  }
  owner.write(after(), frame, std::move(payload), [this] {
    ring.left();
    owner.exchanged();
  });
}

} // namespace pipec::runtime
