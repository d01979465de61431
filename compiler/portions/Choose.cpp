#include "compiler/portions/Choose.h"

#include "compiler/portions/Fixed.h"
#include "compiler/portions/Held.h"
#include "compiler/portions/Policies.h"
#include "compiler/portions/Timing.h"

#include <algorithm>

namespace pipec::portions {

struct Chooser::Memory {
  explicit Memory(int64_t work) : solver(work) {}
  Solver solver;
  std::map<std::vector<int64_t>, Time> layers;
};

Chooser::Chooser(int64_t work) : memory(std::make_unique<Memory>(work)) {}
Chooser::~Chooser() = default;

namespace {

Chosen chosenBy(const Group &group, const Balance &balance, Solver &solver) {
  switch (balance.policy) {
  case Policy::Even:
    return chooseEven(group);
  case Policy::Auto:
    return chooseAuto(group, balance.most, solver);
  case Policy::Migrate:
    return chooseMigrate(group, solver);
  case Policy::Resize:
    return chooseResize(group, balance);
  case Policy::Semi:
    break;
  }
  return chooseSemi(group, balance.part, solver);
}

/// Reports a shortage if the portions of a policy that ignores memory do not fit.
void checkMemory(const Group &group, Chosen &chosen) {
  const std::vector<Bytes> needs = needsOf(group, chosen.portions);
  const auto most = std::max_element(needs.begin(), needs.end());
  if (group.memoryLimit > 0 && *most > group.memoryLimit && !chosen.shortage)
    chosen.shortage = Shortage{int32_t(most - needs.begin()), *most};
}

/// A lower bound of the time of all portions that keep as many units of each split and work them where they are owned
/// or, if `moved`, own them equally.
Time boundOf(const Group &group, const Portions &portions, bool moved, Solver &solver) {
  std::vector<int64_t> kept;
  for (const SplitAt &at : splitsOf(group)) {
    kept.push_back(0);
    for (const Portion &each : portions[at.stage][at.run][at.split])
      kept.back() += each.kept;
  }
  if (!moved)
    return asTime(solver.inAnyMemory(ownedProgram(group, kept)).lower);
  // With equal owners the optimizer times are known. The exchanges count as taking no time.
  Group without = group;
  Time updates = 0;
  const Portions even = evenPortions(group);
  for (size_t at = 0; at != group.stages.size(); ++at)
    updates = plus(updates, timingOf(group, group.stages[at], even[at], Pass::Optimizer).whole());
  for (Stage &stage : without.stages)
    for (LayerRun &run : stage.runs) {
      run.layer.own.set(Figure::Optimizer, 0);
      for (Split &split : run.layer.splits)
        split.set(Figure::Optimizer, 0);
    }
  return asTime(solver.inAnyMemory(ownedProgram(without, kept)).lower + updates);
}

void addWork(std::vector<int64_t> &key, const Work &work, BackwardMode backward) {
  key.insert(key.end(), {work[Figure::Forward], work.of(Pass::Recompute)});
  if (backward == BackwardMode::Fused)
    key.push_back(work.of(Pass::Backward));
  else
    key.insert(key.end(), {work[Figure::BackwardInput], work[Figure::BackwardWeight]});
}

} // namespace

Chosen Chooser::choose(const Group &group, const Balance &balance) {
  Solver &solver = memory->solver;
  Chosen chosen = chosenBy(group, balance, solver);
  chosen.time = stepOf(group, chosen.portions);
  checkMemory(group, chosen);
  if (balance.policy != Policy::Auto && balance.policy != Policy::Migrate)
    chosen.lower = boundOf(group, chosen.portions, balance.policy == Policy::Semi, solver);
  chosen.lower = std::min(chosen.lower, chosen.time);
  return chosen;
}

Time Chooser::layerTime(const Group &group, const Layer &layer, bool recomputed) {
  std::vector<int64_t> key = {group.link.latency,      group.link.bandwidth, group.sequence,
                              int64_t(group.backward), recomputed,           group.shards()};
  key.insert(key.end(), group.factors.begin(), group.factors.end());
  addWork(key, layer.own, group.backward);
  for (const Split &split : layer.splits) {
    key.insert(key.end(), {split.units, split.sum});
    addWork(key, split, group.backward);
  }
  const auto [at, isNew] = memory->layers.try_emplace(std::move(key));
  if (!isNew)
    return at->second;
  Group one;
  one.factors = group.factors;
  one.link = group.link;
  one.sequence = group.sequence;
  one.backward = group.backward;
  one.stages = {{.runs = {{layer, 1}}, .recomputed = recomputed}};
  Stage &stage = one.stages[0];
  stage.runs[0].layer.own.set(Figure::Optimizer, 0);
  for (Split &split : stage.runs[0].layer.splits)
    split.set(Figure::Optimizer, 0);
  return at->second = choose(one, {}).time;
}

} // namespace pipec::portions
