// The policies of published systems, each as its code has it (facts in the README). A policy makes an Exchange of what
// the layers weigh and of when their gradients are ready.
#pragma once

#include "compiler/schedule/exchange/Exchange.h"

#include <map>
#include <span>
#include <string>
#include <string_view>

namespace pipec::schedule {

/// What a policy leaves to the spec, bytes and picoseconds; those that a policy does not have it ignores.
struct PolicyParameters {
  Bytes bundle = 25 << 20; // ddp, horovod, dear, dear-queue: the size of a bundle
  Bytes first = 1 << 20;   // ddp: that of the first
  Time cycle = 1'000'000'000;
  Bytes piece = 16'000'000, credit = 64'000'000; // bytescheduler
};

/// What there is to exchange: the layers, the stages of each rank, and when gradients are ready.
struct ExchangeInput {
  const Replicas &replicas;
  const std::vector<std::vector<int32_t>> &stagesByRank;
  const Ready &ready;
};

struct Policy {
  std::string_view name;
  std::string_view source;
  bool decoupled = false;                        // sums are reduce-scatters, and gathers follow
  bool compiles = true;                          // a plan can be made of it
  std::vector<std::string_view> parameters = {}; // of PolicyParameters
  Bytes bundle = 0;                              // that of it
  bool triesBundles = false;                     // `bundle: best`, its default
  Exchange (*make)(const ExchangeInput &, const PolicyParameters &) = nullptr;
};

/// none, wfbp, mg-wfbp, ddp, horovod, bytescheduler, dear, dear-queue; in this order.
std::span<const Policy> policies();
/// Null: there is none of that name.
const Policy *findPolicy(std::string_view name);

/// Bundles of whole layers in the order of the forward, each closed before it would pass `size`. `first[i]`: the first
/// layer of bundle i.
std::vector<int32_t> bundlesBelow(const std::vector<ExchangedLayer> &layers, Bytes size);

} // namespace pipec::schedule
