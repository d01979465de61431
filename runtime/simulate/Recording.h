// A simulated run, kept: what each queue ran and when, and why each instruction started no earlier. What `explain`, the
// pictures' shading of idle time and the critical path are made of.
#pragma once

#include "runtime/simulate/Simulate.h"

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace pipec::simulate {

/// An executed instruction: the index-th of its queue in a step.
struct Occurrence {
  int32_t place = 0; // the process: rank * shards + shard
  uint32_t queue = 0;
  int64_t step = 0;
  int64_t index = 0;
  auto operator<=>(const Occurrence &) const = default;
};

struct Executed {
  const plan::Instruction *instruction = nullptr;
  const plan::Operation *operation = nullptr;
  int64_t trip = 0;
  plan::Time start = 0, end = 0; // as in Event
  plan::Time completed = 0;      // when it and all before it in its queue and step have ended
  plan::Time came = 0, met = 0;  // as in Event
  int64_t microbatch() const { return instruction->microbatch + instruction->microbatchStride * trip; }
};

/// What kept an instruction from an earlier start.
enum class Why : uint8_t {
  Begin,  // nothing: the run begins
  Order,  // its device was busy with what stands before it
  Data,   // what it takes was not there yet
  Buffer, // its transfer buffer was still in use
  Memory, // W had to free their contexts first
  Queue,  // of a transfer: its communicator was busy with another
  Launch, // of an end in launch order: an earlier one of its process had not started, until then
  Sum,    // of what has begun: another shard of its rank had not come as far (Recording::heldBy)
};

/// Why an instruction started no earlier, and by which other one: its start is that one's end (of a transfer on a queue
/// or link: the end of its send). Begin has none.
struct Cause {
  Why why = Why::Begin;
  std::optional<Occurrence> by;
};

class Recording {
public:
  /// Runs the variant, which must outlive the recording. Links queue as they really do: the options `idealLinks` and
  /// `observe` are not used.
  Status run(const plan::Variant &variant, Options options);

  /// From when to when an instruction really ran; nothing if it did not.
  using Ran = std::function<std::optional<std::pair<plan::Time, plan::Time>>(
      int32_t place, const plan::Operation &operation, int64_t microbatch)>;
  /// Takes the times of one step of a real run, which is step 0 here, in place of simulated ones. The cause of a start
  /// is then what ended last of all that it waited for. An instruction that did not run is an error.
  Status replay(const plan::Variant &variant, const Ran &ran);

  int64_t steps() const { return stepCount; }
  /// What a queue ran in a step, in order.
  const std::vector<Executed> &queue(int32_t place, uint32_t queue, int64_t step) const {
    return places[size_t(place)][queue][size_t(step)];
  }
  const Executed &at(const Occurrence &of) const { return queue(of.place, of.queue, of.step)[size_t(of.index)]; }
  /// The other side of a transfer.
  Occurrence peerOf(const Occurrence &transfer) const;
  /// The other of an overlapped pair.
  std::optional<Occurrence> overlappedWith(const Occurrence &place) const;
  /// Where several causes end at the same time, the first in the order of Why.
  Cause causeOf(const Occurrence &place) const;
  /// Which shard of its rank came last to an instruction's first sum, where others waited for it; Why::Sum. Nothing of
  /// that shard's own, and of what has no sums.
  std::optional<Cause> heldBy(const Occurrence &place) const;
  /// From the first start to the last end of a step (of devices, and of collectives with replicas), causes first. Each
  /// starts when the one before it ends; the first has no cause in the step. What a sum held stands behind the same
  /// instruction on the shard that came last: from when they met on, the time is this one's.
  std::vector<Occurrence> criticalPath(int64_t step) const;
  /// The chain of causes that ends with this instruction, causes first, as far back as its step.
  std::vector<Occurrence> chain(Occurrence place) const;

  Result result;

private:
  void prepare(const plan::Variant &of, int64_t steps);
  void prepareEnds();
  void consider(Cause &best, Why why, Occurrence by, plan::Time start) const;
  void considerSide(Cause &best, const Occurrence &place, plan::Time start) const;
  void considerPorts(Cause &best, const Occurrence &place, plan::Time start) const;
  void considerLaunch(Cause &best, const Occurrence &place, plan::Time start) const;
  Occurrence headOf(const Occurrence &place) const;
  std::optional<Occurrence> before(const Occurrence &place) const;
  /// Of a wait: the instruction whose end meets it.
  Occurrence meets(Occurrence waited, plan::Time when) const;

  const plan::Variant *variant = nullptr;
  int64_t stepCount = 0;
  bool measured = false; // the times are a real run's: what waits starts a little after what it has waited for
  std::vector<std::vector<std::vector<std::vector<Executed>>>> places; // by place, queue, step
  struct Ends {
    std::vector<std::pair<uint32_t, int64_t>> sends, recvs; // queue and index, in order
  };
  std::map<std::pair<int32_t, int32_t>, Ends> transfers;     // of a step, by directed pair of places
  std::vector<std::vector<std::vector<int64_t>>> transferAt; // place, queue, index → place in Ends
  struct Member {
    int32_t place;
    uint32_t queue;
    int64_t index;
  };
  std::map<int32_t, std::vector<Member>> collectives; // by group; -1: of all
  // Where ends start in the order of issue, else empty:
  std::vector<std::vector<std::pair<uint32_t, int64_t>>> ends; // of a step, by place: queue and index
  std::vector<std::vector<std::vector<int64_t>>> endAt;        // place, queue, index → place in `ends`
};

} // namespace pipec::simulate
