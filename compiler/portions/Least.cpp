#include "compiler/portions/Least.h"

#include "compiler/portions/Lines.h"
#include "compiler/portions/Ranges.h"
#include "compiler/portions/Timing.h"

#include <algorithm>

namespace pipec::portions {
namespace {

/// The contents of a program as numbers: the key of the memory of solved programs.
std::vector<int64_t> keyOf(const Program &program) {
  std::vector<int64_t> key = {program.bandwidth, int64_t(program.shards()), int64_t(program.splits())};
  const auto add = [&](Wide number) {
    key.push_back(int64_t(number));
    key.push_back(int64_t(number >> 64));
  };
  key.insert(key.end(), program.factors.begin(), program.factors.end());
  key.insert(key.end(), program.units.begin(), program.units.end());
  for (const std::vector<int64_t> &owned : program.owned)
    key.insert(key.end(), owned.begin(), owned.end());
  for (const Maximum &maximum : program.maxima) {
    key.insert(key.end(), {int64_t(maximum.kind), int64_t(maximum.terms.size())});
    add(maximum.weight);
    add(maximum.most);
    for (const Wide fixed : maximum.fixed)
      add(fixed);
    for (const Term &term : maximum.terms) {
      key.insert(key.end(), {term.split, term.units, int64_t(term.parts.size())});
      for (const Part &part : term.parts)
        key.insert(key.end(), {part.count, part.amount, int64_t(part.by)});
    }
  }
  return key;
}

std::vector<int64_t> speeds(const std::vector<Factor> &factors) {
  std::vector<int64_t> speeds;
  for (const Factor factor : factors)
    speeds.push_back(std::max<int64_t>(1, (int64_t(1) << 40) / factor * kNoSlower >> 20));
  return speeds;
}

/// The shard that needs the most memory.
int32_t neediest(const Program &program, const Maximum &memory, const Counts &counts) {
  int32_t most = 0;
  Wide needs = -1;
  for (size_t shard = 0; shard != program.shards(); ++shard) {
    Wide own = memory.fixed[shard];
    for (const Term &term : memory.terms)
      own += Line(program, memory.kind, term, shard).of(counts[size_t(term.split)][shard]);
    if (own > needs) {
      needs = own;
      most = int32_t(shard);
    }
  }
  return most;
}

} // namespace

Time asTime(Wide time) { return Time(std::clamp<Wide>(time, 0, kMostTime)); }

std::vector<Counts> Solver::beginnings(const Program &program) {
  Counts equal, fair;
  for (const int64_t units : program.units) {
    equal.push_back(equalCounts(units, int32_t(program.shards())));
    fair.push_back(inProportion(units, speeds(program.factors)));
  }
  return {equal, fair};
}

const Solved &Solver::solveOnce(const Program &program) {
  const auto [at, isNew] = known.try_emplace(keyOf(program));
  if (isNew)
    at->second = solve(program, beginnings(program), program.splits() == 1 ? 20 * work : work);
  return at->second;
}

bool Solver::canTake(const Program &program, Wide time) {
  const Solved solved = solve(program, beginnings(program), work, time);
  return solved.value >= 0 && solved.value <= time;
}

Least Solver::inAnyMemory(const Program &program) {
  Least least{.counts = Counts(program.splits()), .lower = program.constant, .shortage = std::nullopt};
  for (const std::vector<int32_t> &set : independentSets(program)) {
    const Solved &solved = solveOnce(partOf(program, set));
    least.lower += solved.lower;
    for (size_t i = 0; i != set.size(); ++i)
      least.counts[size_t(set[i])] = solved.counts[i];
  }
  return least;
}

Least Solver::inMemory(const Group &group, const Program &program, Least any) {
  if (group.memoryLimit == 0)
    return any;
  const Maximum memory = memoryOf(group, program, group.memoryLimit);
  if (valueOf(program, memory, any.counts) <= group.memoryLimit)
    return any;
  // The counts that need the least memory say whether anything fits, and are a good start.
  Program needs = program;
  needs.constant = 0;
  needs.maxima = {memory};
  needs.maxima[0].weight = 1;
  needs.maxima[0].most = -1;
  const Solved &least = solveOnce(needs);
  if (least.value > group.memoryLimit && (least.lower > group.memoryLimit || least.lower == least.value)) {
    any.counts = least.counts;
    any.shortage = Shortage{neediest(program, memory, least.counts), Bytes(std::min<Wide>(least.value, INT64_MAX))};
    return any;
  }
  Program limited = program;
  limited.maxima.push_back(memory);
  std::vector<Counts> begin = beginnings(program);
  begin.push_back(least.counts);
  const Solved solved = solve(limited, begin, work);
  any.lower = std::max(any.lower, solved.lower);
  if (solved.value >= 0) {
    any.counts = solved.counts;
    return any;
  }
  any.counts = least.counts;
  any.shortage = Shortage{neediest(program, memory, least.counts), Bytes(std::min<Wide>(least.value, INT64_MAX))};
  return any;
}

} // namespace pipec::portions
