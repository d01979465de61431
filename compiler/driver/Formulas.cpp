#include "compiler/driver/Formulas.h"

#include "compiler/emit/Formula.h"
#include "compiler/schedule/catalogue/Entries.h"
#include "runtime/plan/Text.h"

#include <algorithm>
#include <tuple>

namespace pipec {

namespace {

/// Whether F, B and W in a formula are times of one chunk, not of all of a rank's.
bool isOfChunk(const std::string &formula) {
  for (const char *cost : {"F of ", "B of ", "W of "})
    for (const char *part : {"one chunk", "a chunk", "one of"})
      if (formula.find(std::string(cost) + part) != std::string::npos)
        return true;
  return false;
}

/// The values of a formula's symbols. Formulas are about equal stages; where stages differ, the slowest counts.
std::vector<emit::Symbol> symbolsOf(const std::string &formula, const schedule::Entry &entry,
                                    const schedule::Problem &problem,
                                    const std::map<std::string, int64_t> &parameters) {
  std::vector<emit::Symbol> symbols;
  const auto number = [&](char name, int64_t value) {
    symbols.push_back({name, double(value), std::to_string(value)});
  };
  const auto time = [&](char name, schedule::Time value) {
    symbols.push_back({name, double(value), plan::timeText(value)});
  };
  const auto most = [&](schedule::Letter letter) {
    schedule::Time most = 0;
    for (const schedule::Stage &stage : problem.stages)
      most = std::max(most, schedule::ownCost(stage, letter));
    return most;
  };
  const bool fused = problem.backward == schedule::BackwardMode::Fused;
  const int64_t chunks = int64_t(problem.stagesOfCopy()) / problem.ranks;
  const bool waves = entry.bubble.find("w waves") != std::string::npos;
  number('p', problem.ranks);
  number('m', problem.microbatches / problem.slices * problem.copies);
  number('v', chunks);
  time('c', problem.ranks > 1 ? std::max(problem.handOver(0, 1), problem.handOver(1, 0)) : 0);
  if (waves)
    number('w', chunks / 2);
  if (const auto longest = std::max_element(
          problem.stages.begin(), problem.stages.end(),
          [](const schedule::Stage &a, const schedule::Stage &b) { return a.overlapped < b.overlapped; });
      longest->overlapped)
    time('X', *longest->overlapped);
  if (problem.slices > 1)
    number('k', problem.slices);
  schedule::Parameters given;
  for (const auto &[parameter, value] : parameters) { // k
    given.emplace(parameter, value);
    if (parameter != "group")
      number(parameter.front(), value);
  }
  for (const schedule::Parameter &each : entry.parameters)
    if (each.name == "group")
      number('g', schedule::interleavingOf(problem, given).firstGroup);
  if (formula.find("g = p/2 rounded up") != std::string::npos)
    number('g', (problem.ranks + 1) / 2);
  const int64_t parts = isOfChunk(formula) ? 1 : chunks;
  for (const auto &[whole, ofChunk, cost] :
       {std::tuple('F', 'f', most(schedule::Letter::F)),
        std::tuple('B', 'b', most(fused ? schedule::Letter::BW : schedule::Letter::B)),
        std::tuple('W', 'w', fused ? schedule::Time(0) : most(schedule::Letter::W))}) {
    time(whole, cost * parts);
    if (ofChunk != 'w' || !waves)
      time(ofChunk, cost);
  }
  return symbols;
}

} // namespace

std::optional<Formulas> formulas(const std::string &name, const schedule::Problem &problem,
                                 const std::map<std::string, int64_t> &parameters) {
  const schedule::Entry *entry = schedule::find(name);
  if (!entry)
    return std::nullopt;
  const schedule::Stage &first = problem.stages.front();
  const bool equal = std::all_of(problem.stages.begin(), problem.stages.end(), [&](const schedule::Stage &each) {
    return each.forward == first.forward && each.backward == first.backward &&
           each.backwardInput == first.backwardInput && each.backwardWeight == first.backwardWeight;
  });
  const auto here = [&](std::string_view text) {
    const std::string formula(text);
    const std::vector<emit::Symbol> symbols = symbolsOf(formula, *entry, problem, parameters);
    Formula made{formula, emit::spelledOut(formula, symbols), emit::failing(formula, symbols, equal)};
    if (problem.recomputes())
      made.failing.emplace_back("no forward runs again");
    if (std::any_of(problem.stages.begin(), problem.stages.end(),
                    [](const schedule::Stage &each) { return each.boundaryGradient.has_value(); }))
      made.failing.emplace_back("gradients are as large as what a stage sends on");
    return made;
  };
  return Formulas{here(entry->bubble), here(entry->memory)};
}

} // namespace pipec
