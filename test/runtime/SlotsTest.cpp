// Which slot an instruction gets, and what the interpreter issues, in issue order, over one program or several.
#include "runtime/device/Layout.h"
#include "runtime/device/Pace.h"
#include "runtime/interpreter/Interpreter.h"
#include "test/plan/MakePlan.h"
#include "test/runtime/Plans.h"
#include "test/runtime/Unsaved.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <set>

using namespace pipec;
using namespace pipec::runtime;

namespace {

/// Takes down what is issued and completes it at once, in issue order.
class Tape final : public Device, public Transport {
public:
  struct Entry {
    QueueId queue;
    Label label;
    Slot in, out;
  };

  void wait(QueueId queue, QueueId of, int64_t count) override {
    EXPECT_GT(count, 0);
    EXPECT_LE(count, done[of]) << "queue " << queue << " waits for what was not issued before";
    EXPECT_TRUE(awaited[of].contains(count)) << "queue " << of << ", count " << count;
    ++waits;
    reached[queue][of] = std::max(reached[queue][of], count);
  }
  bool synchronize(QueueId of, int64_t count) override {
    EXPECT_TRUE(count == 0 || awaited[of].contains(count)) << "queue " << of << ", count " << count;
    return done[of] >= count;
  }
  void issued(QueueId queue, bool isAwaited) override {
    EXPECT_EQ(++told[queue], done[queue]) << "one call for each instruction, behind it";
    if (isAwaited)
      awaited[queue].insert(done[queue]);
  }
  void read(Slot from, std::byte *to) override { std::copy_n(from.data, from.bytes, to); }
  void write(Slot to, const std::byte *from) override { std::copy_n(from, to.bytes, to.data); }
  std::byte *allocate(plan::Bytes bytes) override {
    blocks.emplace_back(new std::byte[size_t(bytes)]());
    return blocks.back().get();
  }
  void send(QueueId q, const Label &label, Slot slot, Slot) override { add(q, label, {}, slot); }
  void recv(QueueId q, const Label &label, Slot slot) override { add(q, label, {}, slot); }
  void allReduce(QueueId q, const Label &label, Summand &) override { add(q, label, {}, {}); }
  void exchange(QueueId q, const Label &label, Summand &) override { add(q, label, {}, {}); }

  std::vector<Entry> entries;
  int64_t waits = 0;
  std::map<QueueId, int64_t> done, told;
  std::map<QueueId, std::set<int64_t>> awaited;          // counts that may be waited for
  std::map<QueueId, std::map<QueueId, int64_t>> reached; // by queue: what it has waited for of each other

  void add(QueueId queue, const Label &label, Slot in, Slot out) {
    if (onIssue)
      onIssue(queue, label);
    entries.push_back({queue, label, in, out});
    ++done[queue];
  }

  std::function<void(QueueId, const Label &)> onIssue; // before it counts

private:
  std::vector<std::unique_ptr<std::byte[]>> blocks;
};

class TapedStage final : public test::Unsaved<Stage> {
public:
  explicit TapedStage(Tape &tape) : tape(tape) {}
  void issue(QueueId q, const Label &label, const StageSlots &slots) override {
    tape.add(q, label, slots.in, slots.out);
  }

private:
  Tape &tape;
};

plan::Plan makePlan(uint32_t slots = 2) {
  plan::test::Make make;
  make.slots = slots;
  make.boundary = 1000;
  return plan::test::makePlan(make);
}

/// Programs 0, 1, … of a rank, each for so many steps.
class Plans final : public Pilot {
public:
  Plans(Tape &tape, const std::vector<const plan::Program *> &programs, int64_t stepsEach, int64_t first = 0)
      : stepsEach(stepsEach), first(first), memory(kEmulatedPayload) {
    for (const plan::Program *program : programs)
      layout.add(*program);
    EXPECT_TRUE(memory.allocate(tape, programs).ok());
    for (const plan::Program *program : programs) {
      Status status = Executable::make(nullptr, *program, {}, layout, memory, made.emplace_back());
      EXPECT_TRUE(status.ok()) << status.message;
    }
  }

  std::optional<Turn> turn(int64_t step, plan::Time) override {
    size_t at = size_t((step - first) / stepsEach);
    if (at >= made.size())
      return std::nullopt;
    return Turn{made[at], int64_t(at), rests && step == first + 1};
  }
  void completed(int64_t step) override { lastCompleted = step; }
  bool atRest(int64_t step) override {
    restedAt = step;
    if (onRest)
      onRest();
    return true;
  }

  int64_t stepsEach, first;
  bool rests = false;
  int64_t lastCompleted = -1, restedAt = -1;
  std::function<void()> onRest;
  Layout layout;
  TransferMemory memory;
  std::vector<std::shared_ptr<const Executable>> made;
};

void run(Tape &tape, Plans &plans) {
  const std::unique_ptr<Stage> stage = std::make_unique<TapedStage>(tape);
  Interpreter interpreter(tape, tape, stage, plans.layout.queues.size());
  EXPECT_TRUE(interpreter.run(plans, plans.first));
}

Tape run(const plan::Program &program, int64_t steps) {
  Tape tape;
  Plans plans(tape, {&program}, steps);
  run(tape, plans);
  return tape;
}

TEST(Interpreter, IssuesEveryInstructionOfEveryStepInOrder) {
  plan::test::Make make;
  make.norm = true;
  plan::Plan plan = plan::test::makePlan(make);
  const plan::Program &program = plan.variants.front().programs[1];
  Tape tape = run(program, 3);
  size_t at = 0;
  for (int64_t step = 0; step < 3; ++step)
    for (plan::Cursor cursor(program); !cursor.done(); cursor.next(), ++at) {
      ASSERT_LT(at, tape.entries.size());
      EXPECT_EQ(tape.entries[at].label.operation, cursor.at().operation);
      EXPECT_EQ(tape.entries[at].label.microbatch, cursor.at().microbatch());
      EXPECT_EQ(tape.entries[at].label.step, step);
      EXPECT_EQ(tape.entries[at].queue, cursor.at().instruction->queue);
    }
  EXPECT_EQ(at, tape.entries.size());
  EXPECT_GT(tape.waits, 0);
}

// By queue as in one: what a device that walks its queues' streams runs is what another gets issued.
TEST(Executable, QueuesDivideTheProgram) {
  plan::test::Make make;
  make.norm = true;
  plan::Plan plan = plan::test::makePlan(make);
  Tape tape;
  for (const plan::Program &program : plan.variants.front().programs) {
    Plans plans(tape, {&program}, 1);
    const Executable &made = *plans.made.front();
    std::vector<Walk> walks;
    for (const Stream &stream : made.byQueue())
      walks.emplace_back(stream);
    std::vector<int64_t> counts(walks.size(), 0);
    int64_t n = 0;
    for (Walk whole(made.whole()); !whole.done(); whole.next(), ++n) {
      const Stream::Item &item = whole.at();
      const Stream &stream = made.byQueue()[item.queue];
      Walk &own = walks[item.queue];
      ASSERT_FALSE(own.done());
      EXPECT_EQ(own.at().operation, item.operation);
      EXPECT_EQ(own.microbatch(), whole.microbatch());
      EXPECT_EQ(own.in().data, whole.in().data);
      EXPECT_EQ(own.out().data, whole.out().data);
      ASSERT_EQ(own.at().waits, item.waits);
      for (uint32_t w = 0; w < item.waits; ++w) {
        const Stream::Wait &a = stream.waits[own.at().firstWait + w], &b = made.whole().waits[item.firstWait + w];
        EXPECT_EQ(std::pair(a.queue, a.base + a.stride * own.trip()),
                  std::pair(b.queue, b.base + b.stride * whole.trip()));
      }
      Walk found(stream, counts[item.queue]++), foundWhole(made.whole(), n);
      EXPECT_EQ(&found.at(), &own.at());
      EXPECT_EQ(found.microbatch(), own.microbatch());
      EXPECT_EQ(&foundWhole.at(), &item);
      EXPECT_EQ(foundWhole.trip(), whole.trip());
      own.next();
    }
    EXPECT_EQ(n, made.whole().executed);
    for (size_t q = 0; q < walks.size(); ++q) {
      EXPECT_TRUE(walks[q].done());
      EXPECT_EQ(counts[q], made.byQueue()[q].executed);
      EXPECT_TRUE(Walk(made.byQueue()[q], counts[q]).done());
    }
  }
}

// A queue that just goes on must not pass what waits, nor leave uncounted what is waited for.
TEST(Executable, QueuesPauseWhereSomebodyWaits) {
  plan::test::Make make;
  make.norm = true;
  const plan::Plan plan = plan::test::makePlan(make);
  Tape tape;
  int64_t waits = 0;
  for (const plan::Program &program : plan.variants.front().programs) {
    Plans plans(tape, {&program}, 1);
    const std::vector<Stream> &queues = plans.made.front()->byQueue();
    for (const Stream &stream : queues) {
      Walk before;
      for (Walk walk(stream); !walk.done(); before = walk, walk.next())
        for (uint32_t w = walk.at().firstWait; w != walk.at().firstWait + walk.at().waits; ++w, ++waits) {
          EXPECT_TRUE(before.done() || before.at().pauses);
          const Stream::Wait &wait = stream.waits[w];
          const int64_t count = wait.base + wait.stride * walk.trip();
          EXPECT_TRUE(count <= 0 || Walk(queues[wait.queue], count - 1).at().pauses);
        }
    }
  }
  EXPECT_GT(waits, 0);

  test::Pipeline alone;
  alone.ranks = 1;
  const plan::Program program = test::makeProgram(alone, 0);
  Plans plans(tape, {&program}, 1);
  for (Walk walk(plans.made.front()->byQueue()[0]); !walk.done(); walk.next())
    EXPECT_FALSE(walk.at().pauses);
}

// What is sent is the slot that its producer wrote, and what is consumed the slot that was received into.
TEST(Slots, ProducerAndSendShareASlot) {
  plan::Plan plan = makePlan();
  for (const plan::Program &program : plan.variants.front().programs) {
    std::map<std::pair<plan::Payload, int64_t>, Slot> produced, received;
    int64_t sends = 0, receives = 0;
    for (const Tape::Entry &e : run(program, 2).entries) {
      const plan::Operation &op = *e.label.operation;
      int64_t key = e.label.step * 1000 + e.label.microbatch;
      if (op.kind == plan::Kind::Send) {
        ++sends;
        EXPECT_EQ(e.out.bytes, 1000);
        EXPECT_EQ((produced[{op.of, key}].data), e.out.data);
      } else if (op.kind == plan::Kind::Recv) {
        ++receives;
        received[{op.of, key}] = e.out;
      } else if (plan::isCompute(op.kind)) {
        plan::Payload of = op.kind == plan::Kind::Forward ? plan::Payload::Forward : plan::Payload::Backward;
        produced[{of, key}] = e.out;
        EXPECT_EQ((received[{of, key}].data), e.in.data);
      }
    }
    EXPECT_GT(sends, 0);
    EXPECT_EQ(sends, receives);
  }
}

// The n-th transfer of a step with a peer uses slot n mod size.
TEST(Slots, TakeTurns) {
  plan::Plan plan = makePlan(3);
  const plan::Program &program = plan.variants.front().programs[0];
  std::vector<std::byte *> used;
  for (const Tape::Entry &e : run(program, 2).entries)
    if (e.label.operation->kind == plan::Kind::Send)
      used.push_back(e.out.data);
  ASSERT_EQ(used.size(), 16u); // 8 microbatches, 2 steps
  for (size_t n = 0; n < used.size(); ++n)
    EXPECT_EQ(used[n] - used[0], ptrdiff_t(n % 8 % 3 * 1024)) << n; // slots are aligned
}

TEST(Slots, EmulatedPayloadsAreSmall) {
  plan::test::Make make; // 16 MiB boundaries
  plan::Plan plan = plan::test::makePlan(make);
  for (const Tape::Entry &e : run(plan.variants.front().programs[0], 1).entries)
    EXPECT_EQ(e.out.bytes, e.out.data ? kEmulatedPayload : 0);
}

// Programs that queue their transfers in other ways, one after the other: counters go on, epochs and steps count up,
// and nothing of the new program is issued on a queue before it waits for all that the old one did.
TEST(Interpreter, ASwapFencesTheQueuesOfItsRank) {
  test::Pipeline p;
  p.ranks = 3;
  plan::Plan perEdge = test::makePlan(p);
  p.shared = true;
  plan::Plan shared = test::makePlan(p);
  Tape tape;
  Plans plans(tape,
              {&perEdge.variants[0].programs[1], &shared.variants[0].programs[1], &perEdge.variants[0].programs[1]}, 2,
              5);
  EXPECT_EQ(plans.layout.queues.size(), 6u); // compute, four edges, one for all transfers
  std::map<QueueId, int64_t> atSwap;
  int64_t epoch = 0;
  tape.onIssue = [&](QueueId queue, const Label &label) {
    if (label.epoch != epoch)
      atSwap = tape.done;
    epoch = label.epoch;
    for (const auto &[of, count] : atSwap)
      EXPECT_TRUE(of == queue || tape.reached[queue][of] >= count)
          << "queue " << queue << " of " << of << " epoch " << epoch;
  };
  run(tape, plans);
  for (const Tape::Entry &e : tape.entries)
    EXPECT_EQ(e.label.epoch, (e.label.step - 5) / 2);
  EXPECT_EQ(epoch, 2);
  EXPECT_EQ(plans.lastCompleted, 11);
}

TEST(Interpreter, RestsBeforeAStep) {
  plan::Plan plan = makePlan();
  Tape tape;
  Plans plans(tape, {&plan.variants.front().programs[0]}, 3, 7);
  plans.rests = true;
  run(tape, plans);
  EXPECT_EQ(plans.restedAt, 8);
  EXPECT_EQ(tape.entries.front().label.step, 7);
}

TEST(Interpreter, GoesOnWithTheStageThatWasMadeAtRest) {
  plan::Plan plan = makePlan();
  Tape tape, other;
  Plans plans(tape, {&plan.variants.front().programs[0]}, 3);
  plans.rests = true;
  std::unique_ptr<Stage> stage = std::make_unique<TapedStage>(tape);
  plans.onRest = [&] { stage = std::make_unique<TapedStage>(other); };
  other.onIssue = [&](QueueId queue, const Label &) { ++tape.done[queue]; };
  Interpreter interpreter(tape, tape, stage, plans.layout.queues.size());
  EXPECT_TRUE(interpreter.run(plans, 0));
  EXPECT_EQ(tape.entries.front().label.step, 0);
  for (const Tape::Entry &each : tape.entries) {
    EXPECT_TRUE(each.label.step == 0 || !plan::isOfStage(each.label.operation->kind));
  }
  ASSERT_FALSE(other.entries.empty());
  EXPECT_EQ(other.entries.front().label.step, 1);
}

TEST(TransferMemory, IsSizedForTheLargest) {
  plan::Plan small = makePlan(1), large = makePlan(3);
  const plan::Program &few = small.variants.front().programs[1], &many = large.variants.front().programs[1];
  Tape tape;
  Plans both(tape, {&few, &many}, 1);
  run(tape, both);

  Plans alone(tape, {&few}, 1);
  std::shared_ptr<const Executable> made;
  Status status = Executable::make(nullptr, many, {}, alone.layout, alone.memory, made);
  EXPECT_EQ(status.code, Code::Check);
  EXPECT_EQ(status.message, "rank 1: the plan needs 3072 bytes for transfers from rank 0, this run has allocated 1024");
  EXPECT_EQ(made, nullptr);
}

TEST(TransferMemory, GrowsWithinTheLimit) {
  plan::Plan small = makePlan(1), large = makePlan(3);
  const plan::Program &few = small.variants.front().programs[1], &many = large.variants.front().programs[1];
  Tape tape;
  TransferMemory memory(kEmulatedPayload);
  ASSERT_TRUE(memory.allocate(tape, {&few}).ok());
  TransferMemory::Region before, after;
  ASSERT_TRUE(memory.find(few, few.rings.front(), before).ok());
  Status status = memory.allocate(tape, {&many}, 4000);
  EXPECT_EQ(status.code, Code::Check);
  EXPECT_EQ(status.message, "rank 1: the plan needs 12288 more bytes for transfers, beside the 4096 that this run has "
                            "allocated; its memory limit leaves 4000 for both");
  ASSERT_TRUE(memory.allocate(tape, {&many}, 20000).ok());
  ASSERT_TRUE(memory.find(few, few.rings.front(), after).ok());
  EXPECT_EQ(after.bytes, 3072);
  EXPECT_NE(after.data, before.data);                        // what runs keeps its own
  EXPECT_TRUE(memory.allocate(tape, {&few, &many}, 0).ok()); // nothing more
}

// Its ranks would have to be connected before the first step.
TEST(Layout, RefusesAnAllReduceWhereNoProgramHadOne) {
  plan::test::Make make;
  plan::Plan without = plan::test::makePlan(make);
  make.norm = true;
  plan::Plan with = plan::test::makePlan(make);
  std::vector<uint32_t> queueOf;
  Layout layout(without.variants[0].programs[1]);
  EXPECT_EQ(layout.map(with.variants[0].programs[1], queueOf).message,
            "rank 1: the plan has an all_reduce, this run was started without one: start it with a plan that has one "
            "in some variant");
  layout.add(with.variants[0].programs[1]);
  EXPECT_TRUE(layout.map(with.variants[0].programs[1], queueOf).ok());
  EXPECT_TRUE(layout.map(without.variants[0].programs[1], queueOf).ok());
}

TEST(Layout, RefusesQueuesThatAreNotThere) {
  test::Pipeline p;
  p.ranks = 3;
  plan::Plan perEdge = test::makePlan(p);
  p.shared = true;
  plan::Plan shared = test::makePlan(p);
  Layout layout(perEdge.variants[0].programs[1]);
  std::vector<uint32_t> queueOf;
  EXPECT_TRUE(layout.map(perEdge.variants[0].programs[1], queueOf).ok());
  EXPECT_EQ(queueOf, (std::vector<uint32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(layout.map(shared.variants[0].programs[1], queueOf).message,
            "rank 1: the plan needs a queue \"transfers\", this run has \"compute\", \"recv from 0\", \"send to 2\", "
            "\"recv from 2\", \"send to 0\": compile it with the same placement and communicator as the plan that "
            "runs");
}

} // namespace
