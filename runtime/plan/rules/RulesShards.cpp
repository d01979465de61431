// Rules P51 to P53: the shards of ranks, what is each one's own, and the units of splits that it owns and works on.
#include "runtime/plan/Limits.h"
#include "runtime/plan/Units.h"
#include "runtime/plan/rules/Rules.h"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>

namespace pipec::plan::rules {
namespace {

constexpr size_t kBalance = 1 << 16; // bytes

/// Why an operation cannot be of shards, or null.
const char *wrongKind(const Operation &o) {
  if (plan::isHeader(o.kind))
    return "overlapped with another";
  if (isCollective(o.kind) && o.group != -1)
    return "a collective of some of the processes";
  if (meets(o) && !isBusy(o.kind))
    return "of a group of shards, which only passes and updates are";
  return nullptr;
}

} // namespace

Status shardsSupported(const Variant &variant) {
  const auto error = [](const std::string &what) { return Status::input("P53: " + what); };
  if (variant.own.empty())
    return variant.portions.empty() && variant.balance.empty() ? Status{}
                                                               : error("there are portions of shards, but no shards");
  if (variant.copies != 1 || !variant.layers.empty() || variant.sharedPort)
    return error("ranks have shards, and copies of stages or replicas: not supported yet");
  for (const Program &program : variant.programs) {
    for (const Queue &queue : program.queues)
      if (queue.kind == QueueKind::Device && queue.priority != Priority::Compute)
        return error(fmt::format("rank {} has shards and a second device queue: not supported yet", program.rank));
    for (const Operation &o : program.operations)
      if (const char *wrong = isKnown(o.kind) ? wrongKind(o) : nullptr)
        return error(fmt::format("rank {} has shards, and an operation ({} stage {}) that is {}: not supported yet",
                                 program.rank, name(o.kind), o.stage, wrong));
  }
  return {};
}

namespace {

/// Why a row is wrong, or null.
const char *wrongRow(const Operation &o, const OwnCost &own) {
  for (const Time time : {own.before, own.between, own.after})
    if (time < 0 || time > limits::kTime)
      return "a time out of range";
  for (const Bytes bytes : {own.activation, own.context})
    if (bytes < 0 || bytes > limits::kBytes)
      return "a size out of range";
  if (!isBusy(o.kind) && own != OwnCost{})
    return "times or sizes, which only passes and updates have";
  const unsigned memory = rowOf(o.kind).holds | rowOf(o.kind).frees;
  if ((own.activation != 0 && (memory & kActivation) == 0) || (own.context != 0 && (memory & kContexts) == 0))
    return "an activation or a context, which its kind has not";
  if (!meets(o) && (own.between != 0 || own.after != 0))
    return "times between and behind sums, of which it has none";
  if (meets(o) && own.between > o.cost)
    return "a longer time between its sums than it takes from the first to the last";
  return nullptr;
}

} // namespace

Status ownRows(const Variant &variant) {
  const int32_t shards = variant.shards();
  for (size_t place = 0; place != variant.own.size(); ++place) {
    const Own &own = variant.own[place];
    const Program &program = variant.programOf(place);
    const auto error = [&](const std::string &what) {
      return Status::input(fmt::format("P52: rank {} shard {} has {}", program.rank, place % size_t(shards), what));
    };
    if (own.factor < 1 || own.factor > limits::kTime)
      return error(fmt::format("a factor of {} millionths, expected 1 to {}", own.factor, limits::kTime));
    if (own.operations.size() != program.operations.size())
      return error(
          fmt::format("{} rows of operations, its program has {}", own.operations.size(), program.operations.size()));
    for (const Bytes bytes : {own.staticBytes, own.workspace})
      if (bytes < 0 || bytes > limits::kBytes)
        return error(fmt::format("{} bytes of what is static or workspace, expected 0 to {}", bytes, limits::kBytes));
    for (size_t i = 0; i != own.operations.size(); ++i) {
      const Operation &o = program.operations[i];
      const char *wrong = wrongRow(o, own.operations[i]);
      if (isBusy(o.kind) && !meets(o) && o.cost != 0)
        wrong = "no sums, and a time from the first to the last";
      if (wrong)
        return error(fmt::format("of operation {} ({} stage {}) {}", i, name(o.kind), o.stage, wrong));
    }
  }
  return {};
}

namespace {

/// Why ranges of units are none, or null.
const char *wrongRanges(const std::vector<Range> &ranges, int64_t units) {
  int64_t end = 0;
  for (const Range &each : ranges) {
    if (each.first < end)
      return "units that are not ascending";
    if (each.count < 1 || each.first > units || each.count > units - each.first)
      return "units that there are not";
    end = each.first + each.count;
  }
  return nullptr;
}

/// What all portions of a split of some layers have in common.
auto splitOf(const Portion &portion) {
  return std::tie(portion.stage, portion.firstLayer, portion.layers, portion.split, portion.units);
}

std::string splitText(const Portion &portion) {
  return fmt::format("split {} of stage {} layers {} to {}", pipec::units::quoted(portion.split), portion.stage,
                     portion.firstLayer, int64_t(portion.firstLayer) + portion.layers - 1);
}

/// Why a portion's own numbers are wrong, or empty. How many layers a stage has is known where there is a cut.
std::string wrongPortion(const Variant &variant, const Portion &portion) {
  if (portion.stage < 0 || portion.stage >= variant.stages)
    return fmt::format("of stage {}, the plan has 0 to {}", portion.stage, variant.stages - 1);
  const int64_t layers = variant.cut.empty() ? limits::kLayers : variant.cut[size_t(portion.stage)];
  if (portion.firstLayer < 0 || portion.layers < 1 || portion.firstLayer >= layers ||
      portion.layers > layers - portion.firstLayer)
    return fmt::format("of layers {} to {} of a stage of {}", portion.firstLayer,
                       int64_t(portion.firstLayer) + portion.layers - 1, layers);
  if (portion.split.empty())
    return "of a split without a name";
  if (portion.units < 1 || portion.units > limits::kBytes)
    return fmt::format("of a split of {} units, expected 1 to {}", portion.units, limits::kBytes);
  for (const std::vector<Range> *ranges : {&portion.owned, &portion.worked})
    if (const char *wrong = wrongRanges(*ranges, portion.units))
      return fmt::format("with {}", wrong);
  return {};
}

/// One row for each split of each run of layers, by stage, split and layers.
std::vector<const Portion *> splitsOf(const Variant &variant) {
  std::vector<const Portion *> splits;
  for (const Portion &each : variant.portions)
    if (each.shard == 0)
      splits.push_back(&each);
  std::sort(splits.begin(), splits.end(), [](const Portion *a, const Portion *b) {
    return std::tie(a->stage, a->split, a->firstLayer) < std::tie(b->stage, b->split, b->firstLayer);
  });
  return splits;
}

} // namespace

Status portions(const Variant &variant) {
  const auto error = [](size_t row, const std::string &what) {
    return Status::input(fmt::format("P52: portion {} is {}", row, what));
  };
  if (variant.balance.size() > kBalance)
    return Status::input(fmt::format("P52: what chose the portions takes {} bytes, over the limit of {}",
                                     variant.balance.size(), kBalance));
  const auto shards = size_t(variant.shards());
  for (size_t i = 0; i != variant.portions.size(); ++i) {
    const Portion &portion = variant.portions[i];
    if (std::string wrong = wrongPortion(variant, portion); !wrong.empty())
      return error(i, wrong);
    const Portion &first = variant.portions[i - i % shards];
    if (portion.shard != int64_t(i % shards) || splitOf(portion) != splitOf(first))
      return error(i, fmt::format("shard {}'s of {}, expected shard {}'s of {}", portion.shard, splitText(portion),
                                  i % shards, splitText(first)));
    if (i >= shards && std::tie(portion.stage, portion.firstLayer) <
                           std::tie(variant.portions[i - shards].stage, variant.portions[i - shards].firstLayer))
      return error(i, fmt::format("of {}, after {}", splitText(portion), splitText(variant.portions[i - shards])));
  }
  if (variant.portions.size() % shards != 0)
    return Status::input(fmt::format("P52: the last split has portions of {} shards, expected {}",
                                     variant.portions.size() % shards, shards));
  const std::vector<const Portion *> splits = splitsOf(variant);
  for (size_t i = 1; i < splits.size(); ++i)
    if (const Portion &one = *splits[i - 1], &other = *splits[i];
        one.stage == other.stage && one.split == other.split && other.firstLayer < one.firstLayer + one.layers)
      return Status::input(fmt::format("P52: {} is there twice", splitText(other)));
  return {};
}

namespace {

/// The first unit that not exactly one of the shards has, and what is wrong with it; empty: there is none.
std::string wrongUnit(const Portion *portions, size_t shards, std::vector<Range> Portion::*ranges, const char *done) {
  struct Piece {
    Range range;
    int32_t shard;
  };
  std::vector<Piece> pieces;
  for (size_t shard = 0; shard != shards; ++shard)
    for (const Range &each : portions[shard].*ranges)
      pieces.push_back({each, int32_t(shard)});
  std::sort(pieces.begin(), pieces.end(), [](const Piece &a, const Piece &b) {
    return std::tie(a.range.first, a.shard) < std::tie(b.range.first, b.shard);
  });
  int64_t end = 0;
  int32_t before = 0;
  const auto nobody = [&] { return fmt::format("unit {} of {} is {} by no shard", end, splitText(*portions), done); };
  for (const Piece &each : pieces) {
    if (each.range.first > end)
      return nobody();
    if (each.range.first < end)
      return fmt::format("unit {} of {} is {} by shard {} and shard {}", each.range.first, splitText(*portions), done,
                         before, each.shard);
    end = each.range.first + each.range.count;
    before = each.shard;
  }
  return end != portions->units ? nobody() : std::string();
}

} // namespace

Status unitsOnce(const Variant &variant) {
  const auto shards = size_t(variant.shards());
  for (size_t i = 0; i != variant.portions.size(); i += shards) {
    const Portion *portions = &variant.portions[i];
    for (const auto &[ranges, done] : {std::pair(&Portion::owned, "owned"), std::pair(&Portion::worked, "worked on")})
      if (const std::string wrong = wrongUnit(portions, shards, ranges, done); !wrong.empty())
        return Status::check("P51: " + wrong);
    for (size_t shard = 0; shard != shards; ++shard)
      if (const int64_t kept = portions[shard].kept, worked = unitsIn(portions[shard].worked);
          kept < 0 || kept > worked)
        return Status::check(fmt::format("P51: shard {} keeps {} units of {}, expected 0 to {}, which it works on",
                                         shard, kept, splitText(*portions), worked));
  }
  return {};
}

namespace {

/// All splits, each with its layers in as few runs as there can be.
auto runsOf(const Variant &variant) {
  std::vector<std::tuple<int32_t, std::string, int64_t, int64_t, int64_t>> runs; // stage, split, units, layers, end
  for (const Portion *each : splitsOf(variant)) {
    const int64_t end = int64_t(each->firstLayer) + each->layers;
    if (!runs.empty() &&
        std::tie(std::get<0>(runs.back()), std::get<1>(runs.back()), std::get<2>(runs.back())) ==
            std::tie(each->stage, each->split, each->units) &&
        std::get<4>(runs.back()) == each->firstLayer)
      std::get<4>(runs.back()) = end;
    else
      runs.emplace_back(each->stage, each->split, each->units, each->firstLayer, end);
  }
  return runs;
}

} // namespace

Status sameSplits(const Plan &plan) {
  if (plan.variants.size() == 1 || plan.shards() == 1)
    return {};
  const auto first = runsOf(plan.variants.front());
  for (size_t v = 1; v < plan.variants.size(); ++v)
    if (runsOf(plan.variants[v]) != first)
      return Status::check(fmt::format("P51: variant {} has other splits of layers than variant 0; all must agree", v));
  return {};
}

} // namespace pipec::plan::rules
