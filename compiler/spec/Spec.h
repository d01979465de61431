// What a spec says (design, section 3), resolved: integers in picoseconds, bytes and bytes per second, and the place in
// the YAML of everything that a later step may find wrong. Neither YAML nor LLVM is seen from here.
#pragma once

#include "compiler/schedule/model/LocalBatch.h"
#include "runtime/plan/Figures.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pipec::spec {

using plan::Figure;

/// A place, 1-based. `source` indexes Spec::sources: 0 is the file, the others are what --set laid over it.
struct Mark {
  int line = 1;
  int column = 1;
  int source = 0;
};

template <typename T> struct Marked {
  T value{};
  Mark mark;
};

/// A cost or a size of each stage: one for all of them, or a list. Only after setStages (Stages.h) has a list surely an
/// entry for each stage; before it, what `layers` add up to has no values.
struct PerStage {
  std::vector<int64_t> values = std::vector<int64_t>(1);
  std::vector<Mark> marks = std::vector<Mark>(1); // of each entry
  Mark mark;                                      // of the value as a whole
  bool list = false;

  int64_t operator[](size_t stage) const { return values[list ? stage : 0]; }
  const Mark &markOf(size_t stage) const { return marks[list ? stage : 0]; }
};

/// The figures of all stages. A figure that is not given has the value 0 for each stage.
class StageFigures {
public:
  bool has(plan::Figure figure) const { return values[size_t(figure)].has_value(); }
  const PerStage &operator[](plan::Figure figure) const {
    static const PerStage none;
    return has(figure) ? *values[size_t(figure)] : none;
  }
  /// Gives the figure, if it is not given yet, and returns its values to change them.
  PerStage &set(plan::Figure figure) {
    std::optional<PerStage> &value = values[size_t(figure)];
    return value ? *value : value.emplace();
  }
  void reset(plan::Figure figure) { values[size_t(figure)].reset(); }

private:
  std::array<std::optional<PerStage>, plan::kFigures> values;
};

enum class PlacementKind : uint8_t { Loop, V, Bidirectional, List };

struct Placement {
  PlacementKind kind = PlacementKind::Loop;
  std::vector<std::vector<int32_t>> stages; // List: of each rank; every stage stands on exactly one rank
  Mark mark;
};

/// One directed pair of ranks. Bandwidth in bytes per second; 0: unlimited.
struct Link {
  int64_t latency = 0;
  int64_t bandwidth = 0;
};

struct LinkException {
  int32_t from = 0;
  int32_t to = 0;
  Link link; // what the exception leaves out is the default link's
  Mark mark;
};

/// A parameter of the schedule as it was written: one scalar, or a list of scalars.
struct Parameter {
  std::vector<std::string> values;
  std::vector<Mark> marks; // of each value
  Mark mark;
  bool list = false;
};

/// As written: which names and parameters exist, the schedule catalogue knows.
struct Schedule {
  std::string name;
  Mark mark;
  std::map<std::string, Parameter> parameters;
};

/// Bytes by local batch, the samples of a rank that runs a layer.
struct BySample {
  int64_t fixed = 0;
  int64_t perSample = 0;
  bool operator==(const BySample &) const = default;
};

/// What of a layer depends on its local batch, as written; its plain costs and sizes are those of a microbatch.
struct LayerBySamples {
  schedule::TimesBySamples forward, backward; // empty: not given by samples
  BySample boundary, activation, weightContext;
};

/// A part of a layer that the shards of a rank share; costs and sizes of all its units.
struct Split {
  plan::Figures figures;
  std::string name;
  int64_t units = 1;
  int64_t sum = 0; // bytes
  Mark mark;
};

/// An entry of `layers`: `count` layers, each of these costs and sizes, its splits' among them.
struct Layer {
  plan::Figures figures; // its splits' among them; no boundary where `tensors` gives it
  int64_t count = 1;
  std::vector<int64_t> tensors; // of its gradients, bytes; one of all where the spec has no list
  LayerBySamples bySamples;
  plan::Figures own;         // beside its splits
  std::vector<Split> splits; // in the order of the forward
  Mark mark;
};

/// The layers from which setStages adds up each stage's costs and sizes.
struct Layers {
  std::vector<Layer> entries;
  std::optional<Marked<std::vector<int64_t>>> cut; // layers of each stage; absent: equally many
  bool choosesCut = false; // `cut: auto`; `cut` is what has been chosen, if anything: until then as equal as can be
  Mark cutMark;
  StageFigures beside; // those of `tensors` and `costs`, as written
  Mark mark;

  int64_t count() const { // entries and counts are few enough for no overflow
    int64_t all = 0;
    for (const Layer &each : entries)
      all += each.count;
    return all;
  }
};

/// A weight that several layers hold.
struct SharedWeight {
  std::vector<int32_t> layers; // ascending; without layers, stages
  std::vector<Mark> marks;     // of each of them
  int64_t gradients = 0;       // bytes
  Mark mark;
};

/// Which stages run their forward again before the backward, in place of keeping what it makes.
struct Recompute {
  bool all = false;     // of them
  bool chooses = false; // `auto`
  bool chosen = false;  // and `stages` is the choice; until then none is
  Marked<std::vector<int64_t>> stages;
  std::vector<Mark> marks; // of each of a list

  bool isOpen() const { return chooses && !chosen; }
  void choose(std::vector<int64_t> all) {
    stages.value = std::move(all);
    chosen = true;
  }
  bool isSpelledOut() const { return all || !marks.empty(); }
  bool has(int64_t stage) const {
    for (const int64_t each : stages.value)
      if (each == stage)
        return true;
    return all;
  }
};

/// What a collective takes by measurement. Bandwidth in bytes of the whole tensor per second; 0: unlimited.
struct CollectiveCost {
  int64_t start = 0;
  int64_t bandwidth = 0;
};

enum class Collective : uint8_t { Auto, AllReduce, Decoupled };
enum class Shard : uint8_t { Optimizer, None };

/// Replicas of the pipeline. What is not given the policy fixes, or else it is open.
struct DataParallel {
  Mark mark;
  Marked<int32_t> degree{1, {}};
  Link link;                                                         // from one replica to the next, or
  std::optional<CollectiveCost> allReduce, reduceScatter, allGather; // measured; halves that are not given: absent
  bool sharesPort = false;
  Marked<std::string> policy{"auto", {}};
  std::map<std::string, Marked<int64_t>> parameters; // of the policy, bytes or picoseconds; kAutomatic: best
  std::optional<Marked<Collective>> collective;
  std::optional<Marked<int64_t>> fusion; // bytes below which layers are joined; 0: none, kAutomatic: auto
  std::optional<Marked<Shard>> shard;
  int64_t round = 1'000'000'000;

  static constexpr int64_t kAutomatic = -1;
};

/// A shard whose own work takes longer.
struct SlowShard {
  int32_t rank = 0;
  int32_t shard = 0;
  int64_t factor = 0; // millionths
  Mark mark;
};

enum class BalanceKind : uint8_t { Auto, Even, Migrate, Resize, Semi }; // as the key's choices
enum class Reference : uint8_t { Least, Mean };
enum class Impute : uint8_t { Zero, Average, Same };
enum class KeepFirst : uint8_t { Change, Random, First };

/// Which shard has which units. Parts in millionths.
struct Balance {
  Marked<BalanceKind> kind;
  int64_t most = 0;             // of auto
  std::optional<int64_t> gamma; // of resize; absent: auto
  Reference reference = Reference::Least;
  Impute impute = Impute::Zero;
  KeepFirst priority = KeepFirst::Change;
  int64_t part = 500'000; // of semi
};

/// Shards of each rank.
struct TensorParallel {
  Mark mark;
  Marked<int32_t> shards{1, {}};
  Link link; // from one shard of a rank to the next
  bool sequence = false;
  std::vector<SlowShard> slow;
  Balance balance;
};

/// Background work of one process, in iterations of so many atoms.
struct Job {
  std::string name;
  Mark mark;
  int64_t samples = 1, atoms = 1;            // of an iteration
  Marked<int64_t> atom;                      // ps
  int64_t overhead = 0;                      // ps, of a piece
  Marked<int64_t> memory;                    // bytes, while it runs on a rank
  std::optional<std::vector<int32_t>> ranks; // ascending; absent: all
  std::optional<Marked<int64_t>> piece;      // atoms of a piece; absent: what serves best
  std::string provider;                      // as JSON; empty: none

  /// What its shortest piece takes, overhead included: ps, at most 2 x 10^18.
  int64_t shortest() const { return (piece ? piece->value : 1) * atom.value + overhead; }
};

/// Jobs that run while ranks wait.
struct Jobs {
  Mark mark;                            // the map
  Marked<int64_t> slowDown{10'000, {}}; // millionths of a step
  bool fillsCollectives = false;        // whether pieces may run beside a collective of their rank
  std::vector<Job> work;                // a rank runs the first that may run on it and fits its memory; empty: none
};

enum class Planner : uint8_t { Exact, Paper, Given };
enum class Sync : uint8_t { Overlap, End }; // as the keys' choices
enum class WidthChoices : uint8_t { Powers, All };

/// `schedule: burst`: each layer on as many ranks as pay. The batch is Spec::microbatchSize, all of it one microbatch.
struct Burst {
  Planner planner = Planner::Exact;
  Mark mark;                      // of the parameter that says which planner; else of the schedule
  int64_t foreground = 1'000'000; // Exact: least speed, in millionths of that with every layer on all ranks
  int64_t amplification = 0;      // Paper: limit, millionths
  std::vector<int32_t> widths;    // Given: one for all layers, or one for each of Layers::count()
  Sync sync = Sync::Overlap;
  WidthChoices choices = WidthChoices::Powers;
};

/// What a run has measured: links in the place of what the spec says of them, and what the operations of a rank take,
/// in percent of its costs. Orders are made for it; the spec itself says nothing of it.
struct Measured {
  std::map<std::pair<int32_t, int32_t>, Link> links; // (from, to)
  std::map<int32_t, int64_t> percent;                // of ranks; 100 where it is not there

  int64_t percentOf(int32_t rank) const {
    const auto found = percent.find(rank);
    return found == percent.end() ? 100 : found->second;
  }
};

/// How the ranks of a group sum up: 2(n - 1) latencies, or 2 ceil(log2 n).
enum class GroupSum : uint8_t { Ring, Tree };
enum class Backward : uint8_t { Fused, Split, Mixed };
enum class Weights : uint8_t { Ordered, Fill };
enum class Communicator : uint8_t { PerEdge, PerPair, LaunchOrder, Shared };
enum class Rings : uint8_t { Predicted, Any };

struct Spec {
  std::string path;
  std::vector<std::string> sources; // names for Mark::source
  std::string variantName;          // of its own among all variants
  bool ofVariants = false;          // it is one of a spec's variants
  uint64_t hash = 0;                // FNV-1a 64 of the file's bytes and of every --set

  Mark pipeline; // the map
  Marked<int32_t> ranks;
  std::optional<Marked<int32_t>> stagesPerRank;
  std::optional<Placement> placement;
  int32_t stages = 0; // of the placement list, else ranks × stages_per_rank, which is 1 (placement v: 2) if absent
  bool stagesGiven = false; // by the placement list or stages_per_rank; otherwise the schedule may have another number
  Marked<int32_t> microbatches;
  Marked<int32_t> slices{1, {}};                 // of each microbatch
  std::optional<Marked<int32_t>> microbatchSize; // in samples; given with a batch

  Mark costs;
  /// Of the stages. backward_input and backward_weight: both or neither; backward in place of the two or beside them.
  /// No overlapped: F and a backward never run together. No recompute: what the forward takes. No boundary_gradient:
  /// boundary. No recompute_input: the boundary of the stage before. optimizer_state is part of static.
  StageFigures figures;
  Marked<bool> globalNorm; // the optimizer begins with an all-reduce of 8 bytes
  Link link;
  std::vector<LinkException> links;
  Marked<GroupSum> collective;      // of burst
  std::optional<Measured> measured; // absent: the network and the costs are as the spec has them

  std::optional<Layers> layers;     // in place of the costs and sizes of a stage that they add up to
  std::vector<SharedWeight> shared; // in the order in which ranks sum their gradients

  Marked<int64_t> workspace;         // once a rank
  Marked<int64_t> memoryLimit;       // of the rank that may hold most; 0: none
  std::vector<int64_t> memoryLimits; // of each rank, where a list gives them; empty: memoryLimit is each rank's

  Schedule schedule;
  std::optional<Burst> burst;                   // where the schedule is of that name
  std::optional<Marked<Backward>> backwardMode; // absent: the schedule's own
  Recompute recomputed;
  Marked<Weights> weights;
  Marked<Communicator> communicator;
  Marked<Rings> rings; // of a spec's variants any, unless given
  DataParallel dataParallel;
  TensorParallel tensorParallel;
  Jobs jobs;
  Marked<std::string> provider; // as JSON; empty: none

  /// The figures of the stages by name: spec[Figure::Forward][stage].
  const PerStage &operator[](plan::Figure figure) const { return figures[figure]; }
  bool has(plan::Figure figure) const { return figures.has(figure); }

  bool isBurst() const { return schedule.name == "burst"; }
};

} // namespace pipec::spec
