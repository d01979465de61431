#include "compiler/schedule/exchange/Policies.h"

#include "compiler/schedule/exchange/Bundles.h"
#include "compiler/schedule/exchange/Coordinators.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace pipec::schedule {
namespace {

using MakeQueue = std::vector<Collective> (*)(const ExchangeInput &, const PolicyParameters &, size_t rank);

/// All-reduces alone; a stage is updated at once, behind all of them.
Exchange ofAllReduces(const ExchangeInput &input, const PolicyParameters &parameters, MakeQueue make) {
  Exchange exchange;
  exchange.updates = Updates::Stages;
  for (size_t rank = 0; rank != input.stagesByRank.size(); ++rank)
    exchange.queues.push_back(make(input, parameters, rank));
  return exchange;
}

/// All of a stage at once.
std::vector<Collective> oneByStage(const ExchangeInput &input, const PolicyParameters &, size_t rank) {
  std::vector<Collective> queue;
  Bundler bundler(queue);
  for (const Piece &piece : tensorsOf(input, rank))
    bundler.add(piece);
  bundler.close();
  return queue;
}

std::vector<Collective> oneByTensor(const ExchangeInput &input, const PolicyParameters &, size_t rank) {
  std::vector<Collective> queue;
  Bundler bundler(queue);
  for (const Piece &piece : tensorsOf(input, rank)) {
    bundler.add(piece);
    bundler.close();
  }
  return queue;
}

// The released code merges a tensor into the one behind it in the backward.
std::vector<Collective> merged(const ExchangeInput &input, const PolicyParameters &, size_t rank) {
  constexpr Bytes kSmall = 32 << 10;
  const CollectiveTime &takes = input.replicas.times.allReduce;
  const std::vector<Piece> pieces = tensorsOf(input, rank);
  std::vector<Collective> queue;
  Bundler bundler(queue);
  Time free = 0; // when the all-reduces before have ended
  for (size_t i = 0; i != pieces.size(); ++i) {
    bundler.add(pieces[i]);
    const Time start = std::max(free, pieces[i].ready);
    const bool isLast = i + 1 == pieces.size() || pieces[i + 1].stage != pieces[i].stage;
    if (!isLast &&
        (start > pieces[i + 1].ready || pieces[i + 1].ready - start < takes.of(0) || bundler.bytes() < kSmall))
      continue;
    free = later(start, takes.of(bundler.bytes()));
    bundler.close();
  }
  return queue;
}

// torch.nn.parallel.DistributedDataParallel: a bucket is closed once it has reached its size.
std::vector<Collective> bucketed(const ExchangeInput &input, const PolicyParameters &parameters, size_t rank) {
  std::vector<Collective> queue;
  Bundler bundler(queue);
  int32_t stage = -1;
  Bytes size = 0;
  for (const Piece &piece : tensorsOf(input, rank)) {
    if (std::exchange(stage, piece.stage) != piece.stage) // each stage has buckets of its own
      size = parameters.first;
    bundler.add(piece);
    if (bundler.bytes() < size)
      continue;
    bundler.close();
    size = parameters.bundle;
  }
  bundler.close();
  return queue;
}

Exchange none(const ExchangeInput &input, const PolicyParameters &parameters) {
  Exchange exchange = ofAllReduces(input, parameters, oneByStage);
  exchange.atEnd = true;
  return exchange;
}
Exchange wfbp(const ExchangeInput &input, const PolicyParameters &parameters) {
  return ofAllReduces(input, parameters, oneByTensor);
}
Exchange mgWfbp(const ExchangeInput &input, const PolicyParameters &parameters) {
  return ofAllReduces(input, parameters, merged);
}
Exchange ddp(const ExchangeInput &input, const PolicyParameters &parameters) {
  return ofAllReduces(input, parameters, bucketed);
}
Exchange horovod(const ExchangeInput &input, const PolicyParameters &parameters) {
  return ofAllReduces(input, parameters, horovodQueue);
}
Exchange byteScheduler(const ExchangeInput &input, const PolicyParameters &parameters) {
  Exchange exchange = ofAllReduces(input, parameters, byteSchedulerQueue);
  exchange.updates = Updates::Layers;
  return exchange;
}

/// Sums as their bundles are ready, the last layers first; then, in the order of the forward, the gathers.
Exchange dearQueue(const ExchangeInput &input, const PolicyParameters &parameters) {
  Exchange exchange;
  exchange.barrier = true;
  for (const std::vector<int32_t> &stages : input.stagesByRank) {
    std::vector<std::pair<Time, Collective>> sums;
    std::vector<Collective> gathers;
    for (const int32_t stage : stages) {
      const std::vector<ExchangedLayer> &layers = input.replicas.layers[size_t(stage)];
      const std::vector<Bytes> offsets = offsetsOf(layers);
      std::vector<int32_t> firsts = bundlesBelow(layers, parameters.bundle);
      firsts.push_back(int32_t(layers.size()));
      for (size_t i = 0; i + 1 != firsts.size(); ++i) {
        const int32_t first = firsts[i], last = firsts[i + 1];
        Collective sum{plan::Kind::ReduceScatter, stage, first, last - first, offsets[size_t(first)],
                       offsets[size_t(last)],     0};
        if (sum.begin == sum.end)
          continue;
        sums.emplace_back(input.ready[size_t(stage)][size_t(first)], sum);
        sum.kind = plan::Kind::AllGather;
        gathers.push_back(sum);
      }
    }
    std::sort(sums.begin(), sums.end(), [](const auto &one, const auto &other) {
      return std::tuple(one.first, one.second.stage, other.second.firstLayer) <
             std::tuple(other.first, other.second.stage, one.second.firstLayer);
    });
    std::vector<Collective> &queue = exchange.queues.emplace_back();
    for (const auto &[ready, sum] : sums)
      queue.push_back(sum);
    queue.insert(queue.end(), gathers.begin(), gathers.end());
  }
  return exchange;
}
Exchange dear(const ExchangeInput &input, const PolicyParameters &parameters) {
  Exchange exchange = dearQueue(input, parameters);
  exchange.ahead = true;
  return exchange;
}

constexpr std::string_view kDear = "DeAR, arXiv 2302.12445";

} // namespace

std::span<const Policy> policies() {
  static const std::vector<Policy> all = {
      {.name = "none", .source = "one all-reduce of each stage behind the last backward", .make = none},
      {.name = "wfbp", .source = "Poseidon, arXiv 1706.03292: each tensor as it is ready", .make = wfbp},
      {.name = "mg-wfbp", .source = "MG-WFBP, arXiv 1912.09268", .make = mgWfbp},
      {.name = "ddp",
       .source = "PyTorch DDP, arXiv 2006.15704",
       .parameters = {"bundle", "first"},
       .bundle = 25 << 20,
       .make = ddp},
      {.name = "horovod",
       .source = "Horovod, arXiv 1802.05799",
       .parameters = {"bundle", "cycle"},
       .bundle = 64 << 20,
       .make = horovod},
      {.name = "bytescheduler",
       .source = "ByteScheduler, SOSP 2019",
       .parameters = {"piece", "credit"},
       .make = byteScheduler},
      {.name = "dear",
       .source = kDear,
       .decoupled = true,
       .compiles = false,
       .parameters = {"bundle"},
       .triesBundles = true,
       .make = dear},
      {.name = "dear-queue",
       .source = kDear,
       .decoupled = true,
       .parameters = {"bundle"},
       .triesBundles = true,
       .make = dearQueue},
  };
  return all;
}

const Policy *findPolicy(std::string_view name) {
  const std::span<const Policy> all = policies();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Policy &each) { return each.name == name; });
  return found == all.end() ? nullptr : &*found;
}

} // namespace pipec::schedule
