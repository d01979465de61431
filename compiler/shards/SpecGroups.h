// The ranks of a spec as groups of shards.
#pragma once

#include "compiler/portions/Choose.h"
#include "compiler/schedule/model/Problem.h"
#include "compiler/spec/Spec.h"

#include <vector>

namespace pipec {

/// By rank: its group, with the stages that the problem's placement gives the rank, ascending. `cut`: layers of each
/// stage. `inFlight`: how many microbatches of each stage its rank holds at once, for memory limits; empty: not known,
/// so limits are ignored.
std::vector<portions::Group> groupsOf(const spec::Spec &spec, const schedule::Problem &problem,
                                      const std::vector<int64_t> &cut, const std::vector<int64_t> &inFlight = {});
/// A stage with the layers `first` to `first + count - 1` of the model.
portions::Stage stageOf(const spec::Spec &spec, int64_t first, int64_t count);
/// The portions that a balance chooses for a group. Trials of cuts and schedules ask for the same groups repeatedly, so
/// results are remembered for the lifetime of the thread.
portions::Chosen chosenOf(const portions::Group &group, const portions::Balance &balance);
portions::Balance balanceOf(const spec::Balance &balance);
/// The balance as JSON, without default values: {"name": "auto", "most": 0.125}.
std::string jsonOf(const spec::Balance &balance);

} // namespace pipec
