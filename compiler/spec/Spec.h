// The contents of a spec (design, section 3), resolved: integers in picoseconds, bytes and bytes per second, with the
// place in the YAML of everything that a later step may find wrong. Code that uses this file sees neither YAML nor
// LLVM.
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

/// A place, 1-based. `source` is an index of Spec::sources: 0 is the file, the others are the --set overrides.
struct Mark {
  int line = 1;
  int column = 1;
  int source = 0;
};

template <typename T> struct Marked {
  T value{};
  Mark mark;
};

/// A cost or a size of each stage: one value for all stages, or a list. Only after setStages (Stages.h) is a list sure
/// to have an entry for each stage; before, sums of `layers` have no values.
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
  std::vector<std::vector<int32_t>> stages; // List: stages by rank; every stage is on exactly one rank
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
  Link link; // values that the exception does not give come from the default link
  Mark mark;
};

/// A parameter of the schedule as it was written: one scalar, or a list of scalars.
struct Parameter {
  std::vector<std::string> values;
  std::vector<Mark> marks; // of each value
  Mark mark;
  bool list = false;
};

/// The schedule as written; the schedule catalogue knows which names and parameters exist.
struct Schedule {
  std::string name;
  Mark mark;
  std::map<std::string, Parameter> parameters;
};

/// Bytes as a function of the local batch: fixed + perSample × samples of a rank that runs the layer.
struct BySample {
  int64_t fixed = 0;
  int64_t perSample = 0;
  bool operator==(const BySample &) const = default;
};

/// The costs and sizes of a layer that depend on its local batch, as written; its plain costs and sizes are those of a
/// microbatch.
struct LayerBySamples {
  schedule::TimesBySamples forward, backward; // empty: not given by samples
  BySample boundary, activation, weightContext;
};

/// A part of a layer that the shards of a rank divide; costs and sizes are those of all its units.
struct Split {
  plan::Figures figures;
  std::string name;
  int64_t units = 1;
  int64_t sum = 0; // bytes
  Mark mark;
};

/// An entry of `layers`: `count` layers with these costs and sizes each, splits included.
struct Layer {
  plan::Figures figures; // splits included; no boundary if `tensors` gives the boundary
  int64_t count = 1;
  std::vector<int64_t> tensors; // bytes of its gradients by tensor; a single sum if the spec has no list
  LayerBySamples bySamples;
  plan::Figures own;         // without its splits
  std::vector<Split> splits; // in the order of the forward
  Mark mark;
};

/// The layers from which setStages adds up each stage's costs and sizes.
struct Layers {
  std::vector<Layer> entries;
  std::optional<Marked<std::vector<int64_t>>> cut; // layers of each stage; absent: as even as possible
  bool choosesCut = false; // `cut: auto`; `cut` is the choice, if made; until then the cut is as even as possible
  Mark cutMark;
  StageFigures beside; // figures in `tensors` and `costs`, as written
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
  std::vector<int32_t> layers; // ascending; stages if the spec has no layers
  std::vector<Mark> marks;     // by entry of `layers`
  int64_t gradients = 0;       // bytes
  Mark mark;
};

/// The stages that are recomputed: they run their forward again before the backward, and do not keep its activations.
struct Recompute {
  bool all = false;     // all stages
  bool chooses = false; // `auto`
  bool chosen = false;  // `stages` is the choice; until then no stage is recomputed
  Marked<std::vector<int64_t>> stages;
  std::vector<Mark> marks; // by entry of a list

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

/// The measured time of a collective. Bandwidth in bytes of the whole tensor per second; 0: unlimited.
struct CollectiveCost {
  int64_t start = 0;
  int64_t bandwidth = 0;
};

enum class Collective : uint8_t { Auto, AllReduce, Decoupled };
enum class Shard : uint8_t { Optimizer, None };

/// Replicas of the pipeline. The policy determines values that are not given, or leaves them open.
struct DataParallel {
  Mark mark;
  Marked<int32_t> degree{1, {}};
  Link link; // link from one replica to the next
  /// Measured times, used in place of `link`; absent if not given.
  std::optional<CollectiveCost> allReduce, reduceScatter, allGather;
  bool sharesPort = false;
  Marked<std::string> policy{"auto", {}};
  /// Parameters of the policy, bytes or picoseconds; kAutomatic: best.
  std::map<std::string, Marked<int64_t>> parameters;
  std::optional<Marked<Collective>> collective;
  std::optional<Marked<int64_t>> fusion; // layers with fewer bytes are joined; 0: none, kAutomatic: auto
  std::optional<Marked<Shard>> shard;
  int64_t round = 1'000'000'000;

  static constexpr int64_t kAutomatic = -1;
};

/// A shard on which work takes longer.
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

/// How units are distributed over shards. Parts are in millionths.
struct Balance {
  Marked<BalanceKind> kind;
  int64_t most = 0;             // for auto
  std::optional<int64_t> gamma; // for resize; absent: auto
  Reference reference = Reference::Least;
  Impute impute = Impute::Zero;
  KeepFirst priority = KeepFirst::Change;
  int64_t part = 500'000; // for semi
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

/// Background work of one process, in iterations of `atoms` atoms.
struct Job {
  std::string name;
  Mark mark;
  int64_t samples = 1, atoms = 1;            // per iteration
  Marked<int64_t> atom;                      // ps
  int64_t overhead = 0;                      // picoseconds per piece
  Marked<int64_t> memory;                    // bytes, while it runs on a rank
  std::optional<std::vector<int32_t>> ranks; // ascending; absent: all
  std::optional<Marked<int64_t>> piece;      // atoms per piece; absent: pipec chooses
  std::string provider;                      // as JSON; empty: none

  /// The time of its shortest piece, overhead included: at most 2 x 10^18 picoseconds.
  int64_t shortest() const { return (piece ? piece->value : 1) * atom.value + overhead; }
};

/// Jobs that run while ranks wait.
struct Jobs {
  Mark mark;                            // the map
  Marked<int64_t> slowDown{10'000, {}}; // millionths of a step
  bool fillsCollectives = false;        // whether pieces may run beside a collective of their rank
  /// A rank runs the first job that may run on it and fits its memory; empty: no jobs.
  std::vector<Job> work;
};

enum class Planner : uint8_t { Exact, Paper, Given };
enum class Sync : uint8_t { Overlap, End }; // as the keys' choices
enum class WidthChoices : uint8_t { Powers, All };

/// `schedule: burst`: each layer runs on as many ranks as pay off. The batch is Spec::microbatchSize and is one
/// microbatch.
struct Burst {
  Planner planner = Planner::Exact;
  Mark mark;                      // place of the parameter that names the planner; else of the schedule
  int64_t foreground = 1'000'000; // Exact: least speed, in millionths of the speed with every layer on all ranks
  int64_t amplification = 0;      // Paper: limit, millionths
  std::vector<int32_t> widths;    // Given: one width for all layers, or one for each of Layers::count()
  Sync sync = Sync::Overlap;
  WidthChoices choices = WidthChoices::Powers;
};

/// Measurements of a run: links that replace those of the spec, and the time of a rank's operations in percent of its
/// costs. Orders are made for these values; the spec itself does not contain them.
struct Measured {
  std::map<std::pair<int32_t, int32_t>, Link> links; // (from, to)
  std::map<int32_t, int64_t> percent;                // by rank; 100 if absent

  int64_t percentOf(int32_t rank) const {
    const auto found = percent.find(rank);
    return found == percent.end() ? 100 : found->second;
  }
};

/// The latencies of an all-reduce in a group of n ranks: 2(n - 1), or 2 ceil(log2 n).
enum class GroupSum : uint8_t { Ring, Tree };
enum class Backward : uint8_t { Fused, Split, Mixed };
enum class Weights : uint8_t { Ordered, Fill };
enum class Communicator : uint8_t { PerEdge, PerPair, LaunchOrder, Shared };
enum class Rings : uint8_t { Predicted, Any };

struct Spec {
  std::string path;
  std::vector<std::string> sources; // names for Mark::source
  std::string variantName;          // unique among all variants
  bool ofVariants = false;          // whether this is one of a spec's variants
  uint64_t hash = 0;                // FNV-1a 64 of the file's bytes and of every --set

  Mark pipeline; // the map
  Marked<int32_t> ranks;
  std::optional<Marked<int32_t>> stagesPerRank;
  std::optional<Placement> placement;
  int32_t stages = 0; // from the placement list, else ranks × stages_per_rank, which is 1 (placement v: 2) if absent
  /// Given by the placement list or stages_per_rank; otherwise the schedule may change the number.
  bool stagesGiven = false;
  Marked<int32_t> microbatches;
  Marked<int32_t> slices{1, {}};                 // of each microbatch
  std::optional<Marked<int32_t>> microbatchSize; // in samples; present if the spec gives a batch

  Mark costs;
  /// The figures of the stages. backward_input and backward_weight: both or neither; backward replaces the two or comes
  /// in addition. No overlapped: F and a backward never run together. No recompute: as long as the forward. No
  /// boundary_gradient: as large as boundary. No recompute_input: the boundary of the stage before. optimizer_state is
  /// part of static.
  StageFigures figures;
  Marked<bool> globalNorm; // the optimizer begins with an all-reduce of 8 bytes
  Link link;
  std::vector<LinkException> links;
  Marked<GroupSum> collective;      // all-reduces of burst
  std::optional<Measured> measured; // absent: network and costs are those of the spec

  std::optional<Layers> layers;     // replaces the costs and sizes of stages, which are sums over layers
  std::vector<SharedWeight> shared; // in the order in which ranks sum their gradients

  Marked<int64_t> workspace;         // per rank
  Marked<int64_t> memoryLimit;       // limit of the rank that may hold most; 0: none
  std::vector<int64_t> memoryLimits; // by rank, if a list gives limits; empty: memoryLimit holds for each rank

  Schedule schedule;
  std::optional<Burst> burst;                   // present if the schedule is `burst`
  std::optional<Marked<Backward>> backwardMode; // absent: the schedule's default
  Recompute recomputed;
  Marked<Weights> weights;
  Marked<Communicator> communicator;
  Marked<Rings> rings; // for variants of a spec `any`, unless given
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
