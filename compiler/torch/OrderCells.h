// The cells of an order file of torch.distributed.pipelining, in both formats of _PipelineScheduleRuntime._load_csv.
// Each row is a rank, each cell an action, `<stage><kind><microbatch>`. compute_only has F, B (the whole backward), I
// (for the input), W (for the weights) and OVERLAP_F_B pairs; an empty cell is idle. compute_comms also has transfers
// and FSDP's actions, in three spellings: that of releases 2.8 and 2.9, that of 2.10 to 2.14 (with REDUCE_GRAD), and
// that from 2.15 on (with WAIT cells).
#pragma once

#include "compiler/schedule/model/Problem.h"
#include "runtime/plan/Kinds.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipec::schedule {

/// The most cells of an order file; a pair counts as two. 128 ranks x 1024 microbatches of a split backward on two
/// stages per rank take a quarter of this number.
inline constexpr int64_t kOrderCells = int64_t(1) << 23;

enum class Action : uint8_t {
  F,
  I,
  W,
  B,
  SendF,
  RecvF,
  SendB,
  RecvB,
  WaitSendF,
  WaitSendB,
  Unshard,
  Reshard,
  ReduceGrad,
  WaitReduceGrad
};
inline constexpr int kActions = 14;

/// The spelling of an action, and the instruction that performs it; FSDP's actions and waits have none.
struct ActionRow {
  Action action;
  std::string_view spelling;
  std::optional<plan::Kind> kind = std::nullopt;
  plan::Payload of = plan::Payload::None; // payload of a transfer
};
/// In the order of Action.
inline constexpr std::array<ActionRow, kActions> kActionTable = {{
    {Action::F, plan::rowOf(plan::Kind::Forward).torch, plan::Kind::Forward},
    {Action::I, plan::rowOf(plan::Kind::BackwardInput).torch, plan::Kind::BackwardInput},
    {Action::W, plan::rowOf(plan::Kind::BackwardWeight).torch, plan::Kind::BackwardWeight},
    {Action::B, plan::rowOf(plan::Kind::Backward).torch, plan::Kind::Backward},
    {Action::SendF, "SEND_F", plan::Kind::Send, plan::Payload::Forward},
    {Action::RecvF, "RECV_F", plan::Kind::Recv, plan::Payload::Forward},
    {Action::SendB, "SEND_B", plan::Kind::Send, plan::Payload::Backward},
    {Action::RecvB, "RECV_B", plan::Kind::Recv, plan::Payload::Backward},
    {Action::WaitSendF, "WAIT_SEND_F"},
    {Action::WaitSendB, "WAIT_SEND_B"},
    {Action::Unshard, "UNSHARD"},
    {Action::Reshard, "RESHARD"},
    {Action::ReduceGrad, "REDUCE_GRAD"},
    {Action::WaitReduceGrad, "WAIT_REDUCE_GRAD"},
}};

constexpr const ActionRow &rowOf(Action action) { return kActionTable[size_t(action)]; }
/// The action of a pass or a transfer.
constexpr Action actionOf(plan::Kind kind, plan::Payload of = plan::Payload::None) {
  size_t at = 0;
  while (kActionTable[at].kind != kind || kActionTable[at].of != of)
    ++at;
  return kActionTable[at].action;
}

constexpr bool isPass(Action action) { return rowOf(action).kind && plan::isOrdered(*rowOf(action).kind); }
constexpr bool isTransfer(Action action) { return rowOf(action).kind && plan::isTransfer(*rowOf(action).kind); }
constexpr bool isSend(Action action) { return rowOf(action).kind == plan::Kind::Send; }
constexpr bool isWaitSend(Action action) { return action == Action::WaitSendF || action == Action::WaitSendB; }
/// The action at the other end of a transfer.
constexpr Action otherEnd(Action transfer) {
  return actionOf(isSend(transfer) ? plan::Kind::Recv : plan::Kind::Send, rowOf(transfer).of);
}

/// One action. It is in the row of its rank r, which is line r + 1 of the file, since every line is a row.
struct Cell {
  Action action = Action::F;
  bool opensPair = false; // first cell of an OVERLAP_F_B pair; the next cell is the second
  int32_t stage = 0;
  int32_t microbatch = -1; // -1: the action concerns the whole stage
  int32_t column = 1;      // of its first character, from 1
};

/// The stage at the other end of a transfer, or of the transfer that a WAIT_SEND waits for.
inline int32_t otherStage(const Cell &cell) {
  bool up = cell.action == Action::SendF || cell.action == Action::RecvB || cell.action == Action::WaitSendF;
  return cell.stage + (up ? 1 : -1);
}

/// PyTorch's spelling of an action: "RECV_F".
std::string_view spelling(Action action);
/// "1RECV_F0"
std::string nameOf(const Cell &cell);
void appendName(std::string &text, const Cell &cell);

enum class OrderFormat : uint8_t { ComputeOnly, ComputeComms };
/// The spelling of compute_comms, named by the first release that reads it.
enum class TorchRelease : uint8_t { V2_8, V2_10, V2_15 };
/// "2.10"
std::string_view nameOf(TorchRelease release);

struct OrderCells {
  std::vector<std::vector<Cell>> rows; // rows[r]: cells of rank r
  OrderFormat format = OrderFormat::ComputeOnly;
  TorchRelease release = TorchRelease::V2_8;
  bool pairs = false; // there are OVERLAP_F_B cells
  /// Copies of each stage. A file does not give this number: the numbers of the second copy's stages follow those of
  /// the first.
  int32_t copies = 1;
};

/// A place in the file, line and column counted from 1, and what is wrong there.
struct OrderError {
  int line = 1, column = 1;
  std::string message;
  bool readable = false; // every cell could be read, in one spelling; the order itself is wrong
};

/// Reads every cell, and finds the file's format and spelling. Refuses what PyTorch lets through by accident (text
/// after a cell, leading zeros, spellings mixed). False after an error. O(text).
bool readCells(std::string_view text, OrderCells &cells, OrderError &error);

} // namespace pipec::schedule
