// Which slot an instruction gets, and what the interpreter issues, in issue order.
#include "runtime/device/Pace.h"
#include "runtime/interpreter/Interpreter.h"
#include "test/plan/MakePlan.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <map>
#include <memory>

using namespace pipec;
using namespace pipec::runtime;

namespace {

/// Takes down what is issued and completes it at once, in issue order.
class Tape final : public Device, public Transport, public Stage {
public:
  struct Entry {
    QueueId queue;
    Label label;
    Slot in, out;
  };

  void wait(QueueId queue, QueueId of, int64_t count) override {
    EXPECT_GT(count, 0);
    EXPECT_LE(count, done[of]) << "queue " << queue << " waits for what was not issued before";
    ++waits;
  }
  bool synchronize(QueueId of, int64_t count) override { return done[of] >= count; }
  std::byte *allocate(plan::Bytes bytes) override {
    blocks.emplace_back(new std::byte[size_t(bytes)]());
    return blocks.back().get();
  }
  void send(QueueId q, const Label &label, Slot slot) override { add(q, label, {}, slot); }
  void recv(QueueId q, const Label &label, Slot slot) override { add(q, label, {}, slot); }
  void forward(QueueId q, const Label &label, const StageSlots &slots) override { add(q, label, slots.in, slots.out); }
  void backwardInput(QueueId q, const Label &l, const StageSlots &slots) override { add(q, l, slots.in, slots.out); }
  void backwardWeight(QueueId q, const Label &label) override { add(q, label, {}, {}); }
  void backward(QueueId q, const Label &label, const StageSlots &slots) override { add(q, label, slots.in, slots.out); }
  void optimizerStep(QueueId q, const Label &label) override { add(q, label, {}, {}); }
  Status save(const std::string &, int64_t) override { return {}; }
  Status load(const std::string &, int64_t) override { return {}; }
  StageMemory memory() const override { return {}; }

  std::vector<Entry> entries;
  int64_t waits = 0;

private:
  void add(QueueId queue, const Label &label, Slot in, Slot out) {
    entries.push_back({queue, label, in, out});
    ++done[queue];
  }
  std::map<QueueId, int64_t> done;
  std::vector<std::unique_ptr<std::byte[]>> blocks;
};

plan::Plan makePlan(uint32_t slots = 2) {
  plan::test::Make make;
  make.slots = slots;
  make.boundary = 1000;
  return plan::test::makePlan(make);
}

Tape run(const plan::Program &program, int64_t steps) {
  Tape tape;
  Interpreter interpreter(program, tape, tape, tape, kEmulatedPayload);
  EXPECT_TRUE(interpreter.prepare().ok());
  EXPECT_TRUE(interpreter.run(steps));
  return tape;
}

TEST(Interpreter, IssuesEveryInstructionOfEveryStepInOrder) {
  plan::Plan plan = makePlan();
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
    EXPECT_EQ(used[n] - used[0], ptrdiff_t(n % 8 % 3 * 1000)) << n;
}

TEST(Slots, EmulatedPayloadsAreSmall) {
  plan::test::Make make; // 16 MiB boundaries
  plan::Plan plan = plan::test::makePlan(make);
  for (const Tape::Entry &e : run(plan.variants.front().programs[0], 1).entries)
    EXPECT_EQ(e.out.bytes, e.out.data ? kEmulatedPayload : 0);
}

} // namespace
