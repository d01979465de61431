// Stages on several ranks, written out: each rank's passes, and the collectives that all come to in one order.
#include "test/plan/MakeBurst.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace pipec::plan::test {
namespace {

constexpr Bytes kMiB = 1 << 20;

class Writer {
public:
  Writer(const Burst &how, const std::vector<int32_t> &groups, int32_t rank) : how(how), groups(groups), rank(rank) {
    program.rank = rank;
    for (int32_t stage = 0; stage != stages(); ++stage)
      if (holds(stage))
        program.stages.push_back(stage);
    program.queues = {{}, {QueueKind::Communicator, Priority::Compute}};
    if (how.updates)
      updatesQueue = addQueue({QueueKind::Device, Priority::Updates});
    if (how.norm)
      normQueue = addQueue({QueueKind::Communicator, Priority::Compute});
    program.workspace = kMiB;
    program.staticBytes = 100 * kMiB * Bytes(program.stages.size());
    sums.resize(how.widths.size());
    firsts.resize(how.widths.size());
  }

  Program write() {
    forwards();
    if (how.backward)
      backwards();
    if (how.backward && how.optimizer)
      exchange();
    for (const size_t i : guarded) // its buffer may still be read in the step before
      waits[i].push_back({0, true, issued[0], 0});
    setStep(program, instructions, waits, false);
    return std::move(program);
  }

private:
  int32_t stages() const { return int32_t(how.widths.size()); }
  int32_t width(int32_t stage) const { return how.widths[size_t(stage)]; }
  bool holds(int32_t stage) const { return rank < width(stage); }

  uint32_t addQueue(Queue queue) {
    program.queues.push_back(queue);
    return uint32_t(program.queues.size()) - 1;
  }

  /// Its place on its queue, from 1.
  int64_t add(const Operation &o, uint32_t queue, std::vector<Wait> its) {
    instructions.push_back({uint32_t(program.operations.size()), queue, 0, 0, 0, 0});
    program.operations.push_back(o);
    waits.push_back(std::move(its));
    return ++issued[queue];
  }

  void pass(Kind kind, int32_t stage) {
    const int64_t samples = samplesOf(how.batch, width(stage), rank);
    Operation o;
    o.kind = kind;
    o.stage = stage;
    o.cost = samples * (kind == Kind::Forward ? how.forward : how.backwardTime);
    o.activation = how.backward ? samples * how.activation : 0;
    o.context = how.backward ? samples * how.context : 0;
    std::vector<Wait> its;
    if (input != 0)
      its.push_back({kCollectives, false, std::exchange(input, 0), 0});
    if (kind == Kind::Forward)
      firsts[size_t(stage)] = instructions.size();
    made = add(o, 0, std::move(its));
  }

  /// What `from` hands to `to`, where one of them is on more ranks, of which this is one.
  void reshard(Payload of, int32_t from, int32_t to) {
    const int32_t wider = width(from) > width(to) ? from : to;
    if (width(from) == width(to) || !holds(wider))
      return;
    const int64_t moved = samplesMoved(how.batch, width(from), width(to));
    Operation o;
    o.kind = Kind::Reshard;
    o.of = of;
    o.stage = from;
    o.group = groups[size_t(wider)];
    o.bytes = moved * how.boundary;
    o.cost = how.latency + moved * how.moved;
    if (!holds(from))
      guarded.push_back(instructions.size());
    const int64_t place =
        add(o, kCollectives, holds(from) ? std::vector<Wait>{{0, false, made, 0}} : std::vector<Wait>{});
    if (holds(to))
      input = place;
    else if (!how.backward) // else a backward waits for a later one
      waits[firsts[size_t(from)]].push_back({kCollectives, true, place, 0});
  }

  void forwards() {
    for (int32_t stage = 0; stage != stages(); ++stage) {
      if (holds(stage))
        pass(Kind::Forward, stage);
      if (stage + 1 != stages())
        reshard(Payload::Forward, stage, stage + 1);
    }
  }

  void backwards() {
    std::vector<std::pair<int32_t, int64_t>> later; // sums, and what they wait for
    for (int32_t stage = stages(); stage-- != 0;) {
      if (holds(stage))
        pass(Kind::Backward, stage);
      const int64_t place = made;
      if (stage != 0)
        reshard(Payload::Backward, stage, stage - 1);
      if (holds(stage) && how.early)
        sum(stage, place);
      else if (holds(stage))
        later.push_back({stage, place});
    }
    for (const auto &[stage, place] : later)
      sum(stage, place);
  }

  void sum(int32_t stage, int64_t backward) {
    if (width(stage) == 1 || !how.optimizer || how.gradients == 0)
      return;
    Operation o;
    o.kind = Kind::AllReduce;
    o.of = Payload::Gradients;
    o.stage = stage;
    o.group = groups[size_t(stage)];
    o.layers = how.layers;
    o.end = o.bytes = how.layers * how.gradients;
    o.cost = how.sum;
    sums[size_t(stage)] = add(o, kCollectives, {{0, false, backward, 0}});
  }

  void exchange() {
    int64_t norm = 0;
    if (how.norm) {
      Operation o;
      o.kind = Kind::AllReduce;
      o.of = Payload::Norm;
      o.stage = program.stages.empty() ? 0 : program.stages.front();
      o.bytes = 8;
      o.cost = how.normCost;
      norm = add(o, normQueue, {{kCollectives, false, issued[kCollectives], 0}, {0, false, issued[0], 0}});
    }
    for (int32_t stage = stages(); stage-- != 0;)
      if (holds(stage))
        update(stage, norm);
  }

  void update(int32_t stage, int64_t norm) {
    Operation o;
    o.kind = Kind::Optimizer;
    o.stage = stage;
    o.cost = how.update;
    std::vector<Wait> its;
    if (sums[size_t(stage)] != 0)
      its.push_back({kCollectives, false, sums[size_t(stage)], 0});
    else if (how.updates)
      its.push_back({0, false, issued[0], 0});
    if (how.norm)
      its.push_back({normQueue, false, norm, 0});
    const int64_t place = add(o, updatesQueue, std::move(its));
    if (how.updates)
      waits[firsts[size_t(stage)]].push_back({updatesQueue, true, place, 0});
  }

  static constexpr uint32_t kCollectives = 1;
  const Burst &how;
  const std::vector<int32_t> &groups; // of stages
  const int32_t rank;
  Program program;
  uint32_t updatesQueue = 0, normQueue = 0;
  std::vector<Instruction> instructions;
  std::vector<std::vector<Wait>> waits;
  int64_t issued[4] = {};
  int64_t made = 0, input = 0; // places of the last pass, and of the reshard that the next one takes
  std::vector<int64_t> sums;   // places; 0: none
  std::vector<size_t> firsts;  // the F of each stage
  std::vector<size_t> guarded; // reshards of what other ranks make
};

} // namespace

int64_t samplesOf(int64_t batch, int32_t width, int32_t rank) {
  int64_t count = 0;
  for (int64_t sample = 0; sample != batch; ++sample)
    count += sample % width == rank;
  return count;
}

int64_t samplesMoved(int64_t batch, int32_t from, int32_t to) {
  std::map<int64_t, int64_t> leave, reach; // by rank
  int64_t most = 0;
  for (int64_t sample = 0; sample != batch; ++sample)
    if (sample % from != sample % to)
      most = std::max({most, ++leave[sample % from], ++reach[sample % to]});
  return most;
}

Plan makeBurst(const Burst &how) {
  Plan plan;
  plan.specHash = 0x0123456789abcdef;
  Variant variant;
  variant.name = variant.schedule = "burst";
  variant.stages = int32_t(how.widths.size());
  variant.microbatches = 1;
  variant.batch = how.batch;
  std::map<int32_t, int32_t> groupOf; // by width
  for (int32_t stage = 0; stage != variant.stages; ++stage) {
    const int32_t width = how.widths[size_t(stage)];
    if (width != 1 && groupOf.try_emplace(width, int32_t(plan.groups.size())).second) {
      plan.groups.emplace_back().members.resize(size_t(width));
      std::iota(plan.groups.back().members.begin(), plan.groups.back().members.end(), 0);
    }
    variant.stageGroups.push_back(width == 1 ? -1 : groupOf[width]);
    if (how.boundaries)
      variant.boundaries.push_back(stage + 1 == variant.stages ? 0 : how.boundary);
    for (int32_t layer = 0; layer != how.layers; ++layer)
      variant.layers.push_back({stage, how.gradients, 0, false});
  }
  const int32_t ranks = std::max(how.ranks, *std::max_element(how.widths.begin(), how.widths.end()));
  for (int32_t rank = 0; rank != ranks; ++rank) {
    variant.programs.push_back(Writer(how, variant.stageGroups, rank).write());
    plan.processes.push_back({rank, 0, 0});
  }
  plan.variants.push_back(std::move(variant));
  return plan;
}

} // namespace pipec::plan::test
