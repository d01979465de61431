#include "runtime/adapt/AdaptJson.h"

#include "runtime/plan/Text.h"

namespace pipec::adapt {

using nlohmann::ordered_json;

using plan::milliseconds;

ordered_json toJson(const Estimator &estimates, const plan::Variant &variant) {
  ordered_json links = ordered_json::array(), stages = ordered_json::array();
  for (const auto &[ends, each] : estimates.links())
    links.push_back({{"from", ends.first},
                     {"to", ends.second},
                     {"latency_us", double(each.latency) / 1e6},
                     {"bandwidth", each.bandwidth},
                     {"samples", each.samples},
                     {"spread", milliseconds(each.spread)},
                     {"since_ms", milliseconds(each.since)}});
  const int32_t shards = variant.shards();
  for (const auto &[process, each] : estimates.ranks())
    for (const int32_t stage : variant.programs[size_t(process / shards)].stages) {
      stages.push_back({{"stage", stage},
                        {"rank", process / shards},
                        {"percent", each.percent},
                        {"samples", each.samples},
                        {"since_ms", milliseconds(each.since)}});
      if (shards > 1)
        stages.back()["shard"] = process % shards;
    }
  return {{"links", links}, {"stages", stages}};
}

ordered_json toJson(const Decision &decision, int64_t step) {
  std::vector<double> predicted;
  for (const Time each : decision.predicted)
    predicted.push_back(milliseconds(each));
  return {{"step", step},
          {"at_ms", milliseconds(decision.at)},
          {"from", decision.from},
          {"to", decision.to},
          {"policy", decision.policy},
          {"why", decision.why},
          {"predicted_ms", predicted},
          {"dwell_s", double(decision.dwell) * milliseconds(decision.predicted[decision.to]) / 1e3}};
}

} // namespace pipec::adapt
