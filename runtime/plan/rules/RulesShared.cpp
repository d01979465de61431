// Rules P7, P11 and P60, where they are about weights that layers of several ranks have in common.
#include "runtime/plan/Disassemble.h"
#include "runtime/plan/Layers.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Text.h"
#include "runtime/plan/rules/Rules.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <map>

namespace pipec::plan::rules {

/// Whether numbers are of 0 to `end`, each more than the one before.
static bool ascends(const std::vector<int32_t> &numbers, int32_t end) {
  for (size_t i = 0; i != numbers.size(); ++i)
    if (!within(numbers[i], i == 0 ? 0 : int64_t(numbers[i - 1]) + 1, end - 1))
      return false;
  return true;
}

Status sharedSizes(const Variant &variant) {
  const auto error = [](const std::string &what) { return Status::input("P7: " + what); };
  if (variant.shared.empty())
    return {};
  if (variant.copies != 1 || variant.sharesStages() || !variant.own.empty() || !variant.jobs.empty())
    return error("weights that several layers hold, and copies of stages, stages on several ranks, shards or jobs: not "
                 "supported yet");
  if (int64_t(variant.shared.size()) > limits::kLayers)
    return error(
        fmt::format("{} weights that several layers hold, expected 0 to {}", variant.shared.size(), limits::kLayers));
  const int32_t layers = variant.cut.empty() ? std::numeric_limits<int32_t>::max() : layersOf(variant);
  __int128 bytes = 0, held = 0;
  for (size_t w = 0; w != variant.shared.size(); ++w) {
    const SharedWeight &weight = variant.shared[w];
    held += weight.layers.size();
    if (weight.layers.size() < 2 || held > limits::kLayers)
      return error(fmt::format("shared weight {} is in {} layers, expected 2 or more, and at most {} of all weights", w,
                               weight.layers.size(), limits::kLayers));
    if (!ascends(weight.layers, layers))
      return error(fmt::format("shared weight {} is in layers {}, expected such as the model has, ascending", w,
                               fmt::join(weight.layers, " ")));
    if (weight.stages.empty() || !ascends(weight.stages, variant.stages))
      return error(fmt::format("shared weight {} is in stages {}, expected one or more of 0 to {}, ascending", w,
                               fmt::join(weight.stages, " "), variant.stages - 1));
    for (const int32_t layer : weight.layers)
      if (!variant.cut.empty() && std::none_of(weight.stages.begin(), weight.stages.end(),
                                               [&](int32_t stage) { return layersOf(variant, stage).has(layer); }))
        return error(fmt::format("shared weight {} is in stages {}, of which none has layer {}", w,
                                 fmt::join(weight.stages, " "), layer));
    if (weight.gradients < 1 || (bytes += weight.gradients) > limits::kBytes)
      return error(fmt::format("shared weight {} has {} bytes of gradients, expected 1 to {} of all weights", w,
                               weight.gradients, limits::kBytes));
  }
  return {};
}

std::string wrongShared(const Operation &o, const Variant &variant, const Program &program) {
  if (o.kind != Kind::AllReduce)
    return "gradients of a shared weight, which only all-reduces carry";
  if (o.firstLayer < 0 || size_t(o.firstLayer) >= variant.shared.size() || o.layers != 1)
    return fmt::format("a shared weight that the variant has not, which has {}", variant.shared.size());
  const auto at = size_t(o.firstLayer);
  Bytes before = 0;
  for (size_t w = 0; w != at; ++w)
    before += variant.shared[w].gradients;
  if (o.begin != before || o.end - o.begin != variant.shared[at].gradients || o.bytes != o.end - o.begin)
    return "a byte range that is not all of its shared weight";
  const std::vector<int32_t> stages = variant.shared[at].stages;
  const auto own = std::find_if(stages.begin(), stages.end(), [&](int32_t stage) {
    return std::binary_search(program.stages.begin(), program.stages.end(), stage);
  });
  if (own == stages.end() || *own != o.stage)
    return "another stage than the rank's first that holds the weight";
  return {};
}

namespace {

/// The sums of shared weights of a rank, by weight: its operation, and how often it is executed.
struct Sum {
  const Operation *operation = nullptr;
  int64_t count = 0;
};
std::vector<Sum> sumsOf(const Variant &variant, const Program &program, const Facts &facts) {
  std::vector<Sum> sums(variant.shared.size());
  for (size_t i = 0; i != program.operations.size(); ++i)
    if (const Operation &o = program.operations[i]; isOfShared(o) && facts.operation[i] > 0)
      sums[size_t(o.firstLayer)] = {&o, sums[size_t(o.firstLayer)].count + facts.operation[i]};
  return sums;
}

Status inOrder(const Variant &variant, const Program &program) {
  int32_t last = -1;
  for (const Instruction &instruction : program.instructions)
    if (const Operation &o = program.operations[instruction.operation]; isOfShared(o)) {
      if (o.firstLayer < last)
        return Status::check(fmt::format("P60: rank {} sums shared weight {} behind {}, expected the order of the "
                                         "variant's {} weights",
                                         program.rank, o.firstLayer, last, variant.shared.size()));
      last = o.firstLayer;
    }
  return {};
}

/// The sums of a rank in its order of issue: each comes after the passes that make its gradients, and the updates of
/// the weight and the norm after it. What a queue knows is what its own waits have shown it, as in LayerWalk.
class SharedWalk {
public:
  SharedWalk(const Variant &variant, const Program &program)
      : variant(variant), program(program), lines(program.queues.size(), kNone), sums(variant.shared.size()) {
    for (uint32_t q = 0; q != lines.size(); ++q)
      if (classOf(program.queues[q]) != kCommunicator)
        addLine(q); // P10: compute, and one of weights or updates
    for (const Instruction &instruction : program.instructions)
      if (isSum(program.operations[instruction.operation]))
        addLine(instruction.queue); // P13, P38: one of groups and one norm
  }

  Status run() {
    std::array<int64_t, kLines> issued{};
    for (Cursor cursor(program); !cursor.done(); cursor.next()) {
      const Step step = cursor.at();
      const uint32_t line = lines[step.instruction->queue];
      if (line == kNone)
        continue;
      const Place now{line, ++issued[line]};
      for (uint32_t w = step.instruction->firstWait; w != step.instruction->firstWait + step.instruction->waits; ++w)
        if (const Wait &wait = program.waits[w]; lines[wait.queue] != kNone && !wait.previousStep) {
          int64_t &own = known[line][lines[wait.queue]];
          own = std::max(own, wait.base + wait.stride * step.trip);
        }
      if (Status status = visit(step, now); !status.ok())
        return status;
    }
    for (size_t w = 0; w != sums.size(); ++w)
      for (const int32_t stage : isDue(w) ? variant.shared[w].stages : std::vector<int32_t>{})
        if (std::binary_search(program.stages.begin(), program.stages.end(), stage) && !isUpdated(w, stage))
          return Status::check(fmt::format("P60: rank {} does not update shared weight {} in every layer of stage {} "
                                           "that holds it",
                                           program.rank, w, stage));
    return {};
  }

private:
  static constexpr uint32_t kLines = 6, kNone = ~0u;
  struct Place {
    uint32_t line = kNone;
    int64_t place = 0; // on its queue, from 1
  };

  static bool isSum(const Operation &o) { return isOfShared(o) || (isCollective(o.kind) && o.of == Payload::Norm); }
  void addLine(uint32_t queue) {
    if (lines[queue] == kNone && next != kLines)
      lines[queue] = next++;
  }
  bool knows(const Place &now, const Place &other) const {
    return other.line == kNone ||
           (other.line == now.line ? other.place < now.place : other.place <= known[now.line][other.line]);
  }
  std::string text(const Step &step) const { return describe(program.rank, *step.operation, step.microbatch()); }
  bool has(size_t weight, int32_t stage) const {
    const std::vector<int32_t> &stages = variant.shared[weight].stages;
    return std::binary_search(stages.begin(), stages.end(), stage);
  }

  Status visit(const Step &step, const Place &now) {
    const Operation &o = *step.operation;
    if (does(o.kind, kWeightGradient)) {
      for (size_t w = 0; w != sums.size(); ++w)
        if (has(w, o.stage) && sums[w].line != kNone)
          return Status::check(fmt::format("P60: {} comes behind the sum of shared weight {}", text(step), w));
      made[o.stage][now.line] = now.place;
      return {};
    }
    if (isOfShared(o)) {
      for (const int32_t stage : variant.shared[size_t(o.firstLayer)].stages)
        if (const auto found = made.find(stage); found != made.end())
          for (const auto &[line, place] : found->second)
            if (!knows(now, {line, place}))
              return Status::check(
                  fmt::format("P60: {} does not wait for the last backward of stage {}", text(step), stage));
      sums[size_t(o.firstLayer)] = now;
      return {};
    }
    const bool isNorm = isCollective(o.kind) && o.of == Payload::Norm;
    if (!isNorm && !does(o.kind, kUpdate))
      return {};
    for (size_t w = 0; w != sums.size(); ++w)
      if (isNorm || isAbout(variant, o, variant.shared[w]))
        if (sums[w].line == kNone ? isDue(w) : !knows(now, sums[w]))
          return Status::check(fmt::format("P60: {} does not wait for the sum of shared weight {}", text(step), w));
    if (!isNorm)
      updates.push_back(&o);
    return {};
  }
  /// Whether updates of a stage take all of its layers that hold the weight.
  bool isUpdated(size_t weight, int32_t stage) const {
    const auto has = [&](const SharedWeight &part) {
      return std::any_of(updates.begin(), updates.end(),
                         [&](const Operation *o) { return o->stage == stage && isAbout(variant, *o, part); });
    };
    SharedWeight part = variant.shared[weight];
    if (variant.layers.empty())
      return has(part);
    const auto first = std::find_if(variant.layers.begin(), variant.layers.end(),
                                    [&](const Layer &layer) { return layer.stage == stage; });
    const auto before = int32_t(first - variant.layers.begin());
    const Layers own{before, int32_t(std::count_if(first, variant.layers.end(),
                                                   [&](const Layer &layer) { return layer.stage == stage; }))};
    return std::all_of(variant.shared[weight].layers.begin(), variant.shared[weight].layers.end(), [&](int32_t layer) {
      part.layers = {layer};
      return !own.has(layer) || has(part);
    });
  }
  /// Whether the rank sums the weight.
  bool isDue(size_t weight) const {
    const std::vector<int32_t> ranks = ranksOf(variant, variant.shared[weight]);
    return ranks.size() > 1 && std::binary_search(ranks.begin(), ranks.end(), program.rank);
  }

  const Variant &variant;
  const Program &program;
  std::vector<uint32_t> lines; // of each queue; kNone: of no matter
  uint32_t next = 0;
  std::array<std::array<int64_t, kLines>, kLines> known{}; // how many of the second the first knows complete
  std::map<int32_t, std::map<uint32_t, int64_t>> made;     // stage → line → its last pass there that adds to gradients
  std::vector<Place> sums;                                 // of each weight; kNone: not yet
  std::vector<const Operation *> updates;
};

} // namespace

Status sharedSums(const Variant &variant, const std::vector<Facts> &facts) {
  if (variant.shared.empty())
    return {};
  bool updates = false;
  for (size_t r = 0; r != variant.programs.size(); ++r)
    for (size_t i = 0; i != variant.programs[r].operations.size(); ++i)
      updates |= facts[r].operation[i] > 0 && does(variant.programs[r].operations[i].kind, kUpdate);
  std::vector<std::vector<Sum>> sums;
  for (size_t r = 0; r != variant.programs.size(); ++r)
    sums.push_back(sumsOf(variant, variant.programs[r], facts[r]));
  for (size_t w = 0; w != variant.shared.size(); ++w) {
    const std::vector<int32_t> ranks = ranksOf(variant, variant.shared[w]);
    for (size_t r = 0; r != sums.size(); ++r) {
      const auto &[own, count] = sums[r][w];
      const bool holds = std::binary_search(ranks.begin(), ranks.end(), int32_t(r));
      if (const int64_t expected = updates && holds && ranks.size() > 1; count != expected)
        return Status::check(fmt::format("P60: rank {} executes {} sums of shared weight {} a step, expected {}", r,
                                         count, w, expected));
      if (!own)
        continue;
      const Operation &first = *sums[size_t(ranks.front())][w].operation;
      if (own->group != first.group || own->cost != first.cost)
        return Status::check(fmt::format("P60: rank {} sums shared weight {} in group {} in {}, rank {} in group {} in "
                                         "{}",
                                         r, w, own->group, timeText(own->cost), ranks.front(), first.group,
                                         timeText(first.cost)));
    }
  }
  for (const Program &program : variant.programs) {
    if (Status status = inOrder(variant, program); !status.ok())
      return status;
    if (Status status = updates ? SharedWalk(variant, program).run() : Status{}; !status.ok())
      return status;
  }
  return {};
}

} // namespace pipec::plan::rules
