// The replicas of a spec (data_parallel), for the stages of a problem.
#pragma once

#include "compiler/schedule/exchange/BoundsExchange.h"
#include "compiler/schedule/exchange/Replicas.h"
#include "compiler/schedule/model/LeastProblem.h"
#include "compiler/spec/Spec.h"

namespace pipec {

/// `cut`: layers of each stage; empty: the spec has no layers, and a stage counts as one.
schedule::Replicas replicasOf(const spec::Spec &spec, const schedule::Problem &problem,
                              const std::vector<int64_t> &cut);

/// The collectives that a search for an exchange may use.
schedule::MayExchange mayOf(const spec::Spec &spec);
/// Whether the spec and its policy allow dividing updates among the replicas.
bool mayShard(const spec::Spec &spec);

/// The spec of one replica alone, for the order of its passes. If updates may be divided, its static memory is the
/// least that any exchange leaves.
spec::Spec ofOneReplica(spec::Spec spec);
/// The problem of that spec with the static memory that whole updates need.
schedule::Problem withWholeState(schedule::Problem problem, const spec::Spec &spec, const std::vector<int64_t> &cut);
/// By rank, the bytes of the optimizer's state that sharding all layers with gradients saves on each replica.
std::vector<schedule::Bytes> savedByRank(const schedule::Replicas &replicas, const schedule::Problem &problem);
/// The problem without the work that an exchange may move beside passes, so that no plan of replicas takes less:
/// updates, which replicas may also divide, and a norm, if the next step's forward may begin with layers that do not
/// wait for the norm. `problem`: that of one replica, with no more static memory than the replica has.
schedule::LeastProblem leastOfReplica(schedule::Problem problem, const spec::Spec &spec);

} // namespace pipec
