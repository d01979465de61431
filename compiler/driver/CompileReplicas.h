// Replicas of a pipeline: from the plan of one of them, which says the order of its passes, to the plan of all.
#pragma once

#include "compiler/driver/Auto.h"
#include "compiler/driver/Compile.h"
#include "compiler/passes/Passes.h"
#include "compiler/replicas/PolicyExchanges.h"

namespace pipec {

/// Says what is wrong where a spec contradicts its policy of exchanging gradients, before anything is compiled.
mlir::LogicalResult checkPolicy(const spec::Spec &spec, mlir::MLIRContext &context);
/// Says what of a spec cannot be exchanged, or not yet, before anything is compiled.
mlir::LogicalResult checkExchange(const spec::Spec &spec, mlir::MLIRContext &context);
/// Says why no plan can be made of a policy, and where variants contradict each other. Sets how they shard.
mlir::LogicalResult checkPlans(const std::vector<spec::Spec> &specs, mlir::MLIRContext &context, Sharding &sharding);

/// What compileReplicas() is asked for besides the plan.
struct ReplicasOptions {
  Sharding sharding = Sharding::Any;
  Stage until = Stage::Plan; // Design, Programs: that IR as text, in place of the plan
  LowerPipelineOptions lower = {};
  std::stop_token stop = {}; // asked to stop, the search for an exchange goes on with the best so far
};

/// Makes the plan of one replica that of all: chooses the exchange by the spec's policy, puts it into the programs, and
/// lowers and checks them. `spec`: with its degree; it has passed checkExchange().
Code compileReplicas(const spec::Spec &spec, const ReplicasOptions &options, mlir::MLIRContext &context, Made &made);

} // namespace pipec
