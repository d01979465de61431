// Scenario files. JSON, durations and bandwidths with units as in specs; examples stand in specs/networks. Everything
// but `scenario` may be left out.
//
//   {
//     "scenario": 1,                                        the format
//     "default": {"bandwidth": "1GB/s", "latency": "50us"}, other links; without it they are as in the plan
//     "links": [
//       {"from": 0, "to": 1,                                a directed pair of ranks
//        "bandwidth": "100MB/s", "latency": "1ms",          without: the default's, else unlimited and 0s
//        "changes": [{"at": "300ms", "bandwidth": "1GB/s"}, ascending; what is not given stays as it was
//                    {"at": "600ms", "latency": "5ms"}],
//        "repeat": "1s"}                                    period of the changes, later than all of them
//     ],
//     "replicas": {"bandwidth": "1GB/s"},                   links between a rank's replicas, in rings; without it
//                                                           collectives of layers take the plan's times
//     "faults": [
//       {"cut": [1, 2], "at": "2s"},                        from then on nothing passes between them; no rank is told
//       {"slow": 3, "percent": 150, "at": "1s", "until": "2s"},  operations of rank 3 that start then take 150 %
//                                                           (at: from 0s; until: for ever)
//       {"slow": 3, "shard": 1, "percent": 400}             the own time of that shard is 400 % of a healthy one's,
//     ]                                                     in place of the plan's factor; the first entry counts
//   }
//
// `default` and `replicas` may have `changes` and `repeat` as well. Unknown keys and keys given twice are errors.
#pragma once

#include "runtime/simulate/Json.h"
#include "runtime/simulate/Scenario.h"

#include <string>

namespace pipec::simulate {

/// Reads a scenario for a plan of `ranks` ranks, each of `shards` shards. On failure (Code::Input) `place` says where
/// in the file.
Status readScenario(const std::string &path, int32_t ranks, Scenario &scenario, Place &place, int32_t shards = 1);

/// The same from a text.
Status parseScenario(std::string_view text, int32_t ranks, Scenario &scenario, Place &place, int32_t shards = 1);

} // namespace pipec::simulate
