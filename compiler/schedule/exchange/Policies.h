// The policies of published systems, each as its code has it (facts in the README). A policy makes an Exchange from the
// sizes of the layers and the times at which their gradients are ready.
#pragma once

#include "compiler/schedule/exchange/Exchange.h"

#include <map>
#include <span>
#include <string>
#include <string_view>

namespace pipec::schedule {

/// The parameters that a spec may set, in bytes and picoseconds. A policy ignores parameters that it does not have.
struct PolicyParameters {
  Bytes bundle = 25 << 20; // ddp, horovod, dear, dear-queue: the size of a bundle
  Bytes first = 1 << 20;   // ddp: size of the first bundle
  Time cycle = 1'000'000'000;
  Bytes piece = 16'000'000, credit = 64'000'000; // bytescheduler
};

/// The input of a policy: the layers, the stages of each rank, and when gradients are ready.
struct ExchangeInput {
  const Replicas &replicas;
  const std::vector<std::vector<int32_t>> &stagesByRank;
  const Ready &ready;
};

struct Policy {
  std::string_view name;
  std::string_view source;
  bool decoupled = false;                        // sums are reduce-scatters, followed by gathers
  bool compiles = true;                          // a plan can be made from its exchange
  std::vector<std::string_view> parameters = {}; // names in PolicyParameters that apply
  Bytes bundle = 0;                              // default of PolicyParameters::bundle
  bool triesBundles = false;                     // the default is `bundle: best`
  Exchange (*make)(const ExchangeInput &, const PolicyParameters &) = nullptr;
};

/// In this order: none, wfbp, mg-wfbp, ddp, horovod, bytescheduler, dear, dear-queue.
std::span<const Policy> policies();
/// Null if there is no policy of that name.
const Policy *findPolicy(std::string_view name);

/// Bundles of whole layers in the order of the forward. A bundle ends before it would exceed `size`. `first[i]`: the
/// first layer of bundle i.
std::vector<int32_t> bundlesBelow(const std::vector<ExchangedLayer> &layers, Bytes size);

} // namespace pipec::schedule
