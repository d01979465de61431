#include "runtime/transport/host/BlockRing.h"

#include <algorithm>
#include <fmt/format.h>

namespace pipec::runtime {

static std::string difference(const wire::Tag &theirs, const wire::Tag &own) {
  return fmt::format("is at {}, this rank at {}", wire::describe(theirs), wire::describe(own));
}

std::string BlockRing::begin(const wire::Tag &tag, plan::Kind kind, std::vector<int32_t> ofBlocks, plan::Time ready) {
  underWay = true;
  own = tag;
  parts = std::move(ofBlocks);
  first = plan::sums(kind) ? 0 : replicas - 1;
  end_ = plan::gathers(kind) ? 2 * (replicas - 1) : replicas - 1;
  last = ready;
  comes = messages(&BlockRing::heardIn);
  goes = messages(&BlockRing::sentIn);
  coming = dealing = going = {first, 0, 0};
  come = dealtWith = gone = wants = askedFor = adding = 0;
  if (early && early->first != tag)
    return difference(early->first, tag);
  if (early)
    wants = early->second;
  early.reset();
  advance();
  return {};
}

std::string BlockRing::asked(const wire::Tag &tag, int64_t count) {
  if (count < 1 || count > kAhead)
    return fmt::format("asked for {} messages at once", count);
  if (underWay && tag == own) {
    wants += count;
    advance();
    return {};
  }
  if (underWay && wants < goes) // after() asks for all messages of a collective before it comes to the next
    return difference(tag, own);
  if (early)
    return difference(tag, early->first);
  early = {tag, count};
  return {};
}

int64_t BlockRing::messages(int32_t (BlockRing::*blockOf)(int32_t) const) const {
  int64_t count = 0;
  for (int32_t round = first; round < end_; ++round)
    count += parts[size_t((this->*blockOf)(round))];
  return count;
}

void BlockRing::next(Cursor &cursor, int32_t block) const {
  ++cursor.number;
  if (++cursor.part < parts[size_t(block)])
    return;
  cursor.part = 0;
  ++cursor.round;
}

std::optional<BlockRing::Message> BlockRing::due() const {
  if (!underWay || come == askedFor)
    return std::nullopt;
  return Message{heardIn(coming.round), coming.part, coming.round < replicas - 1, coming.number};
}

void BlockRing::arrived(plan::Time ready) {
  last = std::max(last, ready);
  adding += coming.round < replicas - 1;
  next(coming, heardIn(coming.round));
  ++come;
  advance();
}

void BlockRing::dealt() {
  --adding;
  next(dealing, heardIn(dealing.round));
  ++dealtWith;
  advance();
}

void BlockRing::left() { ++gone; }

/// Whether the next message can be sent: what was received in one round is sent on in the next, part by part.
bool BlockRing::canSend() const {
  if (going.number == goes || going.number == wants)
    return false;
  return going.round == first || std::pair(going.round - 1, going.part) < std::pair(dealing.round, dealing.part);
}

void BlockRing::advance() {
  if (adding == 0) { // messages that only had to be stored are dealt with
    dealing = coming;
    dealtWith = come;
  }
  if (const int64_t more = std::min(dealtWith + kAhead, comes) - askedFor; more > 0) {
    askedFor += more;
    carrier.ask(own, more);
  }
  while (canSend()) {
    const int32_t block = sentIn(going.round);
    const Message message{block, going.part, false, going.number};
    next(going, block);
    carrier.give(own, message, last);
  }
}

} // namespace pipec::runtime
