// Vector clocks tell what each instruction can be sure of: for each queue, how many of its instructions are certain to
// be over when this one starts. The clocks are carried along the partial order of two steps, sixteen queues at a time;
// few clocks are needed at once.
#include "runtime/simulate/InFlight.h"

#include "runtime/plan/HandOvers.h"
#include "runtime/simulate/Simulate.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

namespace pipec::simulate {

using plan::Direction;
using plan::HandOvers;
using plan::Kind;

bool Flight::isDrained() const {
  return std::all_of(overBefore.begin(), overBefore.end(), [&](uint32_t each) { return each == transfers; });
}

bool Flight::bindsNever(uint32_t size) const {
  if (size < inStep)
    return false;
  const uint32_t last = transfers - 1;
  if (overBefore[last % size] <= last) // checked first: least is known of the last transfer
    return false;
  for (uint32_t n = 0; n != std::min(size, transfers); ++n)
    if (overBefore[n] <= n + (last - n) / size * size)
      return false;
  return true;
}

std::optional<uint32_t> Flight::freeSize(uint32_t least) const {
  for (uint32_t size = std::max(least, inStep); size <= transfers; ++size)
    if (bindsNever(size))
      return size;
  return {};
}

namespace {

constexpr uint32_t kNone = ~uint32_t(0);
constexpr int64_t kSteps = 2; // if anything is known of an earlier step, the step right after it knows it

/// The partial order of two steps, recorded in a walk, which reports each instruction after everything it depends on.
class Order {
public:
  explicit Order(const plan::Variant &variant) : variant(variant), ranks(variant.programs.size()) {
    for (size_t rank = 0; rank != ranks.size(); ++rank)
      read(variant.programs[rank], ranks[rank]);
  }

  Status run(std::vector<std::vector<Flight>> &flights) {
    Options options;
    options.steps = kSteps;
    options.observe = [this](const Event &event) { add(event); };
    Result result;
    if (Status status = simulate(variant, options, result); !status.ok())
      return status;
    placeClocks();
    known.resize(size_t(kSteps) * uses);
    for (uint32_t first = 0; first < lanes; first += kLanes)
      propagate(first);
    flights.assign(ranks.size(), {});
    for (size_t rank = 0; rank != ranks.size(); ++rank)
      for (const auto &[key, ring] : ranks[rank].rings)
        flights[rank].push_back(flightOf(key, ring));
    return {};
  }

private:
  static constexpr uint32_t kLanes = 16;
  using Clock = std::array<int32_t, kLanes>;

  struct Issued {
    uint32_t instruction = 0, trip = 0;
    uint32_t place = 0;    // position on its queue, from 1
    uint32_t from = kNone; // in issue order: the instruction that hands data to it
    uint32_t use = kNone;  // use of a slot, if it takes one
    uint32_t counter = 0;  // if it takes a slot: the queue that counts when such uses are over
  };
  /// The transfers of one peer and direction. There is a use per transfer, from `firstUse` on.
  struct Ring {
    uint32_t queue = 0;           // counts when they are over
    std::vector<uint32_t> places; // position on `queue` of what frees the n-th transfer's slot
    std::vector<uint32_t> takers; // in issue order: what takes the n-th transfer's slot
    uint32_t firstUse = 0;
  };
  struct Queue {
    int64_t perStep = 0;
    uint32_t lane = kNone; // lane of the clocks; kNone: not needed
    /// A queue with receives, which goes on before they count, has two lanes: how far it has come, and how far it has
    /// counted, as waits tell. Other queues have one lane for both.
    bool receives = false;
    std::vector<uint32_t>
        nextRecv; // with receives, by position: position of the next receive from there on, over both steps
    std::vector<uint32_t> nodes; // by position, from 0
  };
  struct Rank {
    std::vector<Issued> issued;
    std::vector<Queue> queues;
    std::vector<bool> exchanges;                    // by queue: whether passes wait for its collectives
    std::map<std::pair<int32_t, bool>, Ring> rings; // by peer, and whether it receives
  };
  /// A lane that has reached a count.
  struct Mark {
    uint32_t lane;
    int32_t count;
  };
  struct Take {
    uint32_t use; // index in `known`
    uint32_t lane;
  };
  /// An instruction, a transfer with both its ends, or a collective with all its parts. The fields say where its
  /// entries begin in the arrays of the same names.
  struct Node {
    uint32_t after, starts, takes, ends;
    uint32_t clock = 0; // index of its clock
  };

  static const plan::Operation &of(const plan::Program &program, const Issued &own) {
    return program.operations[program.instructions[own.instruction].operation];
  }
  static Queue &queueOf(const plan::Program &program, Rank &rank, const Issued &own) {
    return rank.queues[program.instructions[own.instruction].queue];
  }

  void read(const plan::Program &program, Rank &rank) {
    rank.queues.resize(program.queues.size());
    rank.exchanges = plan::exchangeQueues(program);
    std::set<int32_t> groups;
    for (plan::Cursor cursor(program); !cursor.done(); cursor.next()) {
      const plan::Step step = cursor.at();
      Queue &queue = rank.queues[step.instruction->queue];
      rank.issued.push_back(
          {uint32_t(step.instruction - program.instructions.data()), uint32_t(step.trip), uint32_t(++queue.perStep)});
      queue.receives |= plan::receives(step.operation->kind);
      if (plan::isCollective(step.operation->kind) && groups.insert(step.operation->group).second)
        ++members[step.operation->group];
    }
    const HandOvers handed(program);
    for (uint32_t i = 0; i != rank.issued.size(); ++i) {
      rank.issued[i].from = handed.from[i];
      const plan::Operation &operation = of(program, rank.issued[i]);
      if (!plan::isTransfer(operation.kind))
        continue;
      const bool receives = plan::receives(operation.kind);
      const Issued &frees = rank.issued[receives ? handed.to[i] : i];
      Ring &ring = rank.rings[{operation.peer, receives}];
      ring.queue = program.instructions[frees.instruction].queue;
      ring.places.push_back(frees.place);
      ring.takers.push_back(receives ? i : handed.from[i]);
    }
    for (auto &[key, ring] : rank.rings) {
      ring.firstUse = uses;
      for (const uint32_t taker : std::exchange(ring.takers, {})) {
        rank.issued[taker].use = uses++;
        rank.issued[taker].counter = ring.queue;
      }
      Queue &queue = rank.queues[ring.queue];
      if (queue.lane != kNone)
        continue;
      lanes += queue.receives ? lanes % 2 : 0; // so that both lanes are in one clock
      queue.lane = std::exchange(lanes, lanes + (queue.receives ? 2 : 1));
      queueOfLane[queue.lane] = &queue;
    }
    findReceives(program, rank);
  }

  static void findReceives(const plan::Program &program, Rank &rank) {
    for (Queue &queue : rank.queues)
      if (queue.lane != kNone && queue.receives)
        queue.nextRecv.assign(size_t(kSteps * queue.perStep) + 2, kNone);
    for (const Issued &own : rank.issued)
      if (Queue &queue = queueOf(program, rank, own); !queue.nextRecv.empty() && plan::receives(of(program, own).kind))
        for (int64_t step = 0; step != kSteps; ++step)
          queue.nextRecv[size_t(step * queue.perStep) + own.place] = uint32_t(step * queue.perStep) + own.place;
    for (Queue &queue : rank.queues)
      for (size_t place = queue.nextRecv.size(); place-- > 1;)
        queue.nextRecv[place - 1] = std::min(queue.nextRecv[place - 1], queue.nextRecv[place]);
  }

  /// The walk reports a receive right after its send, and all parts of a collective one after the other.
  void add(const Event &event) {
    const plan::Program &program = variant.programs[size_t(event.rank)];
    Rank &rank = ranks[size_t(event.rank)];
    Queue &queue = rank.queues[event.queue];
    const auto index = size_t(event.index);
    const Issued &own = rank.issued[index];
    const Kind kind = event.operation->kind;
    if (missing == 0) {
      begin();
      missing = plan::sends(kind) ? 2 : plan::isCollective(kind) ? members[event.operation->group] : 1;
    }
    --missing;
    if (!queue.nodes.empty())
      after.push_back(queue.nodes.back());
    const plan::Instruction &instruction = program.instructions[own.instruction];
    for (uint32_t w = 0; w != instruction.waits; ++w)
      if (const plan::Wait &wait = program.waits[instruction.firstWait + w];
          plan::isApart(program, rank.exchanges, kind, wait))
        await(rank.queues[wait.queue], wait.base + wait.stride * own.trip, event.step - (wait.previousStep ? 1 : 0));
    // Both passes of an overlapped pair start with their header…
    for (size_t i = index; i <= index + (plan::isHeader(kind) ? 2 : 0); ++i)
      if (rank.issued[i].from != kNone) {
        const Issued &from = rank.issued[rank.issued[i].from];
        await(queueOf(program, rank, from), from.place, event.step);
      }
    if (own.use != kNone)
      takes.push_back({uint32_t(event.step) * uses + own.use, rank.queues[own.counter].lane});
    queue.nodes.push_back(uint32_t(nodes.size() - 1));
    // …and end together.
    const bool withNext = index != 0 && plan::isHeader(of(program, rank.issued[index - 1]).kind);
    if (queue.lane != kNone)
      ends.push_back({queue.lane, int32_t(event.step * queue.perStep + own.place + (withNext ? 1 : 0))});
  }

  void begin() {
    nodes.push_back({uint32_t(after.size()), uint32_t(starts.size()), uint32_t(takes.size()), uint32_t(ends.size())});
  }

  /// Lets the current node start once `count` instructions of a queue have been counted in a step.
  void await(const Queue &queue, int64_t count, int64_t step) {
    if (count <= 0 || step < 0)
      return;
    const int64_t place = step * queue.perStep + count;
    after.push_back(queue.nodes[size_t(place) - 1]);
    if (queue.lane != kNone && queue.receives)
      starts.push_back({queue.lane + 1, int32_t(place)});
  }

  /// Gives each node an index for its clock, and replaces the nodes in `after` by the indices of their clocks. A clock
  /// is needed until the last node after it; then another node takes its index.
  void placeClocks() {
    const auto count = uint32_t(nodes.size());
    begin(); // where the last node's entries end
    std::vector<uint32_t> lastUse(count, 0), free;
    for (uint32_t n = 0; n != count; ++n)
      for (uint32_t a = nodes[n].after; a != nodes[n + 1].after; ++a)
        lastUse[after[a]] = n;
    for (uint32_t n = 0; n != count; ++n) {
      for (uint32_t a = nodes[n].after; a != nodes[n + 1].after; ++a) {
        const uint32_t other = std::exchange(after[a], nodes[after[a]].clock);
        if (lastUse[other] == n) {
          lastUse[other] = 0;
          free.push_back(nodes[other].clock);
        }
      }
      if (free.empty())
        free.push_back(clocks++);
      nodes[n].clock = free.back();
      if (lastUse[n] != 0) // else no node needs it
        free.pop_back();
    }
  }

  /// Propagates sixteen lanes, and records what is known where slots are taken.
  void propagate(uint32_t first) {
    const auto here = [first](uint32_t lane) { return lane - first < kLanes; };
    std::vector<Clock> all(clocks);
    for (size_t n = 0; n + 1 != nodes.size(); ++n) {
      const Node &node = nodes[n], &next = nodes[n + 1];
      Clock clock{};
      const auto raise = [&](const Mark &mark) {
        if (here(mark.lane))
          clock[mark.lane - first] = std::max(clock[mark.lane - first], mark.count);
      };
      for (uint32_t a = node.after; a != next.after; ++a)
        for (uint32_t lane = 0; lane != kLanes; ++lane)
          clock[lane] = std::max(clock[lane], all[after[a]][lane]);
      for (uint32_t s = node.starts; s != next.starts; ++s)
        raise(starts[s]);
      for (uint32_t t = node.takes; t != next.takes; ++t)
        if (here(takes[t].lane))
          known[takes[t].use] = counted(*queueOfLane[takes[t].lane], clock.data() + (takes[t].lane - first));
      for (uint32_t e = node.ends; e != next.ends; ++e)
        raise(ends[e]);
      all[node.clock] = clock;
    }
  }

  /// How many instructions of a queue are known to have been counted: as waits tell, or the sends that the queue has
  /// passed, up to the first receive that may not have arrived.
  static int32_t counted(const Queue &queue, const int32_t *lane) {
    if (!queue.receives)
      return lane[0];
    const int64_t next = queue.nextRecv[size_t(lane[1]) + 1];
    return std::max(lane[1], int32_t(std::min<int64_t>(lane[0], next - 1)));
  }

  Flight flightOf(const std::pair<int32_t, bool> &key, const Ring &ring) const {
    const auto transfers = uint32_t(ring.places.size());
    std::vector<uint32_t> latest = ring.places; // the latest position of it and all before it
    for (uint32_t n = 1; n < transfers; ++n)
      latest[n] = std::max(latest[n], latest[n - 1]);
    const auto over = [&](uint32_t step, uint32_t n) {
      const auto count = uint32_t(known[size_t(step) * uses + ring.firstUse + n]);
      return uint32_t(std::upper_bound(latest.begin(), latest.end(), count) - latest.begin());
    };
    Flight flight{key.first, key.second ? Direction::Recv : Direction::Send, transfers};
    for (uint32_t n = 0; n != transfers; ++n) {
      flight.over.push_back(over(0, n));
      flight.overBefore.push_back(over(1, n));
      flight.inStep = std::max(flight.inStep, n + 1 - flight.over.back());
    }
    return flight;
  }

  const plan::Variant &variant;
  std::vector<Rank> ranks;
  std::map<int32_t, uint32_t> members; // ranks that have collectives of a group
  std::map<uint32_t, const Queue *> queueOfLane;
  uint32_t lanes = 0, uses = 0, clocks = 0;
  uint32_t missing = 0; // parts of the current node that are still missing
  std::vector<Node> nodes;
  std::vector<uint32_t> after; // nodes; after placeClocks() the indices of their clocks
  std::vector<Mark> starts, ends;
  std::vector<Take> takes;
  std::vector<int32_t>
      known; // by step and use: how many instructions the counting queue has certainly counted when the use starts
};

} // namespace

Status inFlight(const plan::Variant &variant, std::vector<std::vector<Flight>> &flights) {
  if (!variant.own.empty()) {
    plan::Variant one = variant;
    one.own.clear();
    return inFlight(one, flights);
  }
  return Order(variant).run(flights);
}

} // namespace pipec::simulate
