#include "test/passes/RandomPipeline.h"

#include "compiler/schedule/Catalogue.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace pipec::test {

using schedule::BackwardMode;

std::string RandomPipeline::text() const {
  size_t stages = problem.stages.size();
  std::string text = fmt::format("pipe.pipeline @random placement [{}] microbatches {} communicator {} "
                                 "link <-1 to -1 latency {} bandwidth {}> attributes {{",
                                 fmt::join(problem.rankOf, ", "), problem.microbatches, communicator,
                                 problem.link.latency, problem.link.bandwidth);
  std::vector<std::string> links;
  for (const auto &[pair, link] : problem.links)
    links.push_back(fmt::format("#pipe.link<{} to {} latency {} bandwidth {}>", pair.first, pair.second, link.latency,
                                link.bandwidth));
  std::vector<schedule::Time> optimizer;
  for (const schedule::Stage &stage : problem.stages)
    optimizer.push_back(stage.optimizer);
  text += fmt::format("links = [{}], optimizer = array<i64: {}>, static_bytes = array<i64: {}>, workspace = array<i64: "
                      "{}>",
                      fmt::join(links, ", "), fmt::join(optimizer, ", "), fmt::join(problem.staticBytes, ", "),
                      fmt::join(problem.workspace, ", "));
  if (problem.memoryLimit)
    text += fmt::format(", memory_limit = {} : i64", problem.memoryLimit);
  text += fmt::format("}} {{\n  pipe.block interval {} {{\n", block.interval);
  auto tensor = [&](size_t upstream) { return fmt::format("!pipe.tensor<{}>", problem.stages[upstream].boundary); };
  for (size_t s = 0; s != stages; ++s) {
    const schedule::Stage &stage = problem.stages[s];
    std::string sends = s + 1 != stages ? tensor(s) + ", " : "";
    text +=
        fmt::format("    {}%a{}, %c{} = pipe.forward{} stage {} at {} cost {} : ({}) -> ({}!pipe.activation<{}>, "
                    "!pipe.context<{}>)\n",
                    s + 1 != stages ? fmt::format("%t{}, ", s) : "", s, s, s ? fmt::format("(%t{})", s - 1) : "", s,
                    block.forward[s], stage.forward, s ? tensor(s - 1) : "", sends, stage.activation, stage.context);
  }
  bool fused = problem.backward == BackwardMode::Fused;
  for (size_t s = stages; s-- != 0;) {
    const schedule::Stage &stage = problem.stages[s];
    bool last = s + 1 == stages;
    text += fmt::format("    {}pipe.backward{}(%a{}{}{}) stage {} at {} cost {} : (!pipe.activation<{}>{}{}) -> {}\n",
                        s ? fmt::format("%g{} = ", s) : "", fused ? "" : "_input", s,
                        fused ? fmt::format(", %c{}", s) : "", last ? "" : fmt::format(", %g{}", s + 1), s,
                        block.backwardInput[s], fused ? stage.backward : stage.backwardInput, stage.activation,
                        fused ? fmt::format(", !pipe.context<{}>", stage.context) : "", last ? "" : ", " + tensor(s),
                        s ? tensor(s - 1) : "()");
    if (!fused)
      text += fmt::format("    pipe.backward_weight(%c{}) stage {} at {} cost {} : (!pipe.context<{}>) -> ()\n", s, s,
                          block.backwardWeight[s], stage.backwardWeight, stage.context);
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
  for (int32_t s = 0; s != problem.ranks * chunks; ++s) {
    problem.stages.push_back({time(), time(), time(), time(), time(), below(64), below(64), below(64)});
    problem.rankOf.push_back(s % problem.ranks);
  }
  if (chunks > 1 && chance(2)) // any placement that gives each rank its stages
    std::shuffle(problem.rankOf.begin(), problem.rankOf.end(), engine);
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

RandomPipeline Random::pipeline() {
  RandomPipeline made;
  made.problem = problem();
  made.communicator = std::vector{"per_edge", "per_pair", "shared"}[size_t(below(3))];
  bool oneStageEach = made.problem.stages.size() == size_t(made.problem.ranks);
  if (oneStageEach && !chance(3))
    made.block = schedule::find(chance(2) ? "1f1b" : "gpipe")->block(made.problem);
  else
    while (!randomBlock(made.problem, made.block))
      ;
  return made;
}

} // namespace pipec::test
