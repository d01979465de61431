#include "compiler/shards/LeastTimes.h"

#include "compiler/portions/Fixed.h"
#include "compiler/portions/Most.h"
#include "compiler/portions/Timing.h"
#include "compiler/shards/SpecGroups.h"

#include <algorithm>
#include <map>

namespace pipec {

using portions::Pass;
using schedule::Time;

namespace {

Time most(const std::vector<Time> &list) { return *std::max_element(list.begin(), list.end()); }
Time least(const std::vector<Time> &list) { return *std::min_element(list.begin(), list.end()); }

bool hasSums(Pass pass) { return pass != Pass::BackwardWeight && pass != Pass::Optimizer; }

bool splits(const portions::LayerRun &run) { return !run.layer.splits.empty(); }
bool hasSplits(const portions::Stage &stage) { return std::any_of(stage.runs.begin(), stage.runs.end(), splits); }

/// Whether the balance leaves units out by a rule of its own, which looks at all of a rank.
bool hasRule(const portions::Balance &balance) {
  return balance.policy == portions::Policy::Resize || balance.policy == portions::Policy::Semi;
}

/// Nothing but the time of one pass.
portions::Work bareOf(const portions::Work &work, Pass pass) {
  portions::Work bare;
  bare.set(plan::Figure::Recompute, 0); // else the forward's
  if (pass != Pass::BackwardWeight && pass != Pass::Optimizer)
    bare.set(portions::figureOf(pass), work.of(pass));
  return bare;
}

/// The group with one microbatch and one stage, whose other passes have sums alone.
portions::Group bareOf(portions::Group group, portions::Stage stage, Pass pass) {
  stage.recomputed = pass == Pass::Recompute;
  for (portions::LayerRun &run : stage.runs) {
    run.layer.own = bareOf(run.layer.own, pass);
    for (portions::Split &split : run.layer.splits)
      static_cast<portions::Work &>(split) = bareOf(split, pass);
  }
  group.backward = pass == Pass::BackwardInput ? schedule::BackwardMode::Split : schedule::BackwardMode::Fused;
  group.stages = {std::move(stage)};
  group.microbatches = 1;
  group.memoryLimit = 0;
  return group;
}

/// What the sums of a pass take.
Time sumsOf(const portions::Group &group, const portions::Stage &stage, Pass pass) {
  if (!hasSums(pass))
    return 0;
  const portions::Group bare = bareOf(group, stage, Pass::BackwardWeight); // of which it has nothing
  return portions::timingOf(bare, bare.stages.front(), portions::evenPortions(bare).front(), Pass::Forward).cost;
}

/// The mean over shards of times, each weighted by how fast it is, rounded up.
Time meanOf(const portions::Group &group, const std::vector<Time> &times) {
  long double speed = 0, sum = 0;
  for (size_t shard = 0; shard != times.size(); ++shard) {
    speed += 1.0L / (long double)(group.factors[shard]);
    sum += (long double)(times[shard]) / (long double)(group.factors[shard]);
  }
  return Time(sum / speed) + 1;
}

/// The mean of what shards compute in a pass: the same whichever of them has which units. `kept`: of all units, in
/// millionths.
Time meanOf(const portions::Group &group, const portions::Stage &stage, Pass pass, int64_t kept) {
  long double speed = 0, all = 0;
  for (const portions::Factor factor : group.factors)
    speed += (long double)(portions::kNoSlower) / (long double)(factor);
  __int128 terms = 0; // each of them is rounded, by half a picosecond at most
  for (const portions::LayerRun &run : stage.runs) {
    long double own = (long double)(run.layer.own.of(pass)) * (long double)(group.factors.size());
    for (const portions::Split &split : run.layer.splits)
      own += (long double)(split.of(pass)) * (long double)(kept) / (long double)(portions::kNoSlower);
    all += own * (long double)(run.count);
    terms += __int128(run.count) * int64_t(1 + run.layer.splits.size());
  }
  const auto mean = __int128(std::min<long double>(all / speed, (long double)(limits::kTime)));
  return Time(std::max<__int128>(mean - mean / (int64_t(1) << 50) - terms - 1, 0));
}

/// A split as if the units that may be left out, of all passes and layers alike, were not there.
void leaveOut(portions::Split &split, int64_t left) {
  const int64_t kept = portions::leftOf(split.units, left);
  for (const Pass pass : {Pass::Forward, Pass::BackwardInput, Pass::BackwardWeight, Pass::Backward, Pass::Recompute})
    if (const plan::Figure time = portions::figureOf(pass); split.has(time))
      split.set(time, Time(__int128(split[time]) * kept / split.units));
  split.units = kept;
}

/// Of all portions, what a pass of a stage with splits takes from the start of all shards to its last sum, and what the
/// slowest shard then takes.
Time leastToEnd(const portions::Group &group, const portions::Stage &stage, Pass pass, int64_t left) {
  portions::Group bare = bareOf(group, stage, pass);
  for (portions::LayerRun &run : bare.stages.front().runs)
    for (portions::Split &split : run.layer.splits)
      leaveOut(split, left);
  const auto others = int64_t(bare.passesOf(bare.stages.front()).size()) - 1 - int64_t(pass == Pass::BackwardInput);
  return chosenOf(bare, {}).lower - portions::times(others, sumsOf(group, stage, pass));
}

bool isBackward(Pass pass) { return pass == Pass::Backward || pass == Pass::BackwardInput; }

/// The stage up to its first sum in a pass. A split's own work of a layer stands before it in a forward.
portions::Stage toFirstSum(const portions::Group &group, portions::Stage stage, Pass pass) {
  const bool backwards = isBackward(pass);
  std::vector<portions::LayerRun> &runs = stage.runs;
  if (backwards)
    runs.erase(runs.begin(), std::find_if(runs.rbegin(), runs.rend(), splits).base() - 1);
  else
    runs.erase(std::find_if(runs.begin(), runs.end(), splits) + 1, runs.end());
  portions::LayerRun &meets = backwards ? runs.front() : runs.back();
  meets.count = 1;
  std::vector<portions::Split> &own = meets.layer.splits;
  if (backwards) {
    own.erase(own.begin(), own.end() - 1);
    meets.layer.own = {};
  } else {
    own.resize(1);
  }
  if (group.sequence) // which gathers before it
    static_cast<portions::Work &>(own.front()) = {};
  return stage;
}

/// The stage behind that sum. Portions are chosen here apart from those before the sum, although equal layers share
/// theirs: so the least is no more than what a plan takes.
portions::Stage behindFirstSum(const portions::Group &group, portions::Stage stage, Pass pass) {
  const bool backwards = isBackward(pass);
  std::vector<portions::LayerRun> &runs = stage.runs;
  if (backwards)
    runs.erase(std::find_if(runs.rbegin(), runs.rend(), splits).base(), runs.end());
  else
    runs.erase(runs.begin(), std::find_if(runs.begin(), runs.end(), splits));
  portions::LayerRun &others = backwards ? runs.back() : runs.front(), meets = others;
  meets.count = 1;
  if (!backwards)
    meets.layer.own = {};
  std::vector<portions::Split> &own = meets.layer.splits;
  if (!group.sequence) // else the sum is a gather before it
    own.erase(backwards ? own.end() - 1 : own.begin());
  if (--others.count == 0)
    others = meets;
  else
    runs.insert(backwards ? runs.end() : runs.begin(), meets);
  return stage;
}

/// The own times of shards before the first split of a pass.
std::vector<Time> beforeSplits(const portions::Group &group, portions::Stage stage, Pass pass) {
  stage = toFirstSum(group, std::move(stage), pass);
  for (portions::LayerRun &run : stage.runs)
    for (portions::Split &split : run.layer.splits)
      static_cast<portions::Work &>(split) = {};
  portions::Group bare = group;
  bare.stages = {stage};
  return portions::timingOf(bare, stage, portions::evenPortions(bare).front(), pass).before;
}

Time leastOfOne(const portions::Group &group, const portions::Stage &stage, const portions::Timing &timing, Pass pass,
                int64_t left, size_t shard) {
  if (!hasSums(pass)) { // it may work no unit
    portions::Stage own = stage;
    for (portions::LayerRun &run : own.runs)
      run.layer.splits.clear();
    portions::Group bare = group;
    bare.stages = {own};
    return portions::timingOf(bare, own, portions::evenPortions(bare).front(), pass).own[shard];
  }
  const portions::Stage behind = behindFirstSum(group, stage, pass);
  Time between = group.sequence ? 0 : sumsOf(group, toFirstSum(group, stage, pass), pass);
  if (hasSplits(behind))
    between += std::max<Time>(leastToEnd(group, behind, pass, left) - most(timing.after), 0);
  return between + beforeSplits(group, stage, pass)[shard] + timing.after[shard];
}

} // namespace

std::vector<Least> leastsOf(const std::vector<portions::Group> &groups) {
  constexpr size_t kMost = 4;
  std::vector<Least> all = {{Least::By::Slowest, 0}, {Least::By::Mean, 0}};
  std::vector<std::pair<portions::Factor, size_t>> slowest;
  for (size_t shard = 0; shard != groups.front().factors.size(); ++shard) {
    portions::Factor worst = 0;
    for (const portions::Group &group : groups)
      worst = std::max(worst, group.factors[shard]);
    if (worst > portions::kNoSlower)
      slowest.emplace_back(-worst, shard);
  }
  std::sort(slowest.begin(), slowest.end());
  for (size_t i = 0; i != std::min(kMost, slowest.size()); ++i)
    all.push_back({Least::By::One, slowest[i].second});
  return all;
}

Time leastOf(const portions::Group &group, const portions::Stage &stage, const portions::StagePortions &portions,
             const portions::Balance &balance, Pass pass, const Least &by, bool asGiven) {
  const portions::Timing timing = portions::timingOf(group, stage, portions, pass);
  asGiven |= hasRule(balance) || !hasSplits(stage); // nothing is chosen anew
  const int64_t left = balance.policy == portions::Policy::Auto ? balance.most : 0;
  if (by.by == Least::By::One)
    return asGiven ? timing.before[by.shard] + timing.cost + timing.after[by.shard]
                   : leastOfOne(group, stage, timing, pass, left, by.shard);
  if (by.by == Least::By::Mean) {
    const Time mean = asGiven ? meanOf(group, timing.own) - 1 : meanOf(group, stage, pass, portions::kNoSlower - left);
    const Time behind = std::max<Time>(meanOf(group, timing.after) - least(timing.after), 0);
    return std::max<Time>(mean + sumsOf(group, stage, pass) - behind, 0);
  }
  if (asGiven)
    return timing.meets ? most(timing.before) + timing.cost + least(timing.after) : least(timing.before);
  return hasSums(pass)
             ? std::max<Time>(leastToEnd(group, stage, pass, left) - most(timing.after) + least(timing.after), 0)
             : 0;
}

namespace {

/// What a pass of a layer takes whichever units a rank's rule leaves out for the sake of all its layers: the shard that
/// has least to do keeps its equal part, but for what each slow one is told to leave out.
Time leastOfRule(const portions::Group &group, const portions::Stage &layer, const portions::Balance &balance,
                 Pass pass) {
  const portions::Factor fastest = *std::min_element(group.factors.begin(), group.factors.end());
  const int64_t out = fastest > portions::kNoSlower ? balance.gamma.value_or(0) : 0;
  __int128 own = 0;
  for (const portions::LayerRun &run : layer.runs) {
    own += __int128(run.count) * run.layer.own.of(pass);
    for (const portions::Split &split : run.layer.splits) {
      const int64_t kept = portions::leftOf(split.units / int64_t(group.shards()), out);
      own += __int128(run.count) * (__int128(split.of(pass)) * kept / split.units - 1); // it is rounded
    }
  }
  const __int128 time = own * fastest / portions::kNoSlower - 1;
  return portions::plus(Time(std::clamp<__int128>(time, 0, limits::kTime)), sumsOf(group, layer, pass));
}

/// What a layer takes of a rank in a step at least.
Time leastOf(portions::Group group, const portions::Stage &layer, const spec::Balance &spec) {
  group.stages = {layer};
  group.memoryLimit = 0;
  const portions::Balance balance = balanceOf(spec);
  if (hasRule(balance)) {
    Time all = leastOfRule(group, layer, balance, Pass::Optimizer);
    for (const Pass pass : group.passesOf(layer))
      all = portions::plus(all, portions::times(group.microbatches, leastOfRule(group, layer, balance, pass)));
    return all;
  }
  const portions::Chosen chosen = chosenOf(group, balance);
  Time most = 0;
  for (const Least &by : leastsOf({group})) {
    const auto of = [&](Pass pass) {
      return leastOf(group, layer, chosen.portions.front(), balance, pass, by, isFixed(spec));
    };
    Time all = of(Pass::Optimizer);
    for (const Pass pass : group.passesOf(layer))
      all = portions::plus(all, portions::times(group.microbatches, of(pass)));
    most = std::max(most, all);
  }
  return most;
}

} // namespace

void useShards(const spec::Spec &spec, const schedule::Problem &problem, schedule::CutWork &work) {
  const std::vector<portions::Group> groups = groupsOf(spec, problem, {});
  portions::Group healthy = groups.front();
  healthy.factors.assign(healthy.factors.size(), portions::kNoSlower);
  work.layers.clear();
  work.percent.assign(groups.size(), INT64_MAX);
  int64_t first = 0;
  for (const spec::Layer &layer : spec.layers->entries) {
    const portions::Stage own = stageOf(spec, first, 1);
    const Time usual = leastOf(healthy, own, spec.tensorParallel.balance);
    work.layers.insert(work.layers.end(), size_t(layer.count), usual);
    std::map<std::vector<portions::Factor>, int64_t> known;
    for (size_t rank = 0; rank != groups.size(); ++rank) {
      const auto [at, isNew] = known.try_emplace(groups[rank].factors);
      if (isNew)
        at->second = usual == 0
                         ? INT64_MAX
                         : int64_t(__int128(leastOf(groups[rank], own, spec.tensorParallel.balance)) * 100 / usual);
      work.percent[rank] = std::min(work.percent[rank], at->second);
    }
    first += layer.count;
  }
  for (int64_t &percent : work.percent)
    percent = percent == INT64_MAX ? 100 : std::max<int64_t>(percent, 1);
}

} // namespace pipec
