#include "test/burst/DeepPool.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

using nlohmann::json;

namespace pipec::burst {
namespace {

const json &workloads() {
  static const json all = json::parse(std::ifstream(PIPEC_SOURCE_DIR "/test/bench/deeppool_workloads.json"));
  return all;
}

using Figures = std::map<int64_t, double>; // by batch

/// As a layer's times between entries.
double at(const Figures &figures, int64_t batch) {
  const auto above = figures.lower_bound(batch);
  if (above == figures.begin())
    return above->second;
  const auto below = std::prev(above);
  if (above == figures.end())
    return below->second * double(batch) / double(below->first);
  const double part = double(batch - below->first) / double(above->first - below->first);
  return below->second + part * (above->second - below->second);
}

Figures totalsOf(const std::string &name) { // in us
  Figures totals;
  for (const auto &[batch, total] : workloads()["measured_totals_ms"][name].items())
    totals[std::stoll(batch)] = total.get<double>() * 1000;
  return totals;
}

struct Block {
  Figures forward, backward;
  int64_t parameters = 0, elements = 0;
};

std::vector<Block> blocksOf(const std::string &name) {
  const json &model = workloads()["models"][name];
  std::vector<Block> blocks(model["num_blocks"].get<size_t>());
  for (const json &layer : model["layers"]) {
    Block &block = blocks[layer["block"].get<size_t>()];
    for (const auto &[batch, times] : layer["times_us"]["A100_tf32"].items()) {
      block.forward[std::stoll(batch)] += times[0].get<double>();
      block.backward[std::stoll(batch)] += times[1].get<double>();
    }
    block.parameters += layer["params"].get<int64_t>();
    block.elements = 1; // of the last layer's output
    for (const json &dimension : layer["out_shape"])
      block.elements *= dimension.get<int64_t>();
  }
  return blocks;
}

} // namespace

Model deepPool(const std::string &name, Size size) {
  constexpr int64_t kElement = 4;
  constexpr double kMicrosecond = 1e6;
  const Figures totals = totalsOf(name);
  const std::vector<Block> blocks = blocksOf(name);
  Figures ratios;
  for (const auto &[batch, time] : blocks.front().forward) {
    double sum = 0;
    for (const Block &block : blocks)
      sum += block.forward.at(batch) + block.backward.at(batch);
    ratios[batch] = at(totals, batch) / sum;
  }
  Model model;
  for (const Block &block : blocks) {
    Layer &layer = model.problem.layers.emplace_back();
    for (const auto &[batch, ratio] : ratios) {
      layer.forward.push_back({batch, std::llround(block.forward.at(batch) * ratio * kMicrosecond)});
      layer.backward.push_back({batch, std::llround(block.backward.at(batch) * ratio * kMicrosecond)});
    }
    layer.gradients = block.parameters * kElement;
    layer.perSample = block.elements * kElement;
  }
  model.problem.batch = size.batch;
  model.problem.ranks = size.ranks;
  model.problem.link = {.latency = 40'000'000, .bandwidth = 266'000'000'000};
  model.problem.collective = Collective::Tree;
  model.background = {.samples = 8, .time = std::llround(at(totals, 8) * kMicrosecond)};
  return model;
}

} // namespace pipec::burst
