// Samples that change ranks between two stages, over the connections that the members of a group have each with each:
// sample i goes from member i mod width of the one stage to member i mod width of the other (plan::samplesOf), from
// buffer to buffer, in one message for each two members. Who comes to a reshard says so to all others, with when it was
// ready; a member sends only to those that have come, so nothing arrives that nobody waits for. A member is at most one
// reshard ahead of another: that it has come to the next is kept. All of it is of the io_context's thread.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/transport/host/BlockExchange.h"

#include <optional>
#include <vector>

namespace pipec::runtime {

/// Where the samples of a batch are: with which ranks of a stage, and with which of the other.
struct SampleWidths {
  int64_t batch = 0;
  int32_t from = 1, to = 1;
};

class SampleExchange {
public:
  /// `members`: world ranks, ascending, `self` one of them. `owner` outlives it.
  SampleExchange(std::vector<int32_t> members, int32_t self, BlockExchange::Owner &owner);

  /// The process comes to a reshard, and has ended the one before. `from`: its samples of the stage that they come
  /// from, one behind the other; nothing if it is on other ranks. `to`: likewise where they go.
  void begin(const Label &label, const SampleWidths &widths, Slot from, Slot to, plan::Time ready);
  bool under() const { return underWay; }
  bool done() const;
  plan::Time latest() const { return last; }
  void end() { underWay = false; }

  // What comes from members.

  void onAsk(int32_t process, const wire::Frame &frame);
  /// Where the payload goes; null: it is not wanted, and refused.
  const std::vector<asio::mutable_buffer> *onBlock(int32_t process, const wire::Frame &frame);
  void onArrived(int32_t process, const wire::Frame &frame);

  bool has(int32_t process) const { return process != members[own] && indexOf(process) < members.size(); }
  /// Who is not known to have come to the one that is under way; -1: all have.
  int32_t missing() const;

private:
  /// Samples that lie so far apart in a buffer.
  struct Places {
    int64_t first = 0, step = 1;
  };
  /// Those that go from one member to another.
  struct Moved {
    int64_t count = 0;
    Places from, to;
  };
  struct Member {
    bool came = false, sent = false, brought = false;
    std::optional<wire::Frame> early;          // it has come to the next
    std::vector<asio::mutable_buffer> landing; // of its message
  };
  size_t indexOf(int32_t process) const;
  Moved movedBetween(size_t from, size_t to) const;
  template <typename Buffer>
  std::vector<Buffer> buffersOf(Slot slot, int32_t width, size_t member, int64_t count, const Places &places) const;
  void came(size_t member, const wire::Frame &frame);
  void send(size_t to);

  const std::vector<int32_t> members;
  const size_t own; // among them
  BlockExchange::Owner &owner;
  std::vector<Member> states;

  bool underWay = false;
  wire::Tag tag;
  SampleWidths widths;
  Slot source, target;
  plan::Time last = 0;
};

} // namespace pipec::runtime
