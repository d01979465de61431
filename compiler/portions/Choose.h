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

/// The time that gamma aims at: that of the shard that computes least, or the mean of all shards.
enum class Reference : uint8_t { Least, Mean };

struct Balance {
  Policy policy = Policy::Auto;
  /// Millionths, for auto: the largest part of a split's units that may be left out; 0: none.
  int64_t most = 0;
  /// Millionths, for resize: the part of its units that a shard with a factor above 1 leaves out. Absent: the part that
  /// brings the shard's own time of a step, at equal portions, down to the reference: (own - reference) / (own in
  /// splits).
  std::optional<int64_t> gamma = std::nullopt;
  Reference reference = Reference::Least;
  int64_t part = 500'000; // millionths; semi
  bool operator==(const Balance &) const = default;
};

/// No portions fit into memory.
struct Shortage {
  int32_t shard = 0; // the shard that is furthest above the limit
  Bytes least = 0;   // the least sufficient limit, over all portions if they are few, else over those tried
};

struct Chosen {
  Portions portions;
  Time time = 0; // stepOf(portions), in picoseconds
  /// A lower bound of the time of all portions of the policy's kind that keep as many units of each split. Even, auto,
  /// resize: each unit worked where it is owned. Migrate, semi: units owned equally. The bound considers memory only
  /// where that is cheap. Equal to `time`: the portions are proven to be the best.
  Time lower = 0;
  std::optional<Shortage> shortage; // if present, `portions` need the least memory, or are the policy's only ones
};

/// Chooses portions, and remembers what it has solved: ranks with equal stages and equal factors cost one search.
class Chooser {
public:
  /// `work` limits each search (Solve.h); a search with one split may do twenty times as much. The limit counts
  /// operations, so the same group always gets the same portions.
  explicit Chooser(int64_t work = 200'000);
  Chooser(const Chooser &) = delete;
  Chooser &operator=(const Chooser &) = delete;
  ~Chooser();

  /// Never fails; the caller must report a shortage. auto and migrate minimize stepOf. The result is exact if `lower`
  /// equals `time`: at every size tried if no maximum over the shards has two splits in it (fused backwards, no
  /// optimizer times, memory that does not bind), and nearly always if units are few.
  Chosen choose(const Group &group, const Balance &balance);

  /// The least time of one layer and one microbatch on a group's shards, all passes together, without optimizer and
  /// memory limit. Uses the group's factors, link, sequence and backward. The search for cuts calls this thousands of
  /// times, so results are remembered.
  Time layerTime(const Group &group, const Layer &layer, bool recomputed);

private:
  struct Memory;
  std::unique_ptr<Memory> memory;
};

} // namespace pipec::portions
