// Moves samples between the ranks of two stages, over the connections between all members of a group: sample i goes
// from member i mod width of one stage to member i mod width of the other (plan::samplesOf), from buffer to buffer, in
// one message per pair of members. A member that comes to a reshard tells all others, with the time when it was ready.
// A member sends only to those that have come, so no data arrives unexpectedly. A member is at most one reshard ahead
// of another; that it has come to the next one is kept. Everything runs on the io_context's thread.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/transport/host/BlockExchange.h"

#include <optional>
#include <vector>

namespace pipec::runtime {

/// The samples of a batch, and the number of ranks of both stages.
struct SampleWidths {
  int64_t batch = 0;
  int32_t from = 1, to = 1;
};

class SampleExchange {
public:
  /// `members`: world ranks, ascending, `self` one of them. `owner` must outlive this object.
  SampleExchange(std::vector<int32_t> members, int32_t self, BlockExchange::Owner &owner);

  /// To call when the process comes to a reshard, and has ended the one before. `from`: its samples of the source
  /// stage, one behind the other; empty if that stage is on other ranks. `to`: the same for the target stage.
  void begin(const Label &label, const SampleWidths &widths, Slot from, Slot to, plan::Time ready);
  bool under() const { return underWay; }
  bool done() const;
  plan::Time latest() const { return last; }
  void end() { underWay = false; }

  // Frames from members.

  void onAsk(int32_t process, const wire::Frame &frame);
  /// Returns where the payload goes; null: the frame is refused.
  const std::vector<asio::mutable_buffer> *onBlock(int32_t process, const wire::Frame &frame);
  void onArrived(int32_t process, const wire::Frame &frame);

  bool has(int32_t process) const { return process != members[own] && indexOf(process) < members.size(); }
  /// A member that is not known to have come to the current reshard; -1: all have.
  int32_t missing() const;

private:
  /// Samples at equal distances in a buffer.
  struct Places {
    int64_t first = 0, step = 1;
  };
  /// The samples that go from one member to another.
  struct Moved {
    int64_t count = 0;
    Places from, to;
  };
  struct Member {
    bool came = false, sent = false, brought = false;
    std::optional<wire::Frame> early;          // present: the member has come to the next reshard
    std::vector<asio::mutable_buffer> landing; // of its message
  };
  size_t indexOf(int32_t process) const;
  Moved movedBetween(size_t from, size_t to) const;
  template <typename Buffer>
  std::vector<Buffer> buffersOf(Slot slot, int32_t width, size_t member, int64_t count, const Places &places) const;
  void came(size_t member, const wire::Frame &frame);
  void send(size_t to);

  const std::vector<int32_t> members;
  const size_t own; // index among them
  BlockExchange::Owner &owner;
  std::vector<Member> states;

  bool underWay = false;
  wire::Tag tag;
  SampleWidths widths;
  Slot source, target;
  plan::Time last = 0;
};

} // namespace pipec::runtime
