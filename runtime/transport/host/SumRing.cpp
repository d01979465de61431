// A rank that comes to the sum says so at once to the next rank: with a Sum if it already has the partial sum, else
// with Here. So a rank that waits knows whether its neighbour is the one that is missing.
#include "runtime/transport/host/SumRing.h"

#include <algorithm>
#include <fmt/format.h>

namespace pipec::runtime {

using wire::Type;

SumRing::Outcome SumRing::join(const wire::Tag &which, double number, plan::Time ready) {
  joined = true;
  tag = which;
  own = {number, ready};
  if (ranks == 1)
    return done();
  if (rank == 0 || part)
    return add();
  tell(Type::Here, after());
  return {};
}

SumRing::Outcome SumRing::hear(const wire::Frame &frame) {
  present = true;
  if (frame.type == Type::Here)
    return {};
  if (frame.type == Type::Sum) {
    if (rank == 0 || part || passed)
      return {{}, "sent a part of a sum where none was due"};
    part = frame;
    return joined ? add() : Outcome{};
  }
  if (!passed)
    return {{}, "sent the total of a sum where none was due"};
  if (frame.tag != tag)
    return {{}, difference(frame.tag)};
  own = {frame.sum, frame.start};
  if (after() != ranks - 1)
    tell(Type::Total, after());
  return done();
}

/// Adds this rank's number to the partial sum and passes that on.
SumRing::Outcome SumRing::add() {
  if (part) {
    if (part->tag != tag)
      return {{}, difference(part->tag)};
    own = {part->sum + own.sum, std::max(part->start, own.ready)};
    part.reset();
  }
  if (rank == ranks - 1) {
    tell(Type::Total, 0);
    return done();
  }
  tell(Type::Sum, after());
  passed = true;
  return {};
}

void SumRing::tell(Type type, int32_t to) const {
  wire::Frame frame;
  frame.type = type;
  frame.tag = tag;
  frame.sum = own.sum;
  frame.start = own.ready;
  write(to, frame);
}

SumRing::Outcome SumRing::done() {
  joined = passed = present = false;
  return {own, {}};
}

std::string SumRing::difference(const wire::Tag &theirs) const {
  return fmt::format("is at {}, this rank at {}", wire::describe(theirs), wire::describe(tag));
}

} // namespace pipec::runtime
