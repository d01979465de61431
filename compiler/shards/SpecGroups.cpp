#include "compiler/shards/SpecGroups.h"

#include "compiler/spec/Keys.h"
#include "compiler/spec/SpecUnits.h"
#include "compiler/spec/Stages.h"

#include <algorithm>
#include <fmt/format.h>

namespace pipec {

namespace {

portions::Layer layerOf(const spec::Layer &layer) {
  portions::Layer made{{layer.own}, {}};
  for (const spec::Split &split : layer.splits) {
    portions::Split &own = made.splits.emplace_back();
    static_cast<portions::Work &>(own) = {split.figures};
    own.units = split.units;
    own.sum = split.sum;
  }
  return made;
}

/// The factors of a rank's shards.
std::vector<portions::Factor> factorsOf(const spec::TensorParallel &given, int32_t rank) {
  std::vector<portions::Factor> factors(size_t(given.shards.value), portions::kNoSlower);
  for (const spec::SlowShard &slow : given.slow)
    if (slow.rank == rank)
      factors[size_t(slow.shard)] = slow.factor;
  return factors;
}

} // namespace

portions::Stage stageOf(const spec::Spec &spec, int64_t first, int64_t count) {
  portions::Stage made;
  for (const spec::Layer &layer : spec.layers->entries) {
    const int64_t here = std::min(std::max<int64_t>(layer.count - first, 0), count);
    if (here > 0)
      made.runs.push_back({layerOf(layer), here});
    first = std::max<int64_t>(first - layer.count, 0);
    count -= here;
  }
  return made;
}

std::vector<portions::Group> groupsOf(const spec::Spec &spec, const schedule::Problem &problem,
                                      const std::vector<int64_t> &cut, const std::vector<int64_t> &inFlight) {
  const spec::TensorParallel &given = spec.tensorParallel;
  std::vector<portions::Group> groups(size_t(problem.ranks));
  for (int32_t rank = 0; rank != problem.ranks; ++rank) {
    portions::Group &group = groups[size_t(rank)];
    group.factors = factorsOf(given, rank);
    group.link = {given.link.latency, given.link.bandwidth};
    group.sequence = given.sequence;
    group.microbatches = problem.microbatches;
    group.backward = problem.backward;
    group.workspace = problem.workspace.empty() ? 0 : problem.workspace[size_t(rank)];
    group.staticBytes.assign(group.factors.size(), 0);
    if (!inFlight.empty())
      group.memoryLimit = problem.limitOf(rank);
  }
  int64_t first = 0;
  for (size_t s = 0; s != cut.size(); first += cut[s++]) {
    portions::Group &group = groups[size_t(problem.rankOf[s])];
    portions::Stage stage = stageOf(spec, first, cut[s]);
    stage.recomputed = spec.recomputed.has(int64_t(s));
    if (!inFlight.empty())
      (stage.recomputed ? stage.inputsInFlight : stage.inFlight) = inFlight[s];
    if (stage.recomputed)
      stage.inFlight = 1;
    // What a stage updates beside its layers comes with one more, which has no splits.
    if (const int64_t update = spec.layers->beside[plan::Figure::Optimizer][s]; update > 0) {
      portions::Layer rest;
      rest.own.set(plan::Figure::Optimizer, update);
      stage.runs.push_back({rest, 1});
    }
    group.stages.push_back(std::move(stage));
    for (portions::Bytes &held : group.staticBytes)
      held = std::min(held + spec.layers->beside[plan::Figure::Static][s], limits::kBytes + 1);
  }
  return groups;
}

portions::Chosen chosenOf(const portions::Group &group, const portions::Balance &balance) {
  thread_local portions::Chooser chooser;
  return chooser.choose(group, balance);
}

portions::Balance balanceOf(const spec::Balance &balance) {
  portions::Balance made;
  constexpr portions::Policy kPolicies[] = {portions::Policy::Auto, portions::Policy::Even, portions::Policy::Migrate,
                                            portions::Policy::Resize, portions::Policy::Semi}; // as the key's choices
  made.policy = kPolicies[size_t(balance.kind.value)];
  made.most = balance.most;
  made.gamma = balance.gamma;
  made.reference = balance.reference == spec::Reference::Mean ? portions::Reference::Mean : portions::Reference::Least;
  made.part = balance.part;
  return made;
}

std::string jsonOf(const spec::Balance &balance) {
  const auto choice = [](const char *key, auto value) {
    return fmt::format("\"{}\"", spec::findKey(key)->choices[size_t(value)]);
  };
  std::string text = fmt::format("{{\"name\": {}", choice("tensor_parallel.balance", balance.kind.value));
  switch (balance.kind.value) {
  case spec::BalanceKind::Auto:
    if (balance.most > 0)
      text += fmt::format(", \"most\": {}", spec::decimalText(balance.most));
    break;
  case spec::BalanceKind::Resize:
    text += fmt::format(", \"gamma\": {}, \"reference\": {}, \"impute\": {}, \"priority\": {}",
                        balance.gamma ? spec::decimalText(*balance.gamma) : "\"auto\"",
                        choice("tensor_parallel.balance.reference", balance.reference),
                        choice("tensor_parallel.balance.impute", balance.impute),
                        choice("tensor_parallel.balance.priority", balance.priority));
    break;
  case spec::BalanceKind::Semi:
    text += fmt::format(", \"part\": {}", spec::decimalText(balance.part));
    break;
  case spec::BalanceKind::Even:
  case spec::BalanceKind::Migrate:
    break;
  }
  return text + "}";
}

} // namespace pipec
