#include "test/driver/RandomPipeline.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace pipec::test {

using schedule::BackwardMode;

std::string RandomPipeline::text() const {
  size_t stages = problem.stages.size();
  std::string text =
      fmt::format("pipe.pipeline @\"{}\" problem <placement = [{}], microbatches = {}, communicator = {}, copies = {}, "
                  "slices = {}, link = <latency {} bandwidth {}>",
                  entry ? entry->name : "random", fmt::join(problem.rankOf, ", "), problem.microbatches, communicator,
                  problem.copies, problem.slices, problem.link.latency, problem.link.bandwidth);
  std::vector<std::string> links;
  for (const auto &[pair, link] : problem.links)
    links.push_back(fmt::format("#pipe.link<{} to {} latency {} bandwidth {}>", pair.first, pair.second, link.latency,
                                link.bandwidth));
  std::vector<int64_t> optimizer, gradients, overlapped;
  for (const schedule::Stage &stage : problem.stages) {
    optimizer.push_back(stage.optimizer);
    gradients.push_back(stage.gradients);
    overlapped.push_back(stage.overlapped.value_or(-1));
  }
  text += fmt::format(", links = [{}], optimizer = [{}], gradients = [{}], overlapped = [{}], static_bytes = [{}], "
                      "workspace = [{}]",
                      fmt::join(links, ", "), fmt::join(optimizer, ", "), fmt::join(gradients, ", "),
                      fmt::join(overlapped, ", "), fmt::join(problem.staticBytes, ", "),
                      fmt::join(problem.workspace, ", "));
  std::vector<int64_t> limits;
  for (int32_t rank = 0; rank != problem.ranks; ++rank)
    limits.push_back(problem.limitOf(rank));
  if (problem.memoryLimit)
    text += fmt::format(", memory_limit = [{}]", fmt::join(limits, ", "));
  if (fillWeights)
    text += ", weights = fill";
  if (anyRings)
    text += ", rings = any";
  if (problem.globalNorm)
    text += fmt::format(", global_norm = {}", *problem.globalNorm);
  if (problem.mixed) {
    std::vector<int64_t> whole;
    for (const schedule::Stage &stage : problem.stages)
      whole.push_back(schedule::ownCost(stage, schedule::Letter::BW));
    text += fmt::format(", whole = [{}]", fmt::join(whole, ", "));
  }
  text += ">";
  if (orders) {
    std::vector<std::string> rows;
    for (const schedule::Word &word : *orders) {
      std::vector<std::string> letters;
      for (const schedule::Op &op : word)
        letters.push_back(fmt::format("{}{}", plan::name(schedule::kindOf(op.letter)), op.stage));
      rows.push_back(fmt::format("#pipe.order<{}>", fmt::join(letters, " ")));
    }
    text += fmt::format(" orders [{}]", fmt::join(rows, ", "));
  }
  if (!parameters.empty()) {
    std::vector<std::string> given;
    for (const auto &[name, value] : parameters)
      given.push_back(value.list ? fmt::format("{} = array<i64: {}>", name, fmt::join(value.values, ", "))
                                 : fmt::format("{} = {} : i64", name, value.values.front()));
    text += fmt::format(" parameters {{{}}}", fmt::join(given, ", "));
  }
  bool slots = !block.forward.empty();
  text += fmt::format(" {{\n  pipe.block {}{{\n", slots ? fmt::format("interval {} ", block.interval) : "");
  auto at = [&](const std::vector<int64_t> &offsets, size_t s) {
    return slots ? fmt::format("at {} ", offsets[s]) : std::string();
  };
  auto held = [](const schedule::Stage &stage) {
    return fmt::format("!pipe.activation<{}>, !pipe.context<{}>", stage.activation, stage.context);
  };
  auto tensor = [&](size_t upstream) { return fmt::format("!pipe.tensor<{}>", problem.stages[upstream].boundary); };
  auto gradient = [&](size_t upstream) {
    return fmt::format("!pipe.tensor<{}>", problem.stages[upstream].gradientBack());
  };
  for (size_t s = 0; s != stages; ++s) {
    const schedule::Stage &stage = problem.stages[s];
    const bool last = problem.after(int32_t(s)) < 0, first = problem.before(int32_t(s)) < 0;
    std::string sends = !last ? tensor(s) + ", " : "";
    text += fmt::format(
        "    {}{} = pipe.forward{} stage {} {}cost {} : ({}) -> ({}{})\n", !last ? fmt::format("%t{}, ", s) : "",
        stage.input ? fmt::format("%i{}", s) : fmt::format("%a{}, %c{}", s, s),
        !first ? fmt::format("(%t{})", s - 1) : "", s, at(block.forward, s), stage.forward, !first ? tensor(s - 1) : "",
        sends, stage.input ? fmt::format("!pipe.input<{}>", *stage.input) : held(stage));
    if (stage.input)
      text += fmt::format("    %a{}, %c{} = pipe.recompute(%i{}) stage {} cost {} : (!pipe.input<{}>) -> ({})\n", s, s,
                          s, s, stage.recompute, *stage.input, held(stage));
  }
  bool fused = problem.backward == BackwardMode::Fused;
  for (size_t s = stages; s-- != 0;) {
    const schedule::Stage &stage = problem.stages[s];
    const bool last = problem.after(int32_t(s)) < 0, first = problem.before(int32_t(s)) < 0;
    const bool more = !fused && stage.backwardContext > 0;
    std::vector<std::string> names, types;
    if (!first) {
      names.push_back(fmt::format("%g{}", s));
      types.push_back(gradient(s - 1));
    }
    if (more) {
      names.push_back(fmt::format("%d{}", s));
      types.push_back(fmt::format("!pipe.context<{}>", stage.backwardContext));
    }
    text += fmt::format("    {}pipe.backward{}(%a{}{}{}) stage {} {}cost {} : (!pipe.activation<{}>{}{}) -> ({})\n",
                        names.empty() ? "" : fmt::format("{} = ", fmt::join(names, ", ")), fused ? "" : "_input", s,
                        fused ? fmt::format(", %c{}", s) : "", last ? "" : fmt::format(", %g{}", s + 1), s,
                        at(block.backwardInput, s),
                        schedule::ownCost(stage, fused ? schedule::Letter::BW : schedule::Letter::B), stage.activation,
                        fused ? fmt::format(", !pipe.context<{}>", stage.context) : "", last ? "" : ", " + gradient(s),
                        fmt::join(types, ", "));
    if (!fused)
      text += fmt::format("    pipe.backward_weight(%c{}{}) stage {} {}cost {} : (!pipe.context<{}>{}) -> ()\n", s,
                          more ? fmt::format(", %d{}", s) : "", s, at(block.backwardWeight, s), stage.backwardWeight,
                          stage.context, more ? ", " + types.back() : "");
  }
  return text + "  }\n}\n";
}

schedule::Problem Random::problem() {
  schedule::Problem problem;
  problem.ranks = int32_t(1 + below(5));
  problem.microbatches = int32_t(1 + below(10));
  problem.backward = chance(2) ? BackwardMode::Fused : BackwardMode::Split;
  // Small numbers make ties, large ones make none.
  int64_t most = chance(2) ? 5 : 1'000'000;
  auto time = [&] { return chance(6) ? 0 : below(most); };
  auto link = [&] { return schedule::Link{chance(2) ? time() : 0, 0}; };
  int32_t chunks = chance(3) ? int32_t(2 + below(2)) : 1;
  problem.copies = chance(4) ? 2 : 1;
  if (problem.copies == 2)
    chunks = 2;
  if (chance(4))
    problem.slices = int32_t(1 + below(4));
  problem.microbatches *= problem.slices;
  problem.backwardGroup = problem.slices;
  for (int32_t s = 0; s != problem.ranks * chunks; ++s) {
    problem.stages.push_back({time(), time(), time(), time(), time(), below(64), below(64), below(64), below(64)});
    if (problem.backward == BackwardMode::Split) // what a word may have whole takes as long
      problem.stages.back().backward = problem.stages.back().backwardInput + problem.stages.back().backwardWeight;
    if (problem.backward == BackwardMode::Split && chance(2))
      problem.stages.back().backwardContext = below(64);
    if (s % 3 == 1)
      problem.stages.back().setGradientBack((problem.stages.back().boundary + 7 * s) % 64);
    problem.rankOf.push_back(s % problem.ranks);
  }
  if (problem.copies == 2) { // as many microbatches as the schedules with copies take, mostly
    problem.rankOf = schedule::placedBothWays(problem.ranks, problem.ranks);
    problem.microbatches += problem.slices * (problem.ranks - 1);
    for (int32_t s = 0; s != problem.ranks; ++s)
      problem.stages[size_t(problem.ranks + s)].gradients = problem.stages[size_t(s)].gradients;
  } else if (chunks > 1 && chance(2)) // any placement that gives each rank its stages
    std::shuffle(problem.rankOf.begin(), problem.rankOf.end(), engine);
  else if (chunks == 2 && chance(2)) // there and back
    std::reverse(problem.rankOf.begin() + problem.ranks, problem.rankOf.end());
  if (chance(2)) // with the backward of another stage of the rank, where there is one
    for (size_t f = 0; f != problem.stages.size(); ++f) {
      const schedule::Time forward = problem.stages[f].forward;
      for (size_t b = 0; b != problem.stages.size(); ++b)
        if (b != f && problem.rankOf[b] == problem.rankOf[f] && !problem.stages[f].overlapped)
          problem.stages[f].overlapped =
              std::max(forward, problem.stages[b].backward) + below(std::min(forward, problem.stages[b].backward) + 1);
    }
  if (problem.ranks > 1 && chance(4))
    problem.globalNorm = time();
  problem.link = link();
  for (int32_t from = 0; from < problem.ranks; ++from)
    for (int32_t to = 0; to < problem.ranks; ++to)
      if (from != to && chance(5))
        problem.links[{from, to}] = link();
  for (int32_t r = 0; r != problem.ranks; ++r) {
    problem.staticBytes.push_back(below(1000));
    problem.workspace.push_back(below(100));
  }
  return problem;
}

/// Slots in data order with random gaps; an interval under which no two of a rank meet.
bool Random::randomBlock(const schedule::Problem &problem, schedule::Block &block) {
  size_t stages = problem.stages.size();
  bool split = problem.backward == BackwardMode::Split;
  block.forward.resize(stages);
  block.backwardInput.resize(stages);
  block.backwardWeight.resize(split ? stages : 0);
  int64_t slot = 0;
  for (size_t s = 0; s != stages; ++s)
    block.forward[s] = slot += 1 + below(3);
  for (size_t s = stages; s-- != 0;) {
    block.backwardInput[s] = slot += 1 + below(4);
    if (split)
      block.backwardWeight[s] = slot + 1 + below(12);
  }
  block.interval = 2 + below(4);
  while (!schedule::check(problem, block).empty())
    if (++block.interval > 200)
      return false; // two of a rank in one slot
  return true;
}

/// Any entry that allows the problem, with any of its parameters.
bool Random::catalogued(RandomPipeline &made) {
  const std::vector<schedule::Entry> &entries = schedule::catalogue();
  const schedule::Entry &entry = entries[size_t(below(int64_t(entries.size())))];
  schedule::Parameters parameters;
  for (const schedule::Parameter &parameter : entry.parameters)
    if (chance(2))
      parameters.emplace(parameter.name, parameter.least + below(made.problem.microbatches));
  if (!schedule::check(entry, made.problem, parameters).empty())
    return false;
  // A parameter may be one under which the words stop (groups smaller than the ranks); the defaults never are.
  if (!parameters.empty() &&
      !schedule::verify(made.problem, schedule::wordsOf(entry, made.problem, parameters)).empty())
    return false;
  made.entry = &entry;
  made.problem.backwardGroup = entry.backwardGroup(made.problem);
  made.parameters = parameters;
  if (entry.block)
    made.block = entry.block(made.problem);
  return true;
}

schedule::Words RandomPipeline::words() const {
  return orders ? *orders : entry ? schedule::wordsOf(*entry, problem, parameters) : schedule::repeat(problem, block);
}

void Random::mix(RandomPipeline &made) {
  using schedule::Letter;
  schedule::Words words = made.words();
  for (schedule::Word &word : words)
    for (const schedule::Op &op : word)
      if (op.overlapped || op.letter == Letter::BW)
        return; // it has an order for them already
  made.problem.mixed = true;
  for (schedule::Stage &stage : made.problem.stages)
    stage.backward = stage.recompute + below(stage.backwardInput - stage.recompute + stage.backwardWeight + 1);
  for (schedule::Word &word : words)
    for (size_t i = 0; i + 1 < word.size(); ++i)
      if (word[i].letter == Letter::B && word[i + 1] == schedule::Op{word[i].stage, Letter::W, false} && !chance(3)) {
        word[i].letter = Letter::BW;
        word.erase(word.begin() + ptrdiff_t(i) + 1);
      }
  made.orders = std::move(words);
  made.entry = nullptr;
  made.parameters.clear();
  made.block = {};
}

void Random::recompute(schedule::Problem &problem) {
  for (int32_t s = 0; s != int32_t(problem.stages.size()); ++s) {
    schedule::Stage &stage = problem.stages[size_t(s)];
    if (const int32_t first = s % problem.stagesOfCopy(); first != s) { // as the first copy of it
      const schedule::Stage &its = problem.stages[size_t(first)];
      if (!its.input)
        continue;
      stage.activation = its.activation;
      stage.context = its.context;
      stage.input = its.input;
      stage.recompute = its.recompute;
    } else if (!chance(3)) {
      stage.input = below(stage.activation + stage.context + 1);
      stage.recompute = chance(4) ? 0 : below(stage.forward + 1);
    }
    stage.backward += stage.recompute;
    stage.backwardInput += stage.recompute;
  }
}

RandomPipeline Random::pipeline() {
  RandomPipeline made;
  made.problem = problem();
  if (chance(3))
    recompute(made.problem);
  made.communicator = std::vector{"per_edge", "per_pair", "launch_order", "shared"}[size_t(below(4))];
  bool found = false;
  for (int attempt = 0; attempt != 4 && !found; ++attempt)
    found = catalogued(made);
  if (!found) // a block knows no slices
    made.problem.slices = made.problem.backwardGroup = 1;
  while (!found)
    found = randomBlock(made.problem, made.block);
  if (made.problem.backward == BackwardMode::Split && chance(3))
    mix(made);
  return made;
}

} // namespace pipec::test
