// Edits of the program set: whatever is put in, taken out or moved, uses, hand-overs and transfers still name what they
// named before.
#include "compiler/program/ProgramSet.h"
#include "compiler/program/BuildPrograms.h"
#include "compiler/schedule/catalogue/Catalogue.h"
#include "compiler/schedule/model/Random.h"

#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>
#include <set>

using namespace pipec;

namespace {

class ProgramSetTest : public testing::Test {
protected:
  ProgramSetTest() { context.loadDialect<pipe::PipeDialect>(); }

  /// 1F1B of three ranks with its transfers, which stand behind all else.
  ProgramSet oneFOneB(int32_t microbatches = 4) {
    schedule::Problem problem;
    problem.ranks = 3;
    problem.microbatches = microbatches;
    problem.stages.assign(3, {.forward = 2, .backward = 4, .boundary = 8, .activation = 4, .context = 2});
    problem.rankOf = {0, 1, 2};
    problem.staticBytes.assign(3, 0);
    problem.workspace.assign(3, 0);
    const schedule::Words words = schedule::wordsOf(*schedule::find("1f1b"), problem, {});
    ProgramSet set = buildPrograms(problem, words, PassPlaces(mlir::UnknownLoc::get(&context), problem), {});
    EXPECT_TRUE(mlir::succeeded(addTransfers(problem, set)));
    return set;
  }

  /// What each use and each transfer says, by names.
  static std::multiset<std::string> said(const ProgramSet &set) {
    std::multiset<std::string> all;
    for (const Program &program : set.programs)
      for (const Use &use : program.uses)
        all.insert(std::to_string(program.rank) + ": " + program.nameOf(use.user) + " after " +
                   program.nameOf(use.definition));
    for (const Transfer &transfer : set.transfers) {
      const Program &from = set.programs[size_t(transfer.from)], &to = set.programs[size_t(transfer.to)];
      all.insert(from.nameOf(set.producerOf(transfer)) + " " + from.nameOf(transfer.send) + " " +
                 to.nameOf(transfer.recv) + " " + to.nameOf(set.consumerOf(transfer)));
    }
    return all;
  }

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
};

TEST_F(ProgramSetTest, TransfersNameTheirEnds) {
  const ProgramSet set = oneFOneB();
  EXPECT_EQ(set.check(), "");
  EXPECT_EQ(set.transfers.size(), 2u * 2 * 4); // edges, directions, microbatches
  const Transfer &first = set.transfers.front();
  EXPECT_EQ(set.programs[0].nameOf(set.producerOf(first)), "F stage 0 microbatch 0");
  EXPECT_EQ(set.programs[1].nameOf(set.consumerOf(first)), "F stage 1 microbatch 0");
  EXPECT_EQ(set.programs[0].nameOf(first.send), "send F stage 0 microbatch 0");
  EXPECT_EQ(set.programs[1].nameOf(first.recv), "recv F stage 1 microbatch 0");
}

TEST_F(ProgramSetTest, ReorderKeepsWhatIsSaid) {
  ProgramSet set = oneFOneB();
  set.programs[1].uses = {{3, 1}, {5, 2}};
  const std::multiset<std::string> before = said(set);
  schedule::Random random(7);
  for (int round = 0; round != 50; ++round) {
    const size_t rank = random.next() % 3;
    std::vector<uint32_t> order(set.programs[rank].instructions.size());
    for (uint32_t i = 0; i != order.size(); ++i)
      order[i] = i;
    for (size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[random.next() % i]);
    set.reorder(rank, order);
    ASSERT_EQ(set.check(), "");
    ASSERT_EQ(said(set), before);
  }
}

TEST_F(ProgramSetTest, InsertedInstructionsMoveNothingElse) {
  ProgramSet set = oneFOneB();
  const std::multiset<std::string> before = said(set);
  plan::Operation again;
  again.kind = plan::Kind::Forward;
  again.stage = 1;
  again.cost = 7;
  set.insert(1, 2, again, 3, mlir::UnknownLoc::get(&context));
  EXPECT_EQ(set.check(), "");
  EXPECT_EQ(said(set), before);
  EXPECT_EQ(set.programs[1].nameOf(2), "F stage 1 microbatch 3");
  EXPECT_EQ(set.programs[1].of(set.programs[1].instructions[2]).cost, 7);
  set.erase(1, 2);
  EXPECT_EQ(set.check(), "");
  EXPECT_EQ(said(set), before);
}

TEST_F(ProgramSetTest, ReplaceKeepsLinksAndGoesToItsQueue) {
  ProgramSet set = oneFOneB();
  const std::multiset<std::string> before = said(set);
  const uint32_t send = set.transfers.front().send;
  plan::Operation slower = set.programs[0].of(set.programs[0].instructions[send]);
  slower.cost = 99;
  set.replace(0, send, slower);
  EXPECT_EQ(set.check(), "");
  EXPECT_EQ(said(set), before);
  EXPECT_EQ(set.programs[0].of(set.programs[0].instructions[send]).cost, 99);
  EXPECT_EQ(set.programs[0].queues[set.programs[0].instructions[send].queue].queue.kind, plan::QueueKind::Communicator);
}

/// A transfer's ends go together, and so do the uses of what goes.
TEST_F(ProgramSetTest, EraseTakesBothEndsOfATransfer) {
  ProgramSet set = oneFOneB();
  const size_t transfers = set.transfers.size();
  while (!set.transfers.empty()) {
    const Transfer gone = set.transfers[set.transfers.size() / 2];
    const bool bySend = set.transfers.size() % 2 == 0;
    const size_t count = set.instructions();
    set.erase(size_t(bySend ? gone.from : gone.to), bySend ? gone.send : gone.recv);
    ASSERT_EQ(set.check(), "");
    ASSERT_EQ(set.instructions(), count - 2);
  }
  EXPECT_EQ(transfers, 16u);
  for (const Program &program : set.programs)
    for (const Instruction &instruction : program.instructions) {
      EXPECT_FALSE(plan::isTransfer(program.kind(instruction)));
      EXPECT_EQ(instruction.in, kNone);
      EXPECT_EQ(instruction.out, kNone);
    }
}

TEST_F(ProgramSetTest, ErasedInstructionsAreWaitedForByNobody) {
  ProgramSet set = oneFOneB();
  set.programs[1].uses = {{2, 0}, {3, 1}, {4, 1}};
  set.erase(1, 1);
  EXPECT_EQ(set.check(), "");
  EXPECT_EQ(set.programs[1].uses, (std::vector<Use>{{1, 0}}));
}

TEST_F(ProgramSetTest, WindowsStayWithTheirInstructions) {
  ProgramSet set = oneFOneB();
  Program &program = set.programs[1];
  program.windows = {{1, 70, 5}, {2, 80, 0}, {4, 90, 0}};
  const std::string first = program.nameOf(1), last = program.nameOf(4);
  set.erase(1, 2);
  ASSERT_EQ(set.check(), "");
  ASSERT_EQ(program.windows.size(), 2u);
  EXPECT_EQ(program.nameOf(program.windows[0].instruction), first);
  EXPECT_EQ(program.nameOf(program.windows[1].instruction), last);
  std::vector<uint32_t> order(program.instructions.size());
  for (uint32_t i = 0; i != order.size(); ++i)
    order[i] = uint32_t(order.size()) - 1 - i;
  set.reorder(1, order);
  ASSERT_EQ(set.check(), "");
  EXPECT_EQ(program.nameOf(program.windows[0].instruction), last);
  EXPECT_EQ(program.windows[0].length, 90);
  EXPECT_EQ(program.nameOf(program.windows[1].instruction), first);
  EXPECT_EQ(program.windows[1].from, 5);
}

TEST_F(ProgramSetTest, QueuesFollowTheCommunicator) {
  ProgramSet set = oneFOneB();
  Program &middle = set.programs[1];
  EXPECT_EQ(middle.queues.size(), 5u); // compute, and a queue a direction and neighbour
  middle.useCommunicator(pipe::Communicator::PerPair);
  EXPECT_EQ(middle.queues.size(), 3u);
  middle.useCommunicator(pipe::Communicator::Shared);
  EXPECT_EQ(middle.queues.size(), 2u);
  EXPECT_EQ(set.check(), "");
}

TEST_F(ProgramSetTest, CheckSeesBrokenLinks) {
  ProgramSet set = oneFOneB();
  set.transfers.front().send += 1;
  EXPECT_NE(set.check(), "");
  set = oneFOneB();
  set.programs[0].instructions[set.producerOf(set.transfers.front())].out = 0;
  EXPECT_NE(set.check(), "");
  set = oneFOneB();
  set.programs[0].uses = {{900, 0}};
  EXPECT_EQ(set.check(), "rank 0: a use names what is not there");
  set.programs[0].uses = {{2, 0}, {1, 0}};
  EXPECT_EQ(set.check(), "rank 0: uses are not in order");
  set = oneFOneB();
  set.programs[0].windows = {{2, 1, 0}, {2, 1, 0}};
  EXPECT_EQ(set.check(), "rank 0: windows are not those of its instructions, in order");
}

} // namespace
