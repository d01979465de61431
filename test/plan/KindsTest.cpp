// The table of kinds: it is complete, its rows are found by kind whatever their order, and what is said of a kind
// agrees with what is said elsewhere in its row. What each kind is stands here once more, written by hand.
#include "runtime/plan/Kinds.h"
#include "runtime/stage/pipec_stage.h"

#include <gtest/gtest.h>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

namespace pipec::plan {
namespace {

TEST(Kinds, EveryValueHasOneRow) {
  std::set<Kind> seen;
  for (const KindRow &row : kKindTable) {
    EXPECT_LT(int(row.kind), kKinds) << row.name;
    EXPECT_TRUE(seen.insert(row.kind).second) << row.name;
    EXPECT_EQ(&rowOf(row.kind), &row) << row.name;
    EXPECT_EQ(classOf(row.kind), row.sort) << row.name;
    EXPECT_TRUE(isKnown(row.kind)) << row.name;
  }
  EXPECT_EQ(int(seen.size()), kKinds);
  for (int value = kKinds; value <= UINT8_MAX; ++value) {
    EXPECT_FALSE(isKnown(Kind(value)));
    EXPECT_STREQ(name(Kind(value)), "unknown");
    EXPECT_FALSE(rowOf(Kind(value)).supported);
    EXPECT_FALSE(isCompute(Kind(value)) || isCommunication(Kind(value)) || isOfStage(Kind(value)));
  }
}

TEST(Kinds, NamesAreUnique) {
  std::set<std::string> names, torch, calls, letters;
  for (const KindRow &row : kKindTable) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(*row.torch == 0 || torch.insert(row.torch).second) << row.name;
    EXPECT_TRUE(*row.call == 0 || calls.insert(row.call).second) << row.name;
  }
  for (const Look &look : kLooks)
    EXPECT_TRUE(look.letter.size() == 1 && letters.insert(std::string(look.letter)).second) << look.name;
}

// The file has the values, and old files stay.
TEST(Kinds, ValuesAndNamesAreTheFormats) {
  const char *names[] = {
      "F",          "B", "W",       "BW",   "send",       "recv",   "optimizer", "all_reduce", "reduce_scatter",
      "all_gather", "R", "offload", "load", "overlapped", "reshard"};
  for (int value = 0; value < kKinds; ++value) {
    EXPECT_STREQ(name(Kind(value)), names[value]);
    const Kind kind = Kind(value);
    const bool half = kind == Kind::ReduceScatter || kind == Kind::AllGather;
    EXPECT_EQ(rowOf(kind).since, kind == Kind::Overlapped  ? 2
                                 : kind == Kind::Recompute ? 4
                                 : half                    ? 6
                                 : kind == Kind::Reshard   ? 9
                                                           : 0)
        << names[value];
  }
}

TEST(Kinds, ClassesAgreeWithTheRest) {
  for (const KindRow &row : kKindTable) {
    const Kind kind = row.kind;
    // Who does something that is counted runs on the device, and the other way round.
    EXPECT_EQ(row.does != kNoWork, isBusy(kind)) << row.name;
    EXPECT_EQ((row.does & kUpdate) != 0, row.sort == Class::Updates) << row.name;
    // What follows from other passes is in no order, and no stage library is called for it.
    const bool own = isOrdered(kind) || !isCompute(kind);
    EXPECT_EQ(*row.call != 0, isBusy(kind) && own) << row.name;
    EXPECT_TRUE(isCompute(kind) || (!isOrdered(kind) && row.after == kNoWork)) << row.name;
    EXPECT_TRUE(own || row.gives == Payload::None) << row.name;
    // Memory is of passes; none takes what it gives back.
    EXPECT_TRUE((row.holds | row.frees) == kNoMemory || isCompute(kind)) << row.name;
    EXPECT_EQ(row.holds & row.frees, kNoMemory) << row.name;
    EXPECT_TRUE(row.gives == Payload::None || row.sort == Class::Compute) << row.name;
    EXPECT_TRUE(row.gives != Payload::Backward || row.after == kForwardPass) << row.name;
    // Queues: who runs on a communicator runs nowhere else, and nothing but a W on the queue of the weights.
    EXPECT_EQ(row.queues == kCommunicator, isCommunication(kind)) << row.name;
    EXPECT_EQ((row.queues & kWeightsQueue) != 0, row.sort == Class::Weights) << row.name;
    EXPECT_NE(row.queues, 0) << row.name;
    // PyTorch's files have passes and transfers.
    EXPECT_EQ(*row.torch != 0, isOrdered(kind) || isTransfer(kind)) << row.name;
    EXPECT_TRUE(row.supported || *row.call == 0) << row.name;
    EXPECT_EQ(lookOf(kind).letter.front(), row.letter) << row.name;
  }
}

TEST(Kinds, WhatIsHeldIsGivenBack) {
  // By a split backward and by a fused one, with and without a recomputation.
  const std::vector<Kind> rounds[] = {
      {Kind::Forward, Kind::BackwardInput, Kind::BackwardWeight},
      {Kind::Forward, Kind::Backward},
      {Kind::Forward, Kind::Recompute, Kind::BackwardInput, Kind::BackwardWeight},
      {Kind::Forward, Kind::Recompute, Kind::Backward},
  };
  for (const std::vector<Kind> &passes : rounds) {
    const bool again = passes[1] == Kind::Recompute;
    unsigned held = 0, done = 0;
    for (const Kind kind : passes) {
      EXPECT_EQ(held & takes(kind, again), 0u);
      held |= takes(kind, again);
      EXPECT_EQ(held & rowOf(kind).frees, rowOf(kind).frees);
      held &= ~rowOf(kind).frees;
      EXPECT_EQ(done & rowOf(kind).does, 0);
      EXPECT_EQ(done & rowOf(kind).after, rowOf(kind).after);
      done |= rowOf(kind).does;
    }
    EXPECT_EQ(held, unsigned(kNoMemory));
    EXPECT_EQ(done, unsigned(kForwardPass | kInputGradient | kWeightGradient | (again ? kRecomputation : 0)));
  }
}

TEST(Kinds, EveryWorkHasOneRowAndAKindThatDoesIt) {
  int seen = 0;
  for (const WorkRow &row : kWorkTable) {
    EXPECT_EQ(seen & row.work, 0) << row.name;
    seen |= row.work;
    EXPECT_STREQ(name(row.work), row.name);
    EXPECT_TRUE(row.together == kNoWork || (row.together & row.work) != 0) << row.name;
    bool alone = false; // a kind of that name does nothing else
    for (const Kind kind : kindsDoing(row.work))
      alone |= rowOf(kind).does == row.work && std::string(name(kind)) == row.name;
    EXPECT_TRUE(alone) << row.name;
  }
  EXPECT_EQ(seen, (1 << kWorks) - 1);
}

TEST(Kinds, AreFoundByWhatTheyDo) {
  const auto listed = [](const auto &kinds) { return std::vector<Kind>(kinds.begin(), kinds.end()); };
  EXPECT_EQ(listed(kindsDoing(kForwardPass)), std::vector{Kind::Forward});
  EXPECT_EQ(listed(kindsDoing(kInputGradient)), (std::vector{Kind::BackwardInput, Kind::Backward}));
  EXPECT_EQ(listed(kindsDoing(kWeightGradient)), (std::vector{Kind::BackwardWeight, Kind::Backward}));
  EXPECT_EQ(counterOf(Kind::Forward), 0u);
  EXPECT_EQ(counterOf(Kind::BackwardInput), 1u);
  EXPECT_EQ(counterOf(Kind::Backward), 1u);
  EXPECT_EQ(counterOf(Kind::BackwardWeight), 2u);
  EXPECT_EQ(counterOf(Kind::Optimizer), 3u);
  EXPECT_EQ(counterOf(Kind::Recompute), 4u);
}

// The names of the stage header's functions, which a library is searched for.
TEST(Kinds, CallsAreTheStageHeaders) {
#define CALL(kind, function)                                                                                           \
  EXPECT_STREQ(rowOf(kind).call, #function);                                                                           \
  static_assert(std::is_same_v<decltype(function), decltype(pipec_stage_forward)>)
  CALL(Kind::Forward, pipec_stage_forward);
  CALL(Kind::BackwardInput, pipec_stage_backward_input);
  CALL(Kind::BackwardWeight, pipec_stage_backward_weight);
  CALL(Kind::Backward, pipec_stage_backward);
  CALL(Kind::Optimizer, pipec_stage_optimizer_step);
#undef CALL
}

} // namespace
} // namespace pipec::plan
