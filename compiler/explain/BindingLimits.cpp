#include "compiler/explain/BindingLimits.h"

#include "compiler/explain/Rewait.h"
#include "compiler/schedule/model/Problem.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Text.h"
#include "runtime/plan/Unroll.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace pipec::emit {

using plan::Direction;
using plan::Kind;
using plan::Operation;
using plan::Time;
using simulate::Cause;
using simulate::Executed;
using simulate::Occurrence;
using simulate::Recording;
using simulate::Why;

namespace {

/// What a link passes in a second, by the largest payload that it carries; 0: no limit.
int64_t bandwidthOf(const plan::Program &sender, int32_t peer) {
  constexpr __int128 kPicosecondsPerSecond = 1'000'000'000'000;
  const Operation *largest = nullptr;
  for (const Operation &operation : sender.operations)
    if (plan::sends(operation.kind) && operation.peer == peer && operation.cost > 0 && operation.bytes > 0 &&
        (!largest || operation.bytes > largest->bytes))
      largest = &operation;
  if (!largest)
    return 0;
  const __int128 bandwidth =
      (__int128(largest->bytes) * kPicosecondsPerSecond * 2 + largest->cost) / (__int128(largest->cost) * 2);
  return int64_t(std::clamp<__int128>(bandwidth, 1, limits::kBytes));
}

const plan::Ring *ringOf(const plan::Program &program, int32_t peer, Direction direction) {
  for (const plan::Ring &ring : program.rings)
    if (ring.peer == peer && ring.direction == direction)
      return &ring;
  return nullptr;
}

/// How many buffers or contexts could be of use: the transfers of a step with one peer in one direction, or the W on
/// the weights queue.
int64_t usesOf(const plan::Program &program, const Limit &limit) {
  int64_t uses = 0;
  for (plan::Cursor cursor(program); !cursor.done(); cursor.next()) {
    const Operation &operation = *cursor.at().operation;
    if (limit.kind == Limit::Kind::Contexts)
      uses += plan::classOf(operation.kind) == plan::Class::Weights;
    else
      uses += operation.peer == limit.peer &&
              operation.kind == (limit.direction == Direction::Send ? Kind::Send : Kind::Recv);
  }
  return uses;
}

/// The limits that a chain meets, one after the other.
class Meeting {
public:
  Meeting(const plan::Variant &variant, const Recording &recording) : variant(variant), recording(recording) {}

  void start(const Occurrence &place, const Cause &cause) {
    if (!cause.by)
      return;
    const Time held = recording.at(*cause.by).end - recording.at(*cause.by).start;
    if (cause.why == Why::Memory)
      add({Limit::Kind::Contexts, rankOf(place), -1, {}, 0, 1, 0, held});
    else if (cause.why == Why::Buffer)
      buffer(place, *cause.by, held);
  }

  /// A transfer on the chain; what comes after it began when its wire was free, or when its data arrived.
  void transfer(const Occurrence &place) {
    const Occurrence send = plan::sends(recording.at(place).operation->kind) ? place : recording.peerOf(place);
    const Operation &operation = *recording.at(send).operation;
    const Time wire = recording.at(send).end - recording.at(send).start;
    if (const int64_t now = bandwidthOf(variant.programs[size_t(rankOf(send))], operation.peer);
        wire > 0 && now > 0 && now <= limits::kBytes / 2)
      add({Limit::Kind::Bandwidth, rankOf(send), operation.peer, {}, now, 2 * now, 0, wire});
    if (const Time rest = recording.at(place).end - recording.at(send).end; rest > 0)
      add({Limit::Kind::Latency, rankOf(send), operation.peer, {}, operation.latency, operation.latency / 2, 0, rest});
  }

  std::vector<Limit> found;

private:
  int32_t rankOf(const Occurrence &place) const { return place.place / variant.shards(); }

  void buffer(const Occurrence &place, const Occurrence &by, Time held) {
    const Operation &own = *recording.at(place).operation;
    int32_t peer = -1;
    Direction direction = Direction::Recv;
    if (plan::isTransfer(own.kind)) {
      const Occurrence recv = plan::receives(own.kind) ? place : recording.peerOf(place);
      if (recv.place == by.place)
        peer = recording.at(recv).operation->peer;
    } else {
      peer = recording.at(by).operation->peer;
      direction = Direction::Send;
    }
    if (const plan::Ring *ring = ringOf(variant.programs[size_t(rankOf(by))], peer, direction))
      add({Limit::Kind::Buffers, rankOf(by), peer, direction, ring->size, int64_t(ring->size) + 1, ring->slotBytes,
           held});
  }

  void add(const Limit &limit) {
    for (Limit &each : found)
      if (each.sameAs(limit)) {
        each.held += limit.held;
        return;
      }
    found.push_back(limit);
  }

  const plan::Variant &variant;
  const Recording &recording;
};

/// Lets F and B wait for fewer W, so that as many more contexts are kept. The last W of a stage are waited for as
/// before: an optimizer step may rely on a backward before it that has.
void keepContexts(plan::Program &program, int64_t more) {
  std::map<int32_t, int64_t> last; // of each stage, by its place on the weights queue
  int64_t weights = 0;
  for (const plan::Instruction &instruction : program.instructions)
    if (program.queues[instruction.queue].priority == plan::Priority::Weights)
      last[program.operations[instruction.operation].stage] = ++weights;
  int64_t first = weights + 1;
  for (const auto &[stage, place] : last)
    first = std::min(first, place);
  for (plan::Instruction &instruction : program.instructions) {
    if (const Kind kind = program.operations[instruction.operation].kind;
        !plan::isCompute(kind) && plan::classOf(kind) != plan::Class::Header)
      continue;
    for (uint32_t w = instruction.firstWait; w != instruction.firstWait + instruction.waits; ++w) {
      plan::Wait &wait = program.waits[w];
      if (program.queues[wait.queue].priority == plan::Priority::Weights && !wait.previousStep && wait.base < first)
        wait.base = std::max<int64_t>(0, wait.base - more);
    }
  }
}

/// What the shard of a rank that needs most needs.
plan::Bytes peakOf(const plan::Variant &variant, const Recording &recording, int32_t rank) {
  plan::Bytes peak = 0;
  for (int32_t shard = 0; shard != variant.shards(); ++shard)
    peak = std::max(peak, recording.result.places[size_t(rank * variant.shards() + shard)].peak);
  return peak;
}

/// A limit raised by the amount that gains something, if any does.
Status gainOf(const plan::Variant &variant, const Recording &recording, const Occurrence &place, Limit limit,
              Gain &gain) {
  // What goes on from a sum for which it has waited is looked at from there.
  const auto beginOf = [&](const Recording &of) {
    return recording.heldBy(place) ? of.at(place).met : of.at(place).start;
  };
  const Time start = beginOf(recording), peak = peakOf(variant, recording, limit.rank);
  const bool counted = limit.kind == Limit::Kind::Buffers || limit.kind == Limit::Kind::Contexts;
  const int64_t most = counted ? usesOf(variant.programs[size_t(limit.rank)], limit) : 0;
  for (int64_t more = 1;; more *= 2) {
    Limit each = limit;
    if (counted)
      each.raised = std::min(limit.now + more, most);
    Recording other;
    if (Status status = other.run(raised(variant, each), {}); !status.ok())
      return status;
    each.memory = peakOf(variant, other, limit.rank) - peak;
    const Gain found{each, beginOf(other), other.result.makespan};
    const bool gains = found.start < start || found.makespan < recording.result.makespan;
    if (more == 1 || gains)
      gain = found;
    if (gains || !counted || each.raised == most)
      return {};
  }
}

} // namespace

bool Limit::sameAs(const Limit &other) const {
  return kind == other.kind && rank == other.rank && peer == other.peer && direction == other.direction;
}

plan::Variant raised(const plan::Variant &variant, const Limit &limit) {
  plan::Variant made = variant;
  made.memoryLimit = 0;
  for (plan::Program &program : made.programs)
    program.memoryLimit = 0;
  made.certificate = {};
  plan::Program &own = made.programs[size_t(limit.rank)];
  switch (limit.kind) {
  case Limit::Kind::Bandwidth:
  case Limit::Kind::Latency:
    for (const bool sends : {true, false})
      for (Operation &operation : made.programs[size_t(sends ? limit.rank : limit.peer)].operations)
        if (operation.kind == (sends ? Kind::Send : Kind::Recv) &&
            operation.peer == (sends ? limit.peer : limit.rank)) {
          if (limit.kind == Limit::Kind::Latency)
            operation.latency = limit.raised;
          else
            operation.cost = schedule::wireTime(operation.bytes, limit.raised);
        }
    break;
  case Limit::Kind::Buffers:
    own = plan::unrolled(own);
    for (plan::Ring &ring : own.rings)
      if (ring.peer == limit.peer && ring.direction == limit.direction)
        ring.size = uint32_t(limit.raised);
    rewait(own);
    break;
  case Limit::Kind::Contexts:
    own = plan::unrolled(own);
    keepContexts(own, limit.raised - limit.now);
    break;
  }
  return made;
}

Status gains(const plan::Variant &variant, const Recording &recording, const Occurrence &place, size_t most,
             std::vector<Gain> &gains) {
  Meeting meeting(variant, recording);
  std::vector<Occurrence> chain = recording.chain(place);
  for (size_t i = chain.size(); i-- != 0;) {
    if (recording.heldBy(chain[i]))
      continue; // what came last to its sum stands before it
    const Cause cause = recording.causeOf(chain[i]);
    meeting.start(chain[i], cause);
    if (cause.by && plan::isTransfer(recording.at(*cause.by).operation->kind))
      meeting.transfer(*cause.by);
  }
  std::vector<Limit> limits = std::move(meeting.found);
  std::sort(limits.begin(), limits.end(), [](const Limit &a, const Limit &b) {
    return std::tuple(-a.held, a.kind, a.rank, a.peer, a.direction) <
           std::tuple(-b.held, b.kind, b.rank, b.peer, b.direction);
  });
  if (limits.size() > most)
    limits.resize(most);
  for (const Limit &limit : limits)
    if (Status status = gainOf(variant, recording, place, limit, gains.emplace_back()); !status.ok())
      return status;
  return {};
}

std::string describe(const Limit &limit) {
  const int64_t more = limit.raised - limit.now;
  const std::string memory = fmt::format(", {} more on rank {}", plan::bytesText(limit.memory), limit.rank);
  switch (limit.kind) {
  case Limit::Kind::Bandwidth:
    return fmt::format("{} from rank {} to rank {}, not {}", plan::bandwidthText(limit.raised), limit.rank, limit.peer,
                       plan::bandwidthText(limit.now));
  case Limit::Kind::Latency:
    return fmt::format("a latency of {} from rank {} to rank {}, not {}", plan::timeText(limit.raised), limit.rank,
                       limit.peer, plan::timeText(limit.now));
  case Limit::Kind::Buffers:
    return fmt::format("{} buffers on rank {} for what it {} rank {}, not {}{}", limit.raised, limit.rank,
                       limit.direction == Direction::Send ? "sends to" : "receives from", limit.peer, limit.now,
                       memory);
  case Limit::Kind::Contexts:
    return fmt::format("{} context{} more before rank {} waits for W{}", more, more == 1 ? "" : "s", limit.rank,
                       memory);
  }
  return "";
}

const char *name(Limit::Kind kind) {
  switch (kind) {
  case Limit::Kind::Bandwidth:
    return "bandwidth";
  case Limit::Kind::Latency:
    return "latency";
  case Limit::Kind::Buffers:
    return "buffers";
  case Limit::Kind::Contexts:
    return "contexts";
  }
  return "";
}

} // namespace pipec::emit
