// Every refusal of an order file, each by a file that breaks one rule alone: where it is, in what words, and whether
// the file could be read (exit code 3) or not (1). Most of these PyTorch loads.
#include "compiler/torch/OrderRules.h"

#include <gtest/gtest.h>

namespace pipec::schedule::test {
namespace {

OrderCells right(std::string_view text) {
  OrderCells cells;
  OrderIndex index;
  OrderError error;
  EXPECT_TRUE(readCells(text, cells, error) && checkCells(cells, index, error))
      << error.line << ":" << error.column << ": " << error.message << "\n"
      << text;
  return cells;
}

void check(std::string_view text, int line, int column, std::string_view message, bool readable) {
  OrderCells cells;
  OrderIndex index;
  OrderError error;
  ASSERT_FALSE(readCells(text, cells, error) && checkCells(cells, index, error)) << text;
  EXPECT_EQ(error.line, line) << error.message;
  EXPECT_EQ(error.column, column) << error.message;
  EXPECT_EQ(error.message, message);
  EXPECT_EQ(error.readable, readable) << error.message;
}
void unreadable(std::string_view text, int line, int column, std::string_view message) {
  check(text, line, column, message, false);
}
void wrong(std::string_view text, int line, int column, std::string_view message) {
  check(text, line, column, message, true);
}

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

// 1F1B on two ranks as PyTorch lowers it, in its three spellings.
const std::string k28 = "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
                        "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n";
const std::string k210 = "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD\n"
                         "1UNSHARD,1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1REDUCE_GRAD,1RESHARD\n";
const std::string k215 =
    "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0WAIT_SEND_F0,0RECV_B1,0B1,0WAIT_SEND_F1,0REDUCE_GRAD,0WAIT_REDUCE_GRAD\n"
    "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1REDUCE_GRAD,1WAIT_REDUCE_GRAD,1WAIT_SEND_B0,1WAIT_SEND_B1\n";

} // namespace

TEST(OrderCells, TellsFormatsAndSpellingsApart) {
  EXPECT_EQ(right("0F0,,0B0\n").format, OrderFormat::ComputeOnly);
  for (const auto &[text, release] : {std::pair(k28, TorchRelease::V2_8), std::pair(k210, TorchRelease::V2_10),
                                      std::pair(k215, TorchRelease::V2_15)}) {
    EXPECT_EQ(right(text).format, OrderFormat::ComputeComms);
    EXPECT_EQ(right(text).release, release);
  }
}

TEST(OrderCells, ReadsPairs) {
  const OrderCells cells = right("0F0,0F1,( 0F2;0B0 )OVERLAP_F_B,0B1,0B2\n");
  ASSERT_EQ(cells.rows.front().size(), 6u);
  EXPECT_TRUE(cells.pairs);
  EXPECT_TRUE(cells.rows.front()[2].opensPair);
  EXPECT_EQ(cells.rows.front()[2].column, 11);
  EXPECT_EQ(nameOf(cells.rows.front()[3]), "0B0");
  EXPECT_EQ(cells.rows.front()[3].column, 15);
}

TEST(OrderCells, AByteOrderMark) {
  unreadable("\xef\xbb\xbf"
             "0F0,0B0\n",
             1, 1, "the file begins with a byte order mark, expected the first action: save it without one");
}

TEST(OrderCells, WhatIsNoAction) {
  for (const char *cell :
       {"0f0",           "0 F0",    "F0",        "0F",           "00F0",         "0F00",         "-1F0",
        "0F-1",          "0F0junk", "0F0;0F1",   "0F0 1F0",      "0F0#c",        "0X0",          "+0F0",
        "0F+0",          "rank",    "# made by", "0SEND0",       "0SEND_F",      "0WAIT_SEND_F", "0UNSHARD0",
        "0REDUCE_GRAD1", "0F0\r",   "0FF0",      "0OVERLAP_F_B", "1F99999999999"}) {
    std::string shown;
    for (const char *c = cell; *c; ++c)
      shown += *c >= ' ' && *c < 127 ? *c : '?';
    unreadable(std::string("0F0,") + cell + ",0B0\n", 1, 5,
               "expected an action such as 2F0, 2SEND_F0 or 2UNSHARD (a stage, what it does, a microbatch where it is "
               "of one), found '" +
                   shown + "'");
  }
  for (const char *cell : {"\"0F0", "\""})
    unreadable(std::string("0F0,") + cell + "\n", 1, 5,
               std::string("expected a closing quote at the end of the cell, found '") + cell + "'");
  unreadable("2000000F0\n", 1, 1, "'2000000F0' is beyond 1048576 stages or 1048576 microbatches");
}

TEST(OrderCells, TheSpellingBefore28) {
  unreadable("0F0,0BW0\n", 1, 5, "'0BW0' is spelled as before release 2.8, expected B for a whole backward");
}

TEST(OrderCells, WhatIsNoPair) {
  for (const char *cell :
       {"(0F7;7B3)F", "(0F7;7B3) OVERLAP_F_B", "(0F7)OVERLAP_F_B", "(0F7;7B3", "(0F7;7B3)OVERLAP_F_Bx"})
    unreadable(std::string("0F0,") + cell + "\n", 1, 5,
               std::string("expected a pair such as (0F7;7B3)OVERLAP_F_B, found '") + cell + "'");
  unreadable("(0B0;0F1)OVERLAP_F_B\n", 1, 1,
             "'(0B0;0F1)OVERLAP_F_B': a pair is of a forward and a backward, in this order: (0F7;7B3)OVERLAP_F_B");
  unreadable("(0F0;0B0;0F1)OVERLAP_F_B\n", 1, 6,
             "expected an action such as 2F0, 2SEND_F0 or 2UNSHARD (a stage, what it does, a microbatch where it is of "
             "one), found '0B0;0F1'");
}

TEST(OrderCells, RowsThatAreNone) {
  unreadable("", 1, 1, "the order is empty, expected a row for each rank");
  unreadable("0F0,0B0\n\n1F0,1B0\n", 2, 1, "rank 1 has no action in its row");
  unreadable("0F0,0B0\n\n", 2, 1, "rank 1 has no action in its row");
  std::string text;
  for (int row = 0; row <= 65'536; ++row)
    text += "0F0\n";
  unreadable(text, 65'537, 1, "expected at most 65536 ranks, a row each");
}

TEST(OrderCells, IdleCellsAmongTransfers) {
  unreadable(replaced(k28, "0F1,", "0F1,,"), 1, 18,
             "an empty cell, which only compute_only may have; 0SEND_F0 (1:5) makes this file compute_comms");
  unreadable(replaced(k28, "0B1\n", "0B1,\n"), 1, 53,
             "an empty cell, which only compute_only may have; 0SEND_F0 (1:5) makes this file compute_comms");
}

TEST(OrderCells, MixedSpellings) {
  unreadable(replaced(k210, "0RESHARD", "0WAIT_REDUCE_GRAD"), 1, 14,
             "0SEND_F0, but no WAIT_SEND in the file: spellings are mixed, 0WAIT_REDUCE_GRAD (1:75) is that of release "
             "2.15, where each SEND has its WAIT_SEND");
  std::string text = replaced(k215, ",0REDUCE_GRAD,0WAIT_REDUCE_GRAD", ",0REDUCE_GRAD");
  text = replaced(text, "1REDUCE_GRAD,1WAIT_REDUCE_GRAD", "1REDUCE_GRAD");
  unreadable(text, 1, 81,
             "0REDUCE_GRAD, but no WAIT_REDUCE_GRAD in the file: spellings are mixed, 0WAIT_SEND_F0 (1:40) is that of "
             "release 2.15, where each REDUCE_GRAD has its WAIT_REDUCE_GRAD");
  text = replaced(k215, ",0REDUCE_GRAD,0WAIT_REDUCE_GRAD", "");
  text = replaced(text, "1REDUCE_GRAD,1WAIT_REDUCE_GRAD,", "");
  unreadable(text, 1, 40,
             "0WAIT_SEND_F0, but no REDUCE_GRAD in the file: spellings are mixed, 0WAIT_SEND_F0 (1:40) is that of "
             "release 2.15, where each stage has its REDUCE_GRAD");
}

TEST(OrderRules, StagesHavePlaces) {
  wrong("0F0,0B0\n0F1,0B1\n", 2, 1, "stage 0 is on rank 0 already (line 1)");
  wrong("0F0,0B0\n2F0,2B0\n", 2, 1, "stage 1 stands in no row, but stage 2 does");
  wrong("0F0,0B0\n1SEND_B0\n", 2, 1, "rank 1 has no stage: none of its cells is a pass");
  wrong(replaced(k28, "0SEND_F0", "1SEND_F0"), 1, 5, "1SEND_F0 stands on rank 0, but stage 1 is on rank 1 (line 2)");
  wrong(replaced(k28, "0SEND_F0", "7SEND_F0"), 1, 5, "7SEND_F0: no rank has stage 7");
  wrong(replaced(k210, "0UNSHARD", "1UNSHARD"), 1, 1, "1UNSHARD stands on rank 0, but stage 1 is on rank 1 (line 2)");
}

TEST(OrderRules, MicrobatchesAreZeroToTheLast) {
  wrong("0F0,0F5,0B0,0B1\n1F0,1B0,1F1,1B1\n", 1, 5, "0F5: expected microbatches 0 to 1, as most stages have");
  wrong("0F1,0F2,0B1,0B2\n1F1,1B1,1F2,1B2\n", 1, 1,
        "stage 0 has 2 forwards, expected one for each of 3 microbatches: there is no 0F0");
  wrong("0W0\n", 1, 1, "the order has no forward and no backward");
}

TEST(OrderRules, EachOnce) {
  wrong("0F0,0F0,0B0,0B0\n", 1, 5, "0F0 stands twice, first at 1:1");
  wrong("0F0,0F1,0B0,0B0,0B1\n", 1, 13, "0B0 stands twice, first at 1:9");
  wrong("0F0,0I0,0W0,0W0\n", 1, 13, "0W0 stands twice, first at 1:9");
  wrong(replaced(k28, "0F1,", "0F1,0SEND_F0,"), 1, 18, "0SEND_F0 stands twice, first at 1:5");
  wrong(replaced(k28, "1F1,", "1F1,1RECV_F1,"), 2, 40, "1RECV_F1 stands twice, first at 2:14");
  wrong(replaced(k215, "0RECV_B1,", "0WAIT_SEND_F0,0RECV_B1,"), 1, 54, "0WAIT_SEND_F0 stands twice, first at 1:40");
}

TEST(OrderRules, NonePassMissing) {
  wrong("0F0,0B0,0B1\n1F0,1F1,1B0,1B1\n", 1, 1,
        "stage 0 has 1 forward, expected one for each of 2 microbatches: there is no 0F1");
  wrong("0F0,0F1,0B0\n1F0,1F1,1B0,1B1\n", 1, 5, "0F1 has no backward, expected 0B1 or 0I1 and 0W1");
  wrong("0F0,0I0\n", 1, 5, "0I0 has no 0W0: a split backward is both");
  wrong("0F0,0B0,0W0\n", 1, 9, "0W0 beside the whole backward 0B0 (1:5), expected one of the two");
  wrong("0F0,0I0,0B0,0W0\n", 1, 5, "0I0 beside the whole backward 0B0 (1:9), expected one of the two");
}

TEST(OrderRules, PassesInOrder) {
  wrong("0B0,0F0\n", 1, 1, "0B0 comes before its forward 0F0 (1:5)");
  wrong("0F0,0W0,0I0\n", 1, 5, "0W0 comes before its backward 0I0 (1:9)");
  wrong("1F0,0F0,1B0,0B0\n", 1, 1, "1F0 comes before what it takes, 0F0 (1:5)");
  wrong("0F0,1F0,0B0,1B0\n", 1, 9, "0B0 comes before what it takes, 1B0 (1:13)");
}

TEST(OrderRules, LossesInOrder) {
  wrong("0F0,0F1,0B0,0B1\n1F1,1F0,1B0,1B1\n", 2, 1,
        "1F1 comes before 1F0 (2:5): PyTorch numbers losses as the last stage runs, so its forwards stand in the order "
        "of microbatches");
}

TEST(OrderRules, TransfersBetweenRanks) {
  wrong(replaced(k28, "1SEND_B1", "1SEND_B1,1SEND_F0"), 2, 53,
        "1SEND_F0: stage 1 is the last, there is nothing to send to");
  wrong("0RECV_F0," + k28, 1, 1, "0RECV_F0: stage 0 is the first, there is nothing to receive from");
  wrong("0F0,0SEND_F0,1F0,1B0,0B0\n", 1, 5,
        "0SEND_F0: stages 0 and 1 are on one rank, which hands over without a transfer");
}

TEST(OrderRules, NoneTransferMissing) {
  wrong(replaced(k28, "0SEND_F1,", ""), 1, 14,
        "what 0F1 yields is never sent, expected 0SEND_F1 after it: stage 1 is on rank 1");
  wrong(replaced(k28, "1RECV_F1,", ""), 2, 27,
        "what 1F1 takes is never received, expected 1RECV_F1 before it: stage 0 is on rank 0");
  wrong(replaced(k28, "1SEND_B0,", ""), 2, 23,
        "what 1B0 yields is never sent, expected 1SEND_B0 after it: stage 0 is on rank 0");
  wrong(replaced(k28, "0RECV_B1,", ""), 1, 40,
        "what 0B1 takes is never received, expected 0RECV_B1 before it: stage 1 is on rank 1");
}

TEST(OrderRules, TransfersInOrder) {
  wrong(replaced(k28, "0F0,0SEND_F0", "0SEND_F0,0F0"), 1, 1, "0SEND_F0 comes before what it sends, 0F0 (1:10)");
  wrong(replaced(k28, "1RECV_F0,1F0", "1F0,1RECV_F0"), 2, 1, "1F0 comes before what it takes, 1RECV_F0 (2:5)");
  wrong(replaced(k28, "0RECV_B0,0B0", "0B0,0RECV_B0"), 1, 27, "0B0 comes before what it takes, 0RECV_B0 (1:31)");
  wrong(replaced(k28, "1B0,1SEND_B0", "1SEND_B0,1B0"), 2, 23, "1SEND_B0 comes before what it sends, 1B0 (2:32)");
}

TEST(OrderRules, PairsMatch) {
  wrong(replaced(k28, "0F0,0SEND_F0,0F1,0SEND_F1", "0F0,0F1,0SEND_F1,0SEND_F0"), 2, 1,
        "1RECV_F0 is the 1st receive of rank 1 from rank 0, whose 1st send is 0SEND_F1 (1:9): nothing but order tells "
        "transfers apart, so it would get the wrong tensor; put 1RECV_F1 (2:14) here or send in this order");
}

TEST(OrderRules, SendsAreWaitedFor) {
  wrong(replaced(k215, "0WAIT_SEND_F0,", ""), 1, 5,
        "0SEND_F0 has no 0WAIT_SEND_F0, which release 2.15 expects of each SEND");
  wrong(replaced(k215, "0F0,0SEND_F0,0F1", "0F0,0WAIT_SEND_F0,0SEND_F0,0F1")
            .replace(k215.find("0WAIT_SEND_F0,") + 14, 14, ""),
        1, 5, "0WAIT_SEND_F0 comes before what it waits for, 0SEND_F0 (1:19)");
  wrong(replaced(k215, "1WAIT_SEND_B1", "1WAIT_SEND_B1,1WAIT_SEND_F0"), 2, 112,
        "1WAIT_SEND_F0 waits for a SEND that is not in the file");
}

TEST(OrderRules, GradientsReduced) {
  wrong(replaced(k210, "1REDUCE_GRAD,", ""), 2, 19,
        "stage 1 has no 1REDUCE_GRAD: its gradients would be 2 times too large");
  wrong(replaced(k210, "0REDUCE_GRAD,", "0REDUCE_GRAD,0REDUCE_GRAD,"), 1, 75,
        "0REDUCE_GRAD stands twice, first at 1:62");
  wrong(replaced(k210, "0B1,0REDUCE_GRAD", "0REDUCE_GRAD,0B1"), 1, 58,
        "0REDUCE_GRAD comes before the backward 0B1 (1:71), expected it after the last");
}

TEST(OrderRules, ReductionsWaitedFor) {
  wrong(replaced(k215, ",0WAIT_REDUCE_GRAD", ""), 1, 81, "0REDUCE_GRAD has no 0WAIT_REDUCE_GRAD");
  wrong(replaced(k215, "0REDUCE_GRAD,0WAIT_REDUCE_GRAD", "0WAIT_REDUCE_GRAD,0REDUCE_GRAD"), 1, 81,
        "0WAIT_REDUCE_GRAD waits for no reduction that is under way");
  wrong("0F0,1F0,1B0,0B0,0REDUCE_GRAD,1REDUCE_GRAD,0WAIT_REDUCE_GRAD,1WAIT_REDUCE_GRAD\n", 1, 30,
        "1REDUCE_GRAD begins while 0REDUCE_GRAD (1:17) is under way, expected 0WAIT_REDUCE_GRAD between them");
}

TEST(OrderRules, ShardsInOrder) {
  wrong(replaced(k210, "0UNSHARD,", "0UNSHARD,0UNSHARD,"), 1, 10, "0UNSHARD, but stage 0 is unsharded already");
  wrong(replaced(k210, "0RESHARD", "0RESHARD,0RESHARD"), 1, 84, "0RESHARD, but stage 0 is not unsharded");
  wrong(replaced(k210, "0UNSHARD,", "0UNSHARD,0RESHARD,0UNSHARD,"), 1, 10,
        "0RESHARD comes before any pass of stage 0 has run since 0UNSHARD (1:1)");
  wrong(replaced(k210, "1UNSHARD,", ""), 2, 10, "1F0 runs while stage 1 is sharded, expected 1UNSHARD before it");
  wrong(replaced(k210, "0RESHARD", "0RESHARD,0UNSHARD"), 1, 84, "no pass of stage 0 comes after 0UNSHARD");
}

} // namespace pipec::schedule::test
