// What no walk of a plan with shards passes: times of passes for bounds. The walk goes over processes, of which one may
// begin a pass early and another go on behind its last sum, so a pass has no one time.
#pragma once

#include "compiler/portions/Choose.h"
#include "compiler/schedule/cut/Balance.h"
#include "compiler/spec/Spec.h"

namespace pipec {

/// Three ways to say it, none of which is always the best.
struct Least {
  enum class By : uint8_t {
    Slowest, // between sums the slowest shard counts; behind the last one, and where there is none, the fastest
    Mean,    // all count by how fast they are, which is the same whichever units they have; behind the last the fastest
    One,     // at both ends one shard, of this number on every rank; between two sums the slowest
  };
  By by = By::Slowest;
  size_t shard = 0;
};
/// Those that may be the best for these groups.
std::vector<Least> leastsOf(const std::vector<portions::Group> &groups);

/// Of a pass of a stage of a group: with `asGiven`, on the portions that it has; else on all that the balance allows.
schedule::Time leastOf(const portions::Group &group, const portions::Stage &stage, const portions::StagePortions &given,
                       const portions::Balance &balance, portions::Pass pass, const Least &least, bool asGiven);

/// Whether a balance chooses nothing, so that bounds are of its own portions.
inline bool isFixed(const spec::Balance &balance) { return balance.kind.value == spec::BalanceKind::Even; }

/// What each layer takes of its rank in a step at least: of a rank whose shards are all healthy, and what the others
/// take in percent of that.
void useShards(const spec::Spec &spec, const schedule::Problem &problem, schedule::CutWork &work);

} // namespace pipec
