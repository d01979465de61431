// JSON of what the decision maker knows and has decided, for reports and runs.
#pragma once

#include "runtime/adapt/Decider.h"

#include <nlohmann/json.hpp>

namespace pipec::adapt {

/// `links`: from, to, latency_us, bandwidth (bytes/s), samples, spread (ms), since_ms. `stages`: stage, rank, percent,
/// samples, since_ms. `variant` says which stages a rank has.
nlohmann::ordered_json toJson(const Estimator &estimates, const plan::Variant &variant);

/// step (the first under it), at_ms, from, to, policy, why, predicted_ms (of each candidate), dwell_s.
nlohmann::ordered_json toJson(const Decision &decision, int64_t step);

} // namespace pipec::adapt
