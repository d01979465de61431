// What values mean together: how many stages there are, which keys go with which, and whether they agree.
#include "compiler/spec/Resolve.h"

#include "runtime/plan/Limits.h"

#include <fmt/format.h>
#include <limits>
#include <utility>

namespace pipec::spec {
namespace {

class Resolver {
public:
  Resolver(const Values &values, Mark root, Spec &spec, Errors &errors)
      : values(values), root(root), spec(spec), errors(errors) {}

  void read() {
    if (given("pipeline")) {
      readPipeline();
      readMicrobatches();
    }
    readCosts();
    readLinks();
    readTensors();
    readSchedule();
    readTarget();
    if (!errors.any())
      checkWork();
  }

private:
  const Values &values;
  Mark root;
  Spec &spec;
  Errors &errors;

  bool given(std::string_view path) const { return values.find(path) != values.end(); }

  /// Null if the value is absent or already known to be wrong.
  const Value *get(std::string_view path) const {
    auto at = values.find(path);
    return at != values.end() && at->second.valid ? &at->second : nullptr;
  }

  Mark markOf(std::string_view path) const {
    auto at = values.find(path);
    return at == values.end() ? root : at->second.mark;
  }

  /// An integer key's value; its range was checked against the table.
  template <typename T> void integer(std::string_view path, Marked<T> &into) const {
    if (const Value *value = get(path))
      into = {static_cast<T>(value->numbers[0].fixed), value->mark};
  }

  template <typename T> void choice(std::string_view path, Marked<T> &into) const {
    if (const Value *value = get(path))
      into = {static_cast<T>(value->numbers[0].fixed), value->mark};
  }

  /// Plain, or fixed + per_sample × samples, for which the size of a microbatch must be known.
  int64_t resolve(const std::string &path, const Number &number, int64_t most) {
    if (!number.sampled)
      return number.fixed;
    if (!spec.microbatchSize) {
      if (!given("pipeline.microbatch_size"))
        errors.add(number.mark, fmt::format("{}: fixed and per_sample need pipeline.batch and "
                                            "pipeline.microbatch_size, which are missing",
                                            path));
      return 0;
    }
    __int128 value = number.fixed + static_cast<__int128>(number.perSample) * spec.microbatchSize->value;
    if (value > most) {
      errors.add(number.mark,
                 fmt::format("{}: more than {} with {} samples in a microbatch", path,
                             most == limits::kTime ? "10^18 ps" : "2^60 bytes", spec.microbatchSize->value));
      return 0;
    }
    return static_cast<int64_t>(value);
  }

  bool perStage(const std::string &path, int64_t most, PerStage &into) {
    const Value *value = get(path);
    if (!value)
      return false;
    into.mark = value->mark;
    into.list = value->node->isSequence();
    into.values.clear();
    into.marks.clear();
    for (const Number &number : value->numbers) {
      into.values.push_back(resolve(path, number, most));
      into.marks.push_back(number.mark);
    }
    if (into.list && spec.stages > 0 && into.values.size() != static_cast<size_t>(spec.stages)) {
      bool byDefault = !spec.stagesPerRank && !spec.placement;
      errors.add(into.mark, fmt::format("{}: expected {} values, one for each stage{}, found {}", path, spec.stages,
                                        byDefault ? " (stages_per_rank is 1 unless given)" : "", into.values.size()));
    }
    return true;
  }

  void readPipeline() {
    spec.pipeline = markOf("pipeline");
    integer("pipeline.ranks", spec.ranks);
    if (get("pipeline.stages_per_rank"))
      integer("pipeline.stages_per_rank", spec.stagesPerRank.emplace());
    const Value *placement = get("pipeline.placement");
    if (placement) {
      spec.placement.emplace().mark = placement->mark;
      if (placement->node->isSequence())
        readRankLists(*placement->node);
      else
        spec.placement->kind = static_cast<PlacementKind>(placement->numbers[0].fixed);
    }
    if (spec.ranks.value == 0 || spec.stages > 0 || (given("pipeline.placement") && !placement) ||
        (given("pipeline.stages_per_rank") && !spec.stagesPerRank))
      return; // known, or not to be known
    bool back = spec.placement && spec.placement->kind == PlacementKind::V;
    int64_t stages = int64_t(spec.ranks.value) * (spec.stagesPerRank ? spec.stagesPerRank->value : back ? 2 : 1);
    if (stages > limits::kStages)
      errors.add(markOf("pipeline.stages_per_rank"),
                 fmt::format("pipeline.stages_per_rank: expected at most {} stages in all, found {} on {} ranks",
                             limits::kStages, stages, spec.ranks.value));
    else
      spec.stages = static_cast<int32_t>(stages);
  }

  /// Every stage on exactly one rank, and none left out.
  void readRankLists(const Node &lists) {
    spec.placement->kind = PlacementKind::List;
    if (spec.ranks.value > 0 && lists.items.size() != static_cast<size_t>(spec.ranks.value))
      errors.add(lists.mark, fmt::format("pipeline.placement: expected {} lists, one for each rank, found {}",
                                         spec.ranks.value, lists.items.size()));
    size_t count = 0;
    for (const NodePtr &list : lists.items)
      count += list->items.size();
    std::vector<const Node *> first(count);
    std::vector<size_t> rankOf(count);
    bool valid = true;
    for (size_t rank = 0; rank < lists.items.size(); ++rank) {
      const Node &list = *lists.items[rank];
      if (spec.stagesPerRank && list.items.size() != static_cast<size_t>(spec.stagesPerRank->value))
        errors.add(list.mark,
                   fmt::format("pipeline.placement[{}]: expected {} stages, found {}", rank, spec.stagesPerRank->value,
                               list.items.size()),
                   spec.stagesPerRank->mark, "stages_per_rank is given here");
      std::vector<int32_t> &stages = spec.placement->stages.emplace_back();
      for (const NodePtr &item : list.items) {
        auto stage = static_cast<size_t>(std::stoll(item->text)); // digits, at most seven
        if (stage >= count) {
          errors.add(item->mark,
                     fmt::format("pipeline.placement[{}]: expected stages from 0 to {}, since {} are placed, found {}",
                                 rank, count - 1, count, stage));
          valid = false;
        } else if (first[stage]) {
          errors.add(item->mark,
                     fmt::format("pipeline.placement: stage {} stands on rank {} and again on rank {}; only "
                                 "'bidirectional' puts a stage on two ranks",
                                 stage, rankOf[stage], rank),
                     first[stage]->mark, "placed first here");
          valid = false;
        } else {
          first[stage] = item.get();
          rankOf[stage] = rank;
          stages.push_back(static_cast<int32_t>(stage));
        }
      }
    }
    for (size_t stage = 0; stage < count && !errors.full(); ++stage)
      if (!first[stage]) {
        errors.add(lists.mark, fmt::format("pipeline.placement: stage {} of {} stands on no rank", stage, count));
        valid = false;
      }
    if (valid && count <= static_cast<size_t>(limits::kStages))
      spec.stages = static_cast<int32_t>(count);
  }

  /// microbatches, or batch / microbatch_size.
  void readMicrobatches() {
    bool direct = given("pipeline.microbatches");
    bool batch = given("pipeline.batch");
    bool size = given("pipeline.microbatch_size");
    if (direct && (batch || size))
      errors.add(markOf(batch ? "pipeline.batch" : "pipeline.microbatch_size"),
                 "pipeline: give either microbatches, or batch and microbatch_size", markOf("pipeline.microbatches"),
                 "microbatches is given here");
    else if (!direct && !batch && !size)
      errors.add(spec.pipeline, "pipeline.microbatches is missing (or batch and microbatch_size)");
    else if (batch != size)
      errors.add(markOf(batch ? "pipeline.batch" : "pipeline.microbatch_size"),
                 fmt::format("pipeline.{} is missing: batch and microbatch_size go together",
                             batch ? "microbatch_size" : "batch"));
    integer("pipeline.microbatches", spec.microbatches);
    const Value *samples = get("pipeline.batch");
    const Value *each = get("pipeline.microbatch_size");
    if (direct || !samples || !each)
      return;
    int64_t whole = samples->numbers[0].fixed, part = each->numbers[0].fixed;
    if (part > std::numeric_limits<int32_t>::max() || whole % part != 0 || whole / part > limits::kMicrobatches) {
      errors.add(samples->mark, fmt::format("pipeline.batch: expected 1 to {} times the microbatch_size {}, found {}",
                                            limits::kMicrobatches, part, whole));
      return;
    }
    spec.microbatches = {static_cast<int32_t>(whole / part), samples->mark};
    spec.microbatchSize = {static_cast<int32_t>(part), each->mark};
  }

  void readCosts() {
    if (!given("costs")) {
      if (!given("layers"))
        errors.add(root, "costs is missing");
      return;
    }
    spec.costs = markOf("costs");
    if (!get("costs"))
      return;
    if (!given("costs.forward"))
      errors.add(spec.costs, "costs.forward is missing");
    perStage("costs.forward", limits::kTime, spec.forward);
    readBackward();
    perStage(given("costs.optimizer.time") ? "costs.optimizer.time" : "costs.optimizer", limits::kTime, spec.optimizer);
  }

  /// Fused, or for the input and for the weights; not both, and not half.
  void readBackward() {
    bool fused = given("costs.backward");
    bool input = given("costs.backward_input");
    bool weight = given("costs.backward_weight");
    if (fused && (input || weight)) {
      errors.add(markOf("costs.backward"), "costs: give either backward, or backward_input and backward_weight",
                 markOf(input ? "costs.backward_input" : "costs.backward_weight"), "the other is given here");
    } else if (!fused && !input && !weight) {
      errors.add(spec.costs, "costs.backward is missing (or backward_input and backward_weight)");
    } else if (input != weight) {
      errors.add(markOf(input ? "costs.backward_input" : "costs.backward_weight"),
                 fmt::format("costs.{} is missing: backward_input and backward_weight go together",
                             input ? "backward_weight" : "backward_input"));
    }
    for (auto [path, into] : {std::pair{"costs.backward", &spec.backward},
                              {"costs.backward_input", &spec.backwardInput},
                              {"costs.backward_weight", &spec.backwardWeight}})
      if (PerStage times; perStage(path, limits::kTime, times))
        *into = std::move(times);
  }

  void readLink(const std::string &path, Link &link) {
    if (const Value *latency = get(path + ".latency"))
      link.latency = latency->numbers[0].fixed;
    if (const Value *bandwidth = get(path + ".bandwidth"))
      link.bandwidth = bandwidth->numbers[0].fixed;
  }

  void readLinks() {
    spec.linkMark = given("costs.link") ? markOf("costs.link") : spec.costs;
    readLink("costs.link", spec.link);
    std::map<std::pair<int32_t, int32_t>, Mark> first;
    for (size_t i = 0; given(fmt::format("costs.links[{}]", i)); ++i) {
      std::string path = fmt::format("costs.links[{}]", i);
      const Value *from = get(path + ".from");
      const Value *to = get(path + ".to");
      if (!from || !to)
        continue;
      LinkException exception{static_cast<int32_t>(from->numbers[0].fixed), static_cast<int32_t>(to->numbers[0].fixed),
                              spec.link, markOf(path)};
      bool known = true;
      for (const Value *end : {from, to})
        if (spec.ranks.value > 0 && end->numbers[0].fixed >= spec.ranks.value) {
          errors.add(end->mark, fmt::format("{}.{}: expected a rank from 0 to {}, found {}", path,
                                            end == from ? "from" : "to", spec.ranks.value - 1, end->numbers[0].fixed));
          known = false;
        }
      if (known && exception.from == exception.to)
        errors.add(to->mark, fmt::format("{}: expected two ranks, found {} twice; stages on one rank hand over at no "
                                         "cost",
                                         path, exception.from));
      auto [at, inserted] = first.emplace(std::pair{exception.from, exception.to}, exception.mark);
      if (!inserted)
        errors.add(exception.mark,
                   fmt::format("{}: the link from {} to {} is given twice", path, exception.from, exception.to),
                   at->second, "first given here");
      readLink(path, exception.link);
      spec.links.push_back(exception);
    }
  }

  void readTensors() {
    perStage("tensors.boundary", limits::kBytes, spec.boundary);
    perStage("tensors.activation", limits::kBytes, spec.activation);
    perStage("tensors.weight_context", limits::kBytes, spec.weightContext);
    perStage("tensors.gradients", limits::kBytes, spec.gradients);
    perStage("tensors.static", limits::kBytes, spec.staticBytes);
    if (const Value *workspace = get("tensors.workspace"))
      spec.workspace = {resolve("tensors.workspace", workspace->numbers[0], limits::kBytes), workspace->mark};
    integer("memory.limit", spec.memoryLimit);
  }

  static Parameter parameter(const Node &node) {
    Parameter result;
    result.mark = node.mark;
    result.list = node.isSequence();
    auto add = [&](const Node &scalar) {
      result.values.push_back(scalar.text);
      result.marks.push_back(scalar.mark);
    };
    if (result.list)
      for (const NodePtr &item : node.items)
        add(*item);
    else
      add(node);
    return result;
  }

  void readSchedule() {
    const Value *value = get("schedule");
    if (!value)
      return;
    const Node &node = *value->node;
    spec.schedule = {node.text, node.mark, {}};
    for (size_t i = 0; i < node.names.size(); ++i) {
      if (node.names[i].text == "name") {
        spec.schedule.name = node.items[i]->text;
        spec.schedule.mark = node.items[i]->mark;
      } else {
        spec.schedule.parameters.emplace(node.names[i].text, parameter(*node.items[i]));
      }
    }
  }

  void readTarget() {
    if (get("backward"))
      choice("backward", spec.backwardMode.emplace());
    choice("weights", spec.weights);
    if (spec.weights.value == Weights::Fill)
      errors.add(spec.weights.mark, "weights: 'fill' is not supported yet; use 'ordered'");
    choice("communicator", spec.communicator);
    if (const Value *degree = get("data_parallel.degree"); degree && degree->numbers[0].fixed > 1)
      errors.add(degree->mark, fmt::format("data_parallel.degree: expected 1, found {}; more is not supported yet",
                                           degree->numbers[0].fixed));
    if (const Value *provider = get("provider"))
      spec.provider = {toJson(*provider->node), provider->mark};
  }

  /// The least that any schedule of this spec takes, against what a step may take.
  void checkWork() {
    int64_t instructions = 2 * int64_t(spec.stages) * spec.microbatches.value; // F and a backward
    if (instructions > limits::kExecutedInstructions)
      errors.add(spec.microbatches.mark,
                 fmt::format("{} stages and {} microbatches need {} instructions a step, over the limit of {}",
                             spec.stages, spec.microbatches.value, instructions, limits::kExecutedInstructions));
    for (int32_t stage = 0; stage < spec.stages; ++stage) {
      __int128 time = spec.forward[stage];
      time += spec.backward ? (*spec.backward)[stage]
                            : static_cast<__int128>((*spec.backwardInput)[stage]) + (*spec.backwardWeight)[stage];
      if (time * spec.microbatches.value <= limits::kTime)
        continue;
      errors.add(spec.forward.markOf(stage),
                 fmt::format("costs: stage {} works longer than 10^18 ps in a step of {} microbatches", stage,
                             spec.microbatches.value));
      return;
    }
  }
};

} // namespace

void resolve(const Values &values, Mark root, Spec &spec, Errors &errors) {
  Resolver(values, root, spec, errors).read();
}

} // namespace pipec::spec
