// PyTorch's orders as schedules: what is read of either format, and what a plan cannot say, with its place.
#include "compiler/torch/OrderCsv.h"

#include <gtest/gtest.h>

namespace pipec::schedule::test {
namespace {

Order right(std::string_view text) {
  Order order;
  OrderError error;
  EXPECT_TRUE(readOrder(text, order, error)) << error.line << ":" << error.column << ": " << error.message;
  return order;
}

void refused(std::string_view text, int line, int column, std::string_view message) {
  Order order;
  OrderError error;
  ASSERT_FALSE(readOrder(text, order, error)) << text;
  EXPECT_EQ(error.line, line) << error.message;
  EXPECT_EQ(error.column, column) << error.message;
  EXPECT_EQ(error.message, message);
}

} // namespace

using enum Letter;

TEST(OrderCsv, ReadsAFusedOrder) {
  for (const char *text : {"0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", "0F0,0F1,0B0,0B1\r\n1F0,1B0,1F1,1B1\r\n",
                           "0F0, 0F1,,0B0 ,0B1,\n,1F0,1B0,1F1,1B1"}) {
    Order order = right(text);
    EXPECT_EQ(order.microbatches, 2);
    EXPECT_EQ(order.backward, BackwardMode::Fused);
    EXPECT_EQ(order.backwardGroup, 1);
    EXPECT_EQ(order.rankOf, (std::vector<int32_t>{0, 1}));
    EXPECT_EQ(order.words, (Words{{{0, F}, {0, F}, {0, BW}, {0, BW}}, {{1, F}, {1, BW}, {1, F}, {1, BW}}}));
    EXPECT_TRUE(order.rows.empty());
  }
}

TEST(OrderCsv, ReadsASplitOrderInVPlacement) {
  Order order =
      right("0F0,0F1,3F0,3I0,3W0,3F1,3I1,3W1,0I0,0W0,0I1,0W1\n1F0,2F0,1F1,2F1,2I0,1I0,2W0,1W0,2I1,1I1,2W1,1W1\n");
  EXPECT_EQ(order.backward, BackwardMode::Split);
  EXPECT_EQ(order.rankOf, (std::vector<int32_t>{0, 1, 1, 0}));
  EXPECT_EQ(order.words[1].front(), (Op{1, F}));
}

TEST(OrderCsv, ReadsBackwardsFromTheLast) {
  Order order = right("0F0,0F1,0F2,0B2,0B1,0B0\n");
  EXPECT_EQ(order.backwardGroup, 3);
  EXPECT_EQ(right("0F0,0F1,0I1,0I0,0W1,0W0\n").backwardGroup, 2);
}

TEST(OrderCsv, ReadsSlicesFromTheLastOfEachMicrobatch) {
  Order order;
  OrderError error;
  const std::string_view text = "0F0,0F1,0B1,0B0,0F2,0F3,0B3,0B2\n";
  ASSERT_TRUE(readOrder(text, order, error, {.slices = 2})) << error.message;
  EXPECT_EQ(order.backwardGroup, 2);
  EXPECT_EQ(order.microbatches, 4);
  EXPECT_FALSE(readOrder(text, order, error));
  EXPECT_FALSE(readOrder("0F0,0F1,0B0,0B1,0F2,0F3,0B3,0B2\n", order, error, {.slices = 2}));
  EXPECT_EQ(error.message,
            "expected microbatch 1 next of this stage and kind, found 0B0: microbatches run in order, or "
            "all backwards from the last; backwards of 2 slices from the last of them");
}

TEST(OrderCsv, ReadsTwoCopiesOfTheStages) {
  // Stage 1 ends the first copy and stage 2 begins the second, on one rank and in any order.
  Order order;
  OrderError error;
  const std::string_view text = "0F0,3F0,3B0,0B0\n2F0,1F0,1B0,2B0\n";
  ASSERT_TRUE(readOrder(text, order, error, {.copies = 2})) << error.message;
  EXPECT_EQ(order.rankOf, (std::vector<int32_t>{0, 1, 1, 0}));
  EXPECT_EQ(order.microbatches, 1);
  EXPECT_FALSE(readOrder(text, order, error));
  EXPECT_FALSE(readOrder("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n", order, error, {.copies = 2}));
  EXPECT_EQ(error.message,
            "an order of slices or of two copies of the stages has passes alone, found transfers: leave them out");
}

TEST(OrderCsv, KeepsTheTransfersOfARow) {
  Order order = right("0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0RESHARD\n"
                      "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD,1RESHARD\n");
  ASSERT_EQ(order.rows.size(), 2u);
  std::vector<Action> actions;
  for (const RowAction &each : order.rows[0])
    actions.push_back(each.action);
  EXPECT_EQ(actions, (std::vector{Action::F, Action::SendF, Action::RecvB, Action::B}));
  EXPECT_EQ(order.words, (Words{{{0, F}, {0, BW}}, {{1, F}, {1, BW}}}));
}

TEST(OrderCsv, ReadsPairsAndBothKindsOfBackward) {
  const Order pairs = right("0F0,0F1,(0F2;0B0)OVERLAP_F_B,0B1,0B2\n");
  EXPECT_EQ(pairs.words, (Words{{{0, F}, {0, F}, {0, F, true}, {0, BW}, {0, BW}, {0, BW}}}));
  // Half of a backward runs behind its forward: what the two take together nobody says.
  const Order halves = right("0F0,0F1,(0F2;0I0)OVERLAP_F_B,0W0,0B1,0B2\n");
  EXPECT_EQ(halves.words, (Words{{{0, F}, {0, F}, {0, F}, {0, B}, {0, W}, {0, BW}, {0, BW}}}));
  const Order order = right("0F0,0F1,0F2,0I0,0B1,0I2,0W0,0W2\n1F0,1B0,1F1,1B1,1F2,1B2\n");
  EXPECT_EQ(order.backward, BackwardMode::Split);
  EXPECT_EQ(order.words.front(), (Word{{0, F}, {0, F}, {0, F}, {0, B}, {0, BW}, {0, B}, {0, W}, {0, W}}));
}

TEST(OrderCsv, RefusesWhatAPlanCannotSay) {
  refused("0F1,0F0,0B0,0B1\n1F0,1F1,1B0,1B1\n", 1, 1,
          "expected microbatch 0 next of this stage and kind, found 0F1: microbatches run in order, or all backwards "
          "from the last");
}

} // namespace pipec::schedule::test
