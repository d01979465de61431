// Chooses bundles and their order by the resulting time of a step.
#pragma once

#include "compiler/schedule/exchange/Bundles.h"

#include <functional>
#include <optional>
#include <stop_token>

namespace pipec::schedule {

/// The time of a step with an exchange (its span); the largest Time if the step deadlocks.
using JudgeExchange = std::function<Time(const Exchange &)>;

struct ExchangeChoice {
  bool mayReduce = true, mayDecouple = true; // all-reduces; reduce-scatters with gathers
  std::optional<Bytes> fusion;               // layers with fewer bytes are joined; absent: the search chooses
  Time lower = 0;                            // lower bound of the time; the search ends when an exchange reaches it
  int64_t most = 24000;                      // most exchanges to judge
  std::stop_token stop = {};                 // on a request to stop, the search ends as soon as it has an exchange
};

struct ChosenExchange {
  Exchange exchange;
  Time time = 0;
  int64_t judged = 0;
};

/// The best of many bundlings: of equal sizes, of sizes that grow from the first layer on, and of variants of the best
/// by moving, joining and splitting bundles. Deterministic. The result may not be the optimum; the bound says how far
/// off it is at most.
ChosenExchange chooseExchange(const ExchangeInput &input, const ExchangeChoice &choice, const JudgeExchange &judge);

// Two moves of that search, starting from the bundling `from`, with a step time of `now`. Greedy; O(bundles of a stage)
// judged exchanges per round, and at most one round per bundle.

/// Decouples all-reduces into reduce-scatter and gather where the step gets no longer.
Bundling decoupled(const ExchangeInput &input, const Bundling &from, Time now, const JudgeExchange &judge);
/// Joins adjacent bundles where the step gets shorter: sums of the same kind with each other, and gathers with each
/// other.
Bundling fused(const ExchangeInput &input, const Bundling &from, Time now, const JudgeExchange &judge);

} // namespace pipec::schedule
