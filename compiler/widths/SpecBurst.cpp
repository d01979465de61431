#include "compiler/widths/SpecBurst.h"

#include <algorithm>

namespace pipec::widths {
namespace {

/// Of the first n ranks, by n - 1: the longest latency and the least bandwidth between two of them. Empty: all are
/// alike.
std::vector<schedule::Link> slowestOf(const spec::Spec &spec) {
  if (spec.links.empty())
    return {};
  std::vector<schedule::Link> slowest(size_t(spec.ranks.value), {spec.link.latency, spec.link.bandwidth});
  for (const spec::LinkException &each : spec.links)
    for (auto n = size_t(std::max(each.from, each.to)); n < slowest.size(); ++n) {
      schedule::Link &own = slowest[n];
      own.latency = std::max(own.latency, each.link.latency);
      if (each.link.bandwidth != 0)
        own.bandwidth = own.bandwidth == 0 ? each.link.bandwidth : std::min(own.bandwidth, each.link.bandwidth);
    }
  return slowest;
}

} // namespace

std::vector<const spec::Layer *> layersOf(const spec::Spec &spec) {
  std::vector<const spec::Layer *> layers;
  for (const spec::Layer &each : spec.layers->entries)
    layers.insert(layers.end(), size_t(each.count), &each);
  return layers;
}

burst::Problem problemOf(const spec::Spec &spec) {
  burst::Problem problem;
  for (const spec::Layer *each : layersOf(spec))
    problem.layers.push_back({each->bySamples.forward, each->bySamples.backward, each->figures[plan::Figure::Gradients],
                              each->bySamples.boundary.fixed, each->bySamples.boundary.perSample});
  problem.batch = spec.microbatchSize->value;
  problem.ranks = spec.ranks.value;
  problem.link = {spec.link.latency, spec.link.bandwidth};
  problem.slowest = slowestOf(spec);
  problem.collective =
      spec.collective.value == spec::GroupSum::Tree ? burst::Collective::Tree : burst::Collective::Ring;
  problem.choices = spec.burst->choices == spec::WidthChoices::All ? burst::Choices::All : burst::Choices::Powers;
  return problem;
}

std::vector<Stage> stagesOf(const burst::Widths &widths) {
  std::vector<Stage> stages;
  for (size_t layer = 0; layer != widths.size(); ++layer) {
    if (stages.empty() || stages.back().width != widths[layer])
      stages.push_back({layer, layer, widths[layer]});
    stages.back().end = layer + 1;
  }
  return stages;
}

} // namespace pipec::widths
