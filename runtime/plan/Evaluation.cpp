// Finds one order of all forwards in which each has its input and a free buffer for its output, and issues the passes
// and transfers of each rank in that order. Since all ranks follow one order, no run of the program deadlocks.
#include "runtime/plan/Evaluation.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace pipec::plan {

namespace {

constexpr uint32_t kNone = ~uint32_t(0);

/// An instruction, without its microbatch.
struct Issued {
  uint32_t operation = kNone;
  uint32_t queue = 0;
};

/// The forward of a microbatch on a stage, with its transfers.
struct Pass {
  std::vector<Issued> parts; // one per part of its layers, from the first layers up; mostly one
  Issued receive, send;      // none if the neighbour is on this rank, or if there is no neighbour
};

struct Stage {
  int32_t rank = 0;
  std::vector<Pass> passes; // by microbatch
};

std::vector<Stage> stagesOf(const Variant &variant) {
  std::vector<Stage> stages(size_t(variant.stages));
  for (const Program &program : variant.programs) {
    for (const int32_t stage : program.stages) {
      stages[size_t(stage)].rank = program.rank;
      stages[size_t(stage)].passes.resize(size_t(variant.microbatches));
    }
    for (Cursor cursor(program); !cursor.done(); cursor.next()) {
      const Step step = cursor.at();
      const Operation &operation = *step.operation;
      const Issued issued{step.instruction->operation, step.instruction->queue};
      if (operation.kind != Kind::Forward && !(isTransfer(operation.kind) && operation.of == Payload::Forward))
        continue;
      Pass &pass = stages[size_t(operation.stage)].passes[size_t(step.microbatch())];
      if (operation.kind == Kind::Forward)
        pass.parts.push_back(issued);
      else
        (plan::sends(operation.kind) ? pass.send : pass.receive) = issued;
    }
  }
  return stages;
}

/// Passes of one slot of time, as (stage, microbatch).
using Slot = std::vector<std::pair<int32_t, int32_t>>;

/// Finds the order of passes, if each takes one slot of time. The data that a pass sends to another rank takes a buffer
/// there from the beginning of the pass's slot until the pass that takes the data has ended.
class Order {
public:
  Order(const Variant &variant, const std::vector<Stage> &stages) : variant(variant), stages(stages) {}

  /// Finds the order with at most `most` microbatches in flight. No slots: not all passes can end then. With one
  /// microbatch at a time all end.
  std::vector<Slot> find(int32_t most) {
    begun.assign(stages.size(), 0);
    ended = begun;
    coming.assign(stages.size(), {});
    links.clear();
    underWay = 0;
    for (const Program &program : variant.programs)
      for (const Ring &ring : program.rings)
        if (ring.direction == Direction::Recv)
          links[{ring.peer, program.rank}].size = ring.size;
    std::vector<int32_t> looks(variant.programs.size()); // ranks for which something may have changed
    std::iota(looks.begin(), looks.end(), 0);
    std::vector<Slot> slots;
    for (size_t left = stages.size() * size_t(variant.microbatches); left != 0;) {
      Slot &slot = slots.emplace_back();
      for (const int32_t rank : looks)
        if (const int32_t stage = choose(rank, most); stage >= 0)
          slot.push_back({stage, begin(stage)});
      if (slot.empty())
        return {};
      left -= slot.size();
      looks.clear();
      for (const auto &[stage, microbatch] : slot)
        end(stage, looks);
      std::sort(looks.begin(), looks.end());
      looks.erase(std::unique(looks.begin(), looks.end()), looks.end());
    }
    return slots;
  }

private:
  /// The transfers from one rank to another: the n-th takes the buffer of the one `size` before it.
  struct Link {
    int64_t size = 1;
    int64_t sent = 0;
    std::set<int64_t> open; // transfers, by number, whose buffers are in use
    bool hasRoom() const { return open.empty() || sent - *open.begin() < size; }
  };

  int32_t rankOf(int32_t stage) const { return stages[size_t(stage)].rank; }

  /// The link from the stage before `stage`; null: both are on one rank, or there is no stage before.
  Link *linkTo(int32_t stage) {
    const int32_t before = stage < 0 ? -1 : variant.before(stage);
    return before < 0 || rankOf(before) == rankOf(stage) ? nullptr : &links[{rankOf(before), rankOf(stage)}];
  }

  bool mayBegin(int32_t stage, int32_t most) {
    const int32_t microbatch = begun[size_t(stage)], before = variant.before(stage);
    if (microbatch == variant.microbatches || (before < 0 ? underWay >= most : ended[size_t(before)] <= microbatch))
      return false;
    const Link *link = linkTo(variant.after(stage));
    return !link || link->hasRoom();
  }

  /// The stage of a rank that runs its next forward; -1: none.
  int32_t choose(int32_t rank, int32_t most) {
    const int32_t ofCopy = variant.stagesOfCopy();
    int32_t best = -1;
    for (const int32_t stage : variant.programs[size_t(rank)].stages)
      if (mayBegin(stage, most) && (best < 0 || stage % ofCopy > best % ofCopy))
        best = stage;
    return best;
  }

  int32_t begin(int32_t stage) {
    underWay += variant.before(stage) < 0;
    const int32_t next = variant.after(stage);
    if (Link *link = linkTo(next)) {
      coming[size_t(next)].push_back(link->sent);
      link->open.insert(link->sent++);
    }
    return begun[size_t(stage)]++;
  }

  void end(int32_t stage, std::vector<int32_t> &looks) {
    ++ended[size_t(stage)];
    looks.push_back(rankOf(stage));
    if (Link *link = linkTo(stage)) {
      link->open.erase(coming[size_t(stage)].front());
      coming[size_t(stage)].pop_front();
      looks.push_back(rankOf(variant.before(stage)));
    }
    if (const int32_t next = variant.after(stage); next >= 0) {
      looks.push_back(rankOf(next));
      return;
    }
    --underWay;
    for (int32_t copy = 0; copy != variant.copies; ++copy)
      looks.push_back(rankOf(copy * variant.stagesOfCopy()));
  }

  const Variant &variant;
  const std::vector<Stage> &stages;
  std::map<std::pair<int32_t, int32_t>, Link> links; // by (from, to)
  std::vector<std::deque<int64_t>> coming;           // by stage: transfers to it that it has not taken
  std::vector<int32_t> begun, ended;                 // by stage: number of passes
  int32_t underWay = 0;                              // microbatches in flight
};

/// Writes the program of one rank.
class Writer {
public:
  Writer(const Program &from, Program &to) : from(from), to(to), counts(from.queues.size()) {
    to.rank = from.rank;
    to.stages = from.stages;
    to.queues = from.queues;
    to.staticBytes = from.staticBytes;
    to.workspace = from.workspace;
    to.memoryLimit = from.memoryLimit;
    renamed.resize(from.operations.size(), kNone);
    covered.resize(counts.size() * counts.size());
    for (const Ring &ring : from.rings)
      rings[{ring.peer, ring.direction}].ring = ring;
  }

  void pass(const Pass &pass, int32_t microbatch) {
    const Issued *first = &pass.parts.front(), *last = &pass.parts.back();
    for (const Issued &part : pass.parts) {
      issue(part, microbatch);
      if (&part == first && pass.receive.operation != kNone) {
        Used &ring = ringOf(pass.receive, Direction::Recv);
        const Arrival &arrival = ring.arrivals.at({stageOf(pass.receive), microbatch});
        wait(arrival.place);
        ring.users[arrival.number] = here();
      }
      if (&part == last && pass.send.operation != kNone) {
        Used &ring = ringOf(pass.send, Direction::Send);
        waitForSlot(ring, ring.users.size(), pass.send.queue);
      }
    }
    made = here();
  }

  /// Sends the result of the pass that was written last.
  void send(const Pass &pass, int32_t microbatch) {
    issue(pass.send, microbatch);
    wait(made);
    ringOf(pass.send, Direction::Send).users.push_back(here());
  }

  void receive(const Pass &pass, int32_t microbatch) {
    issue(pass.receive, microbatch);
    Used &ring = ringOf(pass.receive, Direction::Recv);
    const size_t number = ring.users.size();
    waitForSlot(ring, number, pass.parts.front().queue);
    ring.users.emplace_back();
    ring.arrivals[{stageOf(pass.receive), microbatch}] = {number, here()};
  }

  /// To call when everything is issued. `kept`: by operation of the new program: the operation of the variant's
  /// program.
  void finish(std::vector<uint32_t> &kept) {
    for (auto &[key, used] : rings) {
      if (used.users.empty())
        continue;
      used.ring.size = std::min(used.ring.size, uint32_t(used.users.size()));
      to.rings.push_back(used.ring);
      for (const auto &[number, wait] : used.first) {
        const size_t more = (used.users.size() - 1 - number) / used.ring.size;
        to.waits[wait].base = used.users[number + more * used.ring.size].count;
      }
    }
    if (!to.instructions.empty())
      to.step = {{0, uint32_t(to.instructions.size()), 1}};
    kept = std::move(names);
  }

private:
  /// The end of the first `count` instructions of a queue.
  struct Place {
    uint32_t queue = 0;
    int64_t count = 0;
  };
  struct Arrival {
    size_t number = 0; // of the transfer, in its ring
    Place place;
  };
  struct Used {
    Ring ring;
    std::vector<Place>
        users; // by transfer: what frees its slot: the send itself, or the pass that takes what was received
    std::map<std::pair<int32_t, int32_t>, Arrival> arrivals; // receives, by stage and microbatch
    std::vector<std::pair<size_t, size_t>> first; // the first transfer in each slot, and its wait for the round before
  };

  Used &ringOf(const Issued &transfer, Direction direction) {
    return rings.at({from.operations[transfer.operation].peer, direction});
  }
  int32_t stageOf(const Issued &issued) const { return from.operations[issued.operation].stage; }

  void issue(const Issued &issued, int32_t microbatch) {
    uint32_t &name = renamed[issued.operation];
    if (name == kNone) {
      name = uint32_t(to.operations.size());
      Operation &operation = to.operations.emplace_back(from.operations[issued.operation]);
      if (operation.kind == Kind::Forward)
        operation.activation = operation.context = operation.bytes = 0;
      names.push_back(issued.operation);
    }
    to.instructions.push_back({name, issued.queue, uint32_t(to.waits.size()), 0, microbatch, 0});
    ++counts[issued.queue];
  }

  Place here() const {
    const uint32_t queue = to.instructions.back().queue;
    return {queue, counts[queue]};
  }

  size_t add(const Wait &wait) {
    ++to.instructions.back().waits;
    to.waits.push_back(wait);
    return to.waits.size() - 1;
  }

  /// Adds a wait, unless an earlier instruction of the same queue has waited for as much.
  void wait(const Place &on) {
    const uint32_t queue = to.instructions.back().queue;
    int64_t &known = covered[queue * counts.size() + on.queue];
    if (on.queue == queue || known >= on.count)
      return;
    known = on.count;
    add({on.queue, false, on.count, 0});
  }

  /// Adds the wait of the instruction that fills a transfer's slot: for the last user of the slot, in this round or in
  /// the round before. `users`: the queue of the users.
  void waitForSlot(Used &ring, size_t number, uint32_t users) {
    if (number >= ring.ring.size)
      wait(ring.users[number - ring.ring.size]);
    else if (users != to.instructions.back().queue)
      ring.first.push_back({number, add({users, true, 0, 0})});
  }

  const Program &from;
  Program &to;
  std::vector<int64_t> counts;   // instructions of each queue
  std::vector<int64_t> covered;  // by (queue, queue waited for)
  std::vector<uint32_t> renamed; // by operation of the variant's program
  std::vector<uint32_t> names;   // the reverse
  std::map<std::pair<int32_t, Direction>, Used> rings;
  Place made; // the last pass that was written
};

} // namespace

static Status hasEvaluation(const Variant &variant) {
  return variant.sharesStages() ? Status::check("a plan whose stages are on several ranks has no evaluation yet: "
                                                "evaluate under a plan of another schedule, from a checkpoint")
                                : Status{};
}

Status mayEvaluate(const Plan &plan) { return hasEvaluation(plan.variants.front()); }

Status evaluationOf(const Variant &variant, Variant &evaluation) {
  if (Status status = hasEvaluation(variant); !status.ok())
    return status;
  const std::vector<Stage> stages = stagesOf(variant);
  Order order(variant, stages);
  std::vector<Slot> slots;
  // Begins with twice as many microbatches as there are ranks, since transfers take time, too.
  for (int32_t most = 2 * int32_t(variant.programs.size()); slots.empty() && most > 0; most /= 2)
    slots = order.find(most);

  evaluation = {};
  evaluation.name = evaluation.schedule = "evaluate";
  evaluation.stages = variant.stages;
  evaluation.microbatches = variant.microbatches;
  evaluation.copies = variant.copies;
  evaluation.slices = variant.slices;
  evaluation.memoryLimit = variant.memoryLimit;
  evaluation.cut = variant.cut;
  evaluation.launchOrder = variant.launchOrder;
  evaluation.layers = variant.layers;
  evaluation.sharedPort = variant.sharedPort;
  evaluation.portions = variant.portions;
  evaluation.balance = variant.balance;
  evaluation.programs.resize(variant.programs.size());
  std::vector<Writer> writers;
  writers.reserve(variant.programs.size());
  for (size_t rank = 0; rank != variant.programs.size(); ++rank)
    writers.emplace_back(variant.programs[rank], evaluation.programs[rank]);
  for (const Slot &slot : slots) {
    const auto passOf = [&](int32_t stage, int32_t microbatch) -> const Pass & {
      return stages[size_t(stage)].passes[size_t(microbatch)];
    };
    for (const auto &[stage, microbatch] : slot)
      writers[size_t(stages[size_t(stage)].rank)].pass(passOf(stage, microbatch), microbatch);
    for (const auto &[stage, microbatch] : slot) {
      const Pass &pass = passOf(stage, microbatch);
      if (pass.send.operation == kNone)
        continue;
      writers[size_t(stages[size_t(stage)].rank)].send(pass, microbatch);
      const int32_t next = variant.after(stage);
      writers[size_t(stages[size_t(next)].rank)].receive(passOf(next, microbatch), microbatch);
    }
  }
  std::vector<std::vector<uint32_t>> kept(writers.size());
  for (size_t rank = 0; rank != writers.size(); ++rank)
    writers[rank].finish(kept[rank]);
  for (size_t place = 0; place != variant.own.size(); ++place) {
    Own &own = evaluation.own.emplace_back(variant.own[place]);
    own.operations.clear();
    for (const uint32_t operation : kept[place / size_t(variant.shards())]) {
      OwnCost &cost = own.operations.emplace_back(variant.own[place].operations[operation]);
      cost.activation = cost.context = 0;
    }
  }
  return {};
}

} // namespace pipec::plan
