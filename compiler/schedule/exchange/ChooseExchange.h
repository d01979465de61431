// Bundles and their order, chosen by what the step then takes.
#pragma once

#include "compiler/schedule/exchange/Bundles.h"

#include <functional>
#include <optional>
#include <stop_token>

namespace pipec::schedule {

/// What a step takes with an exchange (its span); the largest Time where it never ends.
using JudgeExchange = std::function<Time(const Exchange &)>;

struct ExchangeChoice {
  bool mayReduce = true, mayDecouple = true; // by all-reduces; by halves
  std::optional<Bytes> fusion;               // layers are joined below this; absent: chosen
  Time lower = 0;                            // no exchange takes less: a search ends there
  int64_t most = 24000;                      // exchanges that are judged, at most
  std::stop_token stop = {};                 // asked to stop, a search ends once it has an exchange
};

struct ChosenExchange {
  Exchange exchange;
  Time time = 0;
  int64_t judged = 0;
};

/// The best of many bundlings: of equal sizes, of sizes that grow from the first layer on, and of what moving, joining
/// and splitting bundles makes of the best of them. Deterministic. Not the optimum; the bound says how far it may be
/// off.
ChosenExchange chooseExchange(const ExchangeInput &input, const ExchangeChoice &choice, const JudgeExchange &judge);

// Two moves of that search by themselves, from a bundling on whose step takes `now`. Greedy; O(bundles of a stage)
// judged exchanges a round, and a round for each bundle at most.

/// All-reduces are decoupled into halves where that makes the step no longer.
Bundling decoupled(const ExchangeInput &input, const Bundling &from, Time now, const JudgeExchange &judge);
/// Bundles next to each other are joined, sums of one kind and gathers each for themselves, where that makes the step
/// shorter.
Bundling fused(const ExchangeInput &input, const Bundling &from, Time now, const JudgeExchange &judge);

} // namespace pipec::schedule
