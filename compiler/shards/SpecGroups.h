// The ranks of a spec as groups of shards.
#pragma once

#include "compiler/portions/Choose.h"
#include "compiler/schedule/model/Problem.h"
#include "compiler/spec/Spec.h"

#include <vector>

namespace pipec {

/// Of each rank, with the stages that the problem's placement gives it, ascending. `cut`: layers of each stage.
/// `inFlight`: how many microbatches of each stage its rank holds at once, for memory limits; empty: they are not
/// known, and limits not looked at.
std::vector<portions::Group> groupsOf(const spec::Spec &spec, const schedule::Problem &problem,
                                      const std::vector<int64_t> &cut, const std::vector<int64_t> &inFlight = {});
/// A stage of these layers, `first` to `first + count` of the model.
portions::Stage stageOf(const spec::Spec &spec, int64_t first, int64_t count);
/// What a balance gives a group. Trials of cuts and schedules ask of the same groups again and again: they are
/// remembered as long as the thread lives.
portions::Chosen chosenOf(const portions::Group &group, const portions::Balance &balance);
portions::Balance balanceOf(const spec::Balance &balance);
/// The balance as JSON, without what goes without saying: {"name": "auto", "most": 0.125}.
std::string jsonOf(const spec::Balance &balance);

} // namespace pipec
