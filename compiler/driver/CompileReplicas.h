// Replicas of a pipeline: turns the plan of one replica, which determines the order of its passes, into the plan of all
// replicas.
#pragma once

#include "compiler/driver/Auto.h"
#include "compiler/driver/Compile.h"
#include "compiler/passes/Passes.h"
#include "compiler/replicas/PolicyExchanges.h"

namespace pipec {

/// Checks, before anything is compiled, that the spec agrees with its policy of exchanging gradients.
mlir::LogicalResult checkPolicy(const spec::Spec &spec, mlir::MLIRContext &context);
/// Checks, before anything is compiled, that pipec supports exchanging the spec's gradients.
mlir::LogicalResult checkExchange(const spec::Spec &spec, mlir::MLIRContext &context);
/// Checks that a plan can be made of the policy, and that variants do not contradict each other. Sets `sharding` for
/// the variants.
mlir::LogicalResult checkPlans(const std::vector<spec::Spec> &specs, mlir::MLIRContext &context, Sharding &sharding);

/// Options of compileReplicas().
struct ReplicasOptions {
  Sharding sharding = Sharding::Any;
  Stage until = Stage::Plan; // Design, Programs: returns that IR as text, not the plan
  LowerPipelineOptions lower = {};
  std::stop_token stop = {}; // on a request to stop, the search for an exchange continues with the best so far
};

/// Turns the plan of one replica into that of all: chooses the exchange by the spec's policy, puts the exchange into
/// the programs, lowers and checks them. `spec` must have its degree and have passed checkExchange().
Code compileReplicas(const spec::Spec &spec, const ReplicasOptions &options, mlir::MLIRContext &context, Made &made);

} // namespace pipec
