// A Recording keeps a simulated run: what each queue ran and when, and why each instruction started no earlier.
// `explain`, the shading of idle time in pictures and the critical path are made from it.
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
  Order,  // its device was busy with an earlier instruction
  Data,   // its input was not there yet
  Buffer, // its transfer buffer was still in use
  Memory, // a W had to free its context first
  Queue,  // a transfer's communicator was busy with another transfer
  Launch, // in launch order: an earlier end of its process had not started
  Sum,    // after its start: another shard of its rank had not come as far (Recording::heldBy)
};

/// Why an instruction started no earlier, and the instruction that caused this: the start is that instruction's end
/// (for a transfer on a queue or link: the end of its send). Begin has none.
struct Cause {
  Why why = Why::Begin;
  std::optional<Occurrence> by;
};

class Recording {
public:
  /// Runs the variant, which must outlive the recording. Links queue as they really do: the options `idealLinks` and
  /// `observe` are not used.
  Status run(const plan::Variant &variant, Options options);

  /// Start and end of an instruction in a real run; nothing if it did not run.
  using Ran = std::function<std::optional<std::pair<plan::Time, plan::Time>>(
      int32_t place, const plan::Operation &operation, int64_t microbatch)>;
  /// Takes the times of one step of a real run, as step 0 here, in place of simulated ones. The cause of a start is
  /// then the last end of everything that the instruction waited for. An instruction that did not run is an error.
  Status replay(const plan::Variant &variant, const Ran &ran);

  int64_t steps() const { return stepCount; }
  /// What a queue ran in a step, in order.
  const std::vector<Executed> &queue(int32_t place, uint32_t queue, int64_t step) const {
    return places[size_t(place)][queue][size_t(step)];
  }
  const Executed &at(const Occurrence &of) const { return queue(of.place, of.queue, of.step)[size_t(of.index)]; }
  /// The other side of a transfer.
  Occurrence peerOf(const Occurrence &transfer) const;
  /// The other pass of an overlapped pair.
  std::optional<Occurrence> overlappedWith(const Occurrence &place) const;
  /// The cause of a start. If several causes end at the same time, the first in the order of Why.
  Cause causeOf(const Occurrence &place) const;
  /// The shard that came last to an instruction's first sum, while this shard waited for it (Why::Sum). Nothing if this
  /// shard came last, or if the instruction has no sums.
  std::optional<Cause> heldBy(const Occurrence &place) const;
  /// The critical path of a step, from its first start to its last end (on devices, and of collectives with replicas),
  /// causes first. Each instruction starts when the one before it ends; the first has no cause in the step. An
  /// instruction that waited in a sum comes after the same instruction on the shard that came last; from when the
  /// shards met, the time is that of the instruction that waited.
  std::vector<Occurrence> criticalPath(int64_t step) const;
  /// The chain of causes that ends with this instruction, causes first, back to the beginning of its step.
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
  /// The instruction whose end meets a wait.
  Occurrence meets(Occurrence waited, plan::Time when) const;

  const plan::Variant *variant = nullptr;
  int64_t stepCount = 0;
  bool measured = false; // times are of a real run, in which an instruction starts a little after what it waited for
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
  std::map<int32_t, std::vector<Member>> collectives; // by group; -1: of all processes
  // If ends start in the order of issue; else empty:
  std::vector<std::vector<std::pair<uint32_t, int64_t>>> ends; // of a step, by place: queue and index
  std::vector<std::vector<std::vector<int64_t>>> endAt;        // place, queue, index → place in `ends`
};

} // namespace pipec::simulate
