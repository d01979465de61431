// Small programs under rendezvous, run in every possible way: what the proof is held against. Shares no code with the
// simulator: a program is queues of passes, sends and receives, and a state is how far each queue has come.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace pipec::explore {

enum class Model : uint8_t { PerEdge, PerPair, LaunchOrder, Shared };

struct Item {
  enum class Kind : uint8_t { Pass, Send, Recv, Collective } kind = Kind::Pass;
  int peer = -1;                               // of a transfer: the rank at the other end
  int tag = 0;                                 // what it carries
  std::vector<std::pair<int, int>> waits = {}; // so many items of that queue of its rank are done
  std::vector<int> members = {};               // of a collective, or a pass with sums: the ranks that meet in it
  bool sums = false;                           // of a pass: its rank's replicas meet in it
};
using Queue = std::vector<Item>;
/// queues[0] is the compute queue; the others are communicators.
struct Rank {
  std::vector<Queue> queues = {{}};
  /// Its sends, receives and collectives (queue and place in it) in the order in which they start, where that counts:
  /// each once it is the head of its queue with its waits met, whether or not its peer is there.
  std::vector<std::pair<int, int>> starts = {};
};
using Program = std::vector<Rank>;

struct Outcome {
  bool ends = true;        // every run does
  bool mismatched = false; // in some run, a send meets a receive of something else
  int finals = 0;          // states in which nothing can go on
  int states = 0;
};

/// All runs: in each state, any pass at the head of its queue whose waits are met may run, and any send with a receive
/// at its peer, both at the heads of their queues with their waits met, and both started where starts have an order;
/// likewise a collective, or a pass with sums, with all its members.
Outcome explore(const Program &program);

/// So many replicas of each rank, side by side: replica k of rank r is rank r * degree + k. Transfers are between those
/// of one number, collectives and passes with sums between all replicas of a rank.
Program replicated(const Program &program, int degree);

std::string text(const Program &program);

} // namespace pipec::explore
