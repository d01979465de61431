// Rule P24: on each ordered pair of ranks, the k-th send is what the k-th receive expects. NCCL has no tags: a swapped
// pair would be silently wrong gradients. Both sides are walked at once, rolled as they are. Rule P40: the order in
// which connections are first used.
#include "runtime/plan/Disassemble.h"
#include "runtime/plan/Text.h"
#include "runtime/plan/rules/Rules.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

namespace pipec::plan::rules {
namespace {

/// The transfers of one peer and direction within one segment: some instructions, `trips` times.
struct Run {
  uint32_t trips = 0;
  std::vector<uint32_t> instructions;
};
using Stream = std::vector<Run>;

/// The streams of a program, by peer and direction.
class Streams {
public:
  explicit Streams(const Program &program) {
    for (const Segment &segment : program.step)
      for (uint32_t i = segment.first; i < segment.first + segment.count; ++i) {
        const Operation &o = program.operations[program.instructions[i].operation];
        if (!isTransfer(o.kind))
          continue;
        auto &[stream, of] = streams[endOf(o)];
        if (of != &segment)
          stream.push_back({segment.trips, {}});
        of = &segment;
        stream.back().instructions.push_back(i);
      }
  }
  const Stream &at(int32_t peer, Direction direction) const {
    static const Stream kNone;
    const auto found = streams.find(endOf(peer, direction));
    return found == streams.end() ? kNone : found->second.first;
  }

private:
  std::unordered_map<uint64_t, std::pair<Stream, const Segment *>> streams;
};

class StreamCursor {
public:
  StreamCursor(const Program &program, const Stream &stream) : program(&program), stream(&stream) {}
  bool done() const { return run == stream->size(); }
  Step at() const {
    const Instruction &i = program->instructions[(*stream)[run].instructions[index]];
    return {&i, &program->operations[i.operation], trip};
  }
  void next() {
    if (++index < (*stream)[run].instructions.size())
      return;
    index = 0;
    if (++trip < (*stream)[run].trips)
      return;
    trip = 0;
    ++run;
  }

private:
  const Program *program;
  const Stream *stream;
  size_t run = 0, index = 0;
  uint32_t trip = 0;
};

bool match(const Step &send, const Step &recv) {
  const Operation &s = *send.operation, &r = *recv.operation;
  const int32_t toward = s.of == Payload::Forward ? 1 : -1;
  return s.of == r.of && r.stage == s.stage + toward && send.microbatch() == recv.microbatch() && s.bytes == r.bytes &&
         s.cost == r.cost && s.latency == r.latency;
}

std::string transferText(int32_t rank, const Step &step) {
  const Operation &o = *step.operation;
  return fmt::format("{} ({}, {} + {})", describe(rank, o, step.microbatch()), bytesText(o.bytes), timeText(o.cost),
                     timeText(o.latency));
}

Status matchPair(const Program &from, const Stream &sends, const Program &to, const Stream &receives) {
  StreamCursor send(from, sends), recv(to, receives);
  for (int64_t n = 0; !send.done() || !recv.done(); ++n, send.next(), recv.next()) {
    if (send.done() || recv.done())
      return Status::check(fmt::format("P24: transfer {} from rank {} to rank {} is {} only", n, from.rank, to.rank,
                                       send.done() ? "received" : "sent"));
    if (!match(send.at(), recv.at()))
      return Status::check(fmt::format("P24: transfer {} from rank {} to rank {} does not match: {} meets {}", n,
                                       from.rank, to.rank, transferText(from.rank, send.at()),
                                       transferText(to.rank, recv.at())));
  }
  return {};
}

} // namespace

Status transferOrder(const Variant &variant) {
  std::vector<Streams> streams;
  streams.reserve(variant.programs.size());
  for (const Program &program : variant.programs)
    streams.emplace_back(program);
  for (const Program &from : variant.programs)
    for (const Ring &ring : from.rings) {
      if (ring.direction != Direction::Send)
        continue; // P23: who receives is sent to
      const Program &to = variant.programs[size_t(ring.peer)];
      if (Status status = matchPair(from, streams[size_t(from.rank)].at(ring.peer, Direction::Send), to,
                                    streams[size_t(to.rank)].at(from.rank, Direction::Recv));
          !status.ok())
        return status;
    }
  return {};
}

namespace {

/// The ordered pairs of ranks that a program's transfers connect, in the order in which they are first issued.
std::vector<std::pair<int32_t, int32_t>> connectionsOf(const Program &program) {
  std::vector<std::pair<int32_t, int32_t>> connections;
  std::unordered_set<uint64_t> seen;
  for (const Instruction &instruction : program.instructions) // in issue order, whatever the trips
    if (const Operation &o = program.operations[instruction.operation];
        isTransfer(o.kind) && seen.insert(endOf(o)).second)
      connections.push_back(plan::sends(o.kind) ? std::pair(program.rank, o.peer) : std::pair(o.peer, program.rank));
  return connections;
}

} // namespace

Status firstUse(const Variant &variant) {
  // Both ends of a connection meet at its first use: a connection is made once it is the next of both its ranks.
  std::vector<std::vector<std::pair<int32_t, int32_t>>> connections;
  for (const Program &program : variant.programs)
    connections.push_back(connectionsOf(program));
  std::vector<size_t> made(connections.size());
  auto next = [&](int32_t rank) -> const std::pair<int32_t, int32_t> * {
    const auto &own = connections[size_t(rank)];
    return made[size_t(rank)] == own.size() ? nullptr : &own[made[size_t(rank)]];
  };
  std::vector<int32_t> awake(connections.size());
  std::iota(awake.begin(), awake.end(), 0);
  while (!awake.empty()) {
    const int32_t rank = awake.back();
    const auto *own = next(rank);
    const int32_t peer = !own ? -1 : own->first == rank ? own->second : own->first;
    const auto *others = own ? next(peer) : nullptr;
    if (!others || *others != *own) {
      awake.pop_back(); // its peer wakes it
      continue;
    }
    ++made[size_t(rank)];
    ++made[size_t(peer)];
    awake.push_back(peer);
  }
  int32_t rank = 0;
  while (rank != int32_t(connections.size()) && !next(rank))
    ++rank;
  if (rank == int32_t(connections.size()))
    return {};
  // P23: both ends have it; so from any rank that is left the chain of peers comes round.
  std::vector<int32_t> chain;
  while (std::find(chain.begin(), chain.end(), rank) == chain.end()) {
    chain.push_back(rank);
    const auto *own = next(rank);
    rank = own->first == rank ? own->second : own->first;
  }
  chain.erase(chain.begin(), std::find(chain.begin(), chain.end(), rank));
  std::string message =
      fmt::format("P40: connections that are made when they are first used would wait for each other in a "
                  "cycle of {} ranks: ",
                  chain.size());
  constexpr size_t kShown = 8;
  for (size_t i = 0; i != std::min(kShown, chain.size()); ++i)
    message += fmt::format("{}rank {} first connects {} to {}", i == 0 ? "" : ", ", chain[i], next(chain[i])->first,
                           next(chain[i])->second);
  return Status::check(message + (chain.size() > kShown ? ", …" : "") +
                       "; issue first transfers in one order on all ranks");
}

} // namespace pipec::plan::rules
