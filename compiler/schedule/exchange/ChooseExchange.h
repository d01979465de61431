// Bundles and their order, chosen by what the step then takes.
#pragma once

#include "compiler/schedule/exchange/Bundles.h"

#include <functional>
#include <optional>

namespace pipec::schedule {

/// What a step takes with an exchange (its span); the largest Time where it never ends.
using JudgeExchange = std::function<Time(const Exchange &)>;

struct ExchangeChoice {
  bool mayReduce = true, mayDecouple = true; // by all-reduces; by halves
  std::optional<Bytes> fusion;               // layers are joined below this; absent: chosen
  Time lower = 0;                            // no exchange takes less: a search ends there
  int64_t most = 24000;                      // exchanges that are judged, at most
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

} // namespace pipec::schedule
