// Lower bounds of the times of passes with shards. A plan is simulated by process: one shard may begin a pass early,
// and another may continue after its last sum, so a pass has no single time.
#pragma once

#include "compiler/portions/Choose.h"
#include "compiler/schedule/cut/Balance.h"
#include "compiler/spec/Spec.h"

namespace pipec {

/// Three ways to define such a time. None is always the best.
struct Least {
  enum class By : uint8_t {
    Slowest, // between sums the slowest shard; after the last sum, and if there is no sum, the fastest
    /// The mean of all shards, weighted by speed, which is the same for all portions; after the last sum the fastest.
    Mean,
    /// Before the first sum and after the last, the shard with this number on every rank; between sums the slowest.
    One,
  };
  By by = By::Slowest;
  size_t shard = 0;
};
/// The ways that may be the best for these groups.
std::vector<Least> leastsOf(const std::vector<portions::Group> &groups);

/// The least time of a pass of a stage of a group: with `asGiven` for the given portions, else for all portions that
/// the balance allows.
schedule::Time leastOf(const portions::Group &group, const portions::Stage &stage, const portions::StagePortions &given,
                       const portions::Balance &balance, portions::Pass pass, const Least &least, bool asGiven);

/// Whether a balance leaves no choice, so that bounds hold for its own portions.
inline bool isFixed(const spec::Balance &balance) { return balance.kind.value == spec::BalanceKind::Even; }

/// Sets the least work of each layer on its rank in a step, for a rank with healthy shards, and the time of the other
/// ranks in percent of that.
void useShards(const spec::Spec &spec, const schedule::Problem &problem, schedule::CutWork &work);

} // namespace pipec
