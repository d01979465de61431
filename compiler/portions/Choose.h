// Who works what: the policies by which a group's units are given to its shards.
//
// | policy  | owned      | worked     | kept                                                       |
// |---------|------------|------------|------------------------------------------------------------|
// | even    | equal      | owned      | all (Megatron-LM)                                          |
// | auto    | least time | owned      | all; with `most` at least ceil(units x (1 - most))          |
// | migrate | equal      | least time | all                                                        |
// | resize  | equal      | owned      | ceil(worked x (1 - gamma)) (ZERO-resizing)                  |
// | semi    | equal      | least time | `part` of what migrate moves stays, left out (SEMI-migration) |
#pragma once

#include "compiler/portions/Model.h"

#include <memory>
#include <optional>

namespace pipec::portions {

enum class Policy : uint8_t { Even, Auto, Migrate, Resize, Semi };

/// What is measured against for gamma: the shard that computes least, or the mean.
enum class Reference : uint8_t { Least, Mean };

struct Balance {
  Policy policy = Policy::Auto;
  /// Millionths. auto: at most this part of a split's units is left out; 0: none.
  int64_t most = 0;
  /// Millionths. resize: this part of its units a shard of a factor above 1 leaves out; absent: what brings its own
  /// time of a step down to the reference, (own - reference) / (own in splits), at equal portions.
  std::optional<int64_t> gamma = std::nullopt;
  Reference reference = Reference::Least;
  int64_t part = 500'000; // millionths; semi
  bool operator==(const Balance &) const = default;
};

/// No portions fit into memory.
struct Shortage {
  int32_t shard = 0; // whose need is the most over the limit
  Bytes least = 0;   // the least limit that would do; of all portions where they are few, else of those tried
};

struct Chosen {
  Portions portions;
  Time time = 0; // stepOf them
  /// No portions of the kind take less: each unit worked where it is owned (even, auto, resize), or owned equally
  /// (migrate, semi); as many units of each split kept; memory is considered where that is easily done. Equal to
  /// `time`: they are proven to be the best.
  Time lower = 0;
  std::optional<Shortage> shortage; // then the portions are those that need least, or the policy's only ones
};

/// Chooses, and remembers what it has solved: ranks with equal stages and equal factors cost one choice.
class Chooser {
public:
  /// `work` bounds each search (Solve.h), twenty times that where it has one split, so that the same group always gets
  /// the same portions.
  explicit Chooser(int64_t work = 200'000);
  Chooser(const Chooser &) = delete;
  Chooser &operator=(const Chooser &) = delete;
  ~Chooser();

  /// Never fails; a shortage is for the caller to say. auto and migrate minimize stepOf, exactly wherever `lower` says
  /// so: at every size tried where no maximum over the shards has two splits in it (fused backwards, no optimizer
  /// times, memory that does not bind), and nearly always where units are few.
  Chosen choose(const Group &group, const Balance &balance);

  /// The least time of one such layer and microbatch on a group's shards, all passes together, without optimizer and
  /// memory; of the group it takes factors, link, sequence and backward. For cuts, which ask it thousands of times.
  Time layerTime(const Group &group, const Layer &layer, bool recomputed);

private:
  struct Memory;
  std::unique_ptr<Memory> memory;
};

} // namespace pipec::portions
