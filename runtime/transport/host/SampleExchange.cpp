#include "runtime/transport/host/SampleExchange.h"

#include "runtime/plan/Samples.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <numeric>

namespace pipec::runtime {

SampleExchange::SampleExchange(std::vector<int32_t> ofGroup, int32_t self, BlockExchange::Owner &owner)
    : members(std::move(ofGroup)), own(indexOf(self)), owner(owner), states(members.size()) {}

size_t SampleExchange::indexOf(int32_t process) const {
  const auto found = std::lower_bound(members.begin(), members.end(), process);
  return found == members.end() || *found != process ? members.size() : size_t(found - members.begin());
}

/// The samples i with i mod widths.from = from and i mod widths.to = to: none, or one in each least common multiple of
/// the widths.
SampleExchange::Moved SampleExchange::movedBetween(size_t from, size_t to) const {
  if (int64_t(from) >= widths.from || int64_t(to) >= widths.to)
    return {};
  const int64_t both = std::lcm(int64_t(widths.from), int64_t(widths.to));
  auto first = int64_t(from);
  while (first < both && first % widths.to != int64_t(to))
    first += widths.from;
  if (first >= both || first >= widths.batch)
    return {};
  return {(widths.batch - 1 - first) / both + 1,
          {first / widths.from, both / widths.from},
          {first / widths.to, both / widths.to}};
}

/// The buffers of those samples in a member's `slot`, with the bytes that are carried per sample.
template <typename Buffer>
std::vector<Buffer> SampleExchange::buffersOf(Slot slot, int32_t width, size_t member, int64_t count,
                                              const Places &places) const {
  std::vector<Buffer> buffers;
  const plan::Bytes bytes = slot.bytes / std::max<int64_t>(plan::samplesOf(widths.batch, width, int64_t(member)), 1);
  for (int64_t i = 0; i < count && bytes > 0; ++i)
    buffers.emplace_back(slot.data + (places.first + i * places.step) * bytes, size_t(bytes));
  return buffers;
}

void SampleExchange::begin(const Label &label, const SampleWidths &itsWidths, Slot from, Slot to, plan::Time ready) {
  underWay = true;
  tag = wire::tagOf(label);
  widths = itsWidths;
  source = from;
  target = to;
  last = ready;
  wire::Frame frame;
  frame.type = wire::Type::Ask;
  frame.tag = tag;
  frame.start = ready;
  frame.waited = 1;
  for (size_t member = 0; member < members.size(); ++member) {
    states[member].came = states[member].sent = states[member].brought = member == own;
    if (member != own)
      owner.write(members[member], frame, {}, {});
  }
  const Moved stays = movedBetween(own, own);
  const auto out = buffersOf<asio::const_buffer>(source, widths.from, own, stays.count, stays.from);
  const auto in = buffersOf<asio::mutable_buffer>(target, widths.to, own, stays.count, stays.to);
  for (size_t i = 0; i < in.size(); ++i)
    std::memcpy(in[i].data(), out[i].data(), in[i].size());
  for (size_t member = 0; member < members.size() && underWay; ++member)
    if (const std::optional<wire::Frame> early = std::exchange(states[member].early, std::nullopt))
      came(member, *early);
  owner.exchanged();
}

void SampleExchange::onAsk(int32_t process, const wire::Frame &frame) {
  const size_t member = indexOf(process);
  if (member >= members.size() || member == own)
    return owner.refuse(process, "is at " + wire::describe(frame.tag) + ", of a group that it is not in");
  if (underWay && !states[member].came) {
    came(member, frame);
    return owner.exchanged();
  }
  if (states[member].early)
    return owner.refuse(process, "came to " + wire::describe(frame.tag) + " twice");
  states[member].early = frame;
}

/// To call when a member has come to this reshard and takes the data for it.
void SampleExchange::came(size_t member, const wire::Frame &frame) {
  if (frame.tag != tag)
    return owner.refuse(members[member],
                        fmt::format("is at {}, this rank at {}", wire::describe(frame.tag), wire::describe(tag)));
  Member &state = states[member];
  state.came = true;
  state.brought = movedBetween(member, own).count == 0 || target.bytes == 0;
  last = std::max(last, frame.start);
  send(member);
}

void SampleExchange::send(size_t to) {
  const Moved moved = movedBetween(own, to);
  std::vector<asio::const_buffer> payload =
      buffersOf<asio::const_buffer>(source, widths.from, own, moved.count, moved.from);
  if (payload.empty()) {
    states[to].sent = true;
    return;
  }
  wire::Frame frame;
  frame.type = wire::Type::Block;
  frame.tag = tag;
  frame.bytes = asio::buffer_size(payload);
  owner.write(members[to], frame, std::move(payload), [this, to] {
    states[to].sent = true;
    owner.exchanged();
  });
}

const std::vector<asio::mutable_buffer> *SampleExchange::onBlock(int32_t process, const wire::Frame &frame) {
  const size_t member = indexOf(process);
  std::vector<asio::mutable_buffer> landing;
  if (underWay && member < members.size() && member != own && frame.tag == tag && states[member].came &&
      !states[member].brought) {
    const Moved moved = movedBetween(member, own);
    landing = buffersOf<asio::mutable_buffer>(target, widths.to, own, moved.count, moved.to);
  }
  if (!landing.empty() && asio::buffer_size(landing) == frame.bytes)
    return &(states[member].landing = std::move(landing));
  owner.refuse(process, fmt::format("sent {} bytes of {} where {} were due", frame.bytes, wire::describe(frame.tag),
                                    landing.empty() ? "none" : std::to_string(asio::buffer_size(landing))));
  return nullptr;
}

void SampleExchange::onArrived(int32_t process, const wire::Frame &) {
  states[indexOf(process)].brought = true;
  owner.exchanged();
}

bool SampleExchange::done() const {
  return underWay && std::all_of(states.begin(), states.end(),
                                 [](const Member &each) { return each.came && each.sent && each.brought; });
}

int32_t SampleExchange::missing() const {
  const auto found = std::find_if(states.begin(), states.end(), [](const Member &each) { return !each.came; });
  return found == states.end() ? -1 : members[size_t(found - states.begin())];
}

} // namespace pipec::runtime
