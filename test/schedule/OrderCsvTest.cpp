// PyTorch's compute-only orders: what is read, and every refusal with its place.
#include "compiler/schedule/OrderCsv.h"

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
    EXPECT_FALSE(order.lastMicrobatchFirst);
    EXPECT_EQ(order.rankOf, (std::vector<int32_t>{0, 1}));
    EXPECT_EQ(order.words, (Words{{{0, F}, {0, F}, {0, BW}, {0, BW}}, {{1, F}, {1, BW}, {1, F}, {1, BW}}}));
  }
}

TEST(OrderCsv, ReadsASplitOrderInVPlacement) {
  Order order =
      right("0F0,0F1,3F0,3I0,3W0,3F1,3I1,3W1,0I0,0W0,0I1,0W1\n1F0,2F0,1F1,2F1,2I0,1I0,2W0,1W0,2I1,1I1,2W1,1W1\n");
  EXPECT_EQ(order.backward, BackwardMode::Split);
  EXPECT_EQ(order.rankOf, (std::vector<int32_t>{0, 1, 1, 0}));
}

TEST(OrderCsv, ReadsBackwardsFromTheLast) {
  Order order = right("0F0,0F1,0F2,0B2,0B1,0B0\n");
  EXPECT_TRUE(order.lastMicrobatchFirst);
  EXPECT_TRUE(right("0F0,0F1,0I1,0I0,0W1,0W0\n").lastMicrobatchFirst);
}

TEST(OrderCsv, RefusesAByteOrderMark) {
  refused("\xef\xbb\xbf"
          "0F0,0B0\n",
          1, 1, "the file begins with a byte order mark, expected the first action: save it without one");
}

TEST(OrderCsv, RefusesWhatIsNoAction) {
  for (const char *cell : {"0f0", "0 F0", "F0", "0F", "00F0", "0F00", "-1F0", "0F-1", "0F0junk", "0F0;0F1", "0X0",
                           "0BW0", "0SEND_F0", "0UNSHARD", "\"0F0", "\""}) {
    std::string shown;
    for (const char *c = cell; *c; ++c)
      shown += *c >= ' ' && *c < 127 ? *c : '?';
    refused(std::string("0F0,") + cell + ",0B0\n", 1, 5,
            "expected an action such as 2F0 (a stage, one of F, B, I, W, a microbatch), found '" + shown + "'");
  }
  refused("0F0\n(0F1;0B0)OVERLAP_F_B\n", 2, 1, "'(0F1;0B0)OVERLAP_F_B': overlapped pairs are not supported yet");
  refused("0F99999999999\n", 1, 1,
          "expected an action such as 2F0 (a stage, one of F, B, I, W, a microbatch), found '0F99999999999'");
  refused("2000000F0\n", 1, 1, "'2000000F0' is beyond 1048576 stages or 1048576 microbatches");
}

TEST(OrderCsv, RefusesMoreRowsThanRanks) {
  std::string text;
  for (int row = 0; row <= 65'536; ++row)
    text += "0F0\n";
  refused(text, 65'537, 1, "expected at most 65536 ranks, a row each");
}

TEST(OrderCsv, RefusesWhatIsNoOrder) {
  refused("", 1, 1, "the order is empty, expected a row for each rank");
  refused("0F0,0B0\n\n1F0,1B0\n", 2, 1, "rank 1 has no action in its row");
  refused("0F0,0B0\n0F1,0B1\n", 2, 1, "stage 0 is on rank 0 already (line 1)");
  refused("0F0,0B0\n2F0,2B0\n", 2, 1, "stage 1 stands in no row, but stage 2 does");
  refused("0F0,0B0\n1F0,1I0,1W0\n", 2, 5, "whole (B) and split (I, W) backwards in one order are not supported yet");
  refused("0F0,0F1\n", 1, 1, "the order has no backward");
  refused("0B0,0F0\n", 1, 1, "0B0 comes before its forward 0F0");
  refused("0F0,0W0,0I0\n", 1, 5, "0W0 comes before its backward 0I0");
  refused("0F0,0F0,0B0,0B0\n", 1, 5, "0F0 is one more than there are microbatches");
  refused("0F0,0F2,0B0\n", 1, 5,
          "expected microbatch 1 next of this stage and kind, found 0F2: microbatches run in order, or all backwards "
          "from the last");
  refused("0F0,0F1,0B0\n", 1, 1, "stage 0 has 1 backwards, expected one for each of 2 microbatches");
  refused("0F0,0F1,0I0,0I1,0W0\n", 1, 1, "stage 0 has 1 weight backwards, expected one for each of 2 microbatches");
}

} // namespace pipec::schedule::test
