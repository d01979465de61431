// The figures of a plan, for `pipec report` and after `pipec compile`.
#pragma once

#include "compiler/emit/BalanceReport.h"
#include "compiler/emit/JobsReport.h"
#include "compiler/emit/WidthsReport.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"
#include "runtime/simulate/Scenario.h"
#include "runtime/simulate/Simulate.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipec::emit {

/// A ring of transfer buffers that can delay a transfer in some timing (runtime/simulate/InFlight.h).
struct BindingRing {
  int32_t rank = 0, peer = 0;
  plan::Direction direction = plan::Direction::Send;
  uint32_t size = 0;                // slots
  std::optional<uint32_t> freeSize; // the least larger size that never delays a transfer; none: every size can
};

/// The figures of one variant, from one simulation.
struct Report {
  std::string schedule, variant; // names; empty where the plan has none
  int32_t ranks = 0, stages = 0, copies = 1, slices = 1;
  int64_t microbatches = 0; // whole microbatches, of all copies
  plan::Certificate certificate;
  double bubbleRate = 0, spanBubbleRate = 0;
  std::vector<plan::Bytes> peakActivation, peak; // by rank, in bytes
  plan::Bytes ofJob = 0;                         // bytes of `peak` that belong to the largest job of a rank
  std::vector<int64_t> instructions;             // instructions executed, by rank
  int32_t degree = 1;                            // replicas of each rank
  /// Time of their exchange, and of sums of shared weights, that does not overlap other work.
  plan::Time exposed = 0;
  std::vector<plan::SharedWeight> shared; // those that several ranks sum
  std::vector<int64_t> collectives;       // collectives of gradients and weights, by rank
  BalanceReport balance;                  // of shards
  JobsReport jobs;                        // background work
  WidthsReport widths;                    // of stages on several ranks
  /// For specs without a memory limit: lower bounds for all orders that need no more memory than the fullest rank of
  /// this one.
  struct Bounds {
    plan::LeastTime makespan, span;
  };
  std::optional<Bounds> atOwnMemory;
  std::vector<int32_t> cut;                             // layers of each stage, if pipec chose them
  plan::LeastTime cutBound;                             // lower bound for the plans of all cuts
  std::vector<int32_t> recompute;                       // the stages that are recomputed
  size_t rings = 0;                                     // of all ranks
  std::optional<std::vector<BindingRing>> bindingRings; // absent: not requested
  /// One round of an evaluation (runtime/plan/Evaluation.h).
  struct Evaluation {
    plan::Time makespan = 0;
    std::vector<plan::Bytes> peak; // by rank, in bytes
  };
  std::optional<Evaluation> evaluation; // none: the plan has no evaluation, or it was not requested
  std::vector<plan::Time> steps;        // with a simulated network: the time of each step; empty: none was requested
};

struct PlanReport {
  std::vector<Report> variants;
  int64_t planBytes = 0;
  double compileMs = -1; // negative: read from a file, nothing was compiled
  std::string stoppedBy; // what ended the plan's search early; empty: nothing
};

/// Simulates every variant; the status is an error if one deadlocks.
Status report(const plan::Plan &plan, PlanReport &report);
/// Adds the figures of one variant of a plan, from a finished simulation.
Status add(const plan::Plan &plan, const plan::Variant &variant, const simulate::Result &result, PlanReport &report);

/// Finds the rings of every variant that can delay a transfer in some timing. Skips variants of more than 2^24
/// instructions.
Status addRings(const plan::Plan &plan, PlanReport &report);

/// Simulates the evaluation of every variant, if the plan has evaluations. Skips variants of more than 2^24
/// instructions.
Status addEvaluations(const plan::Plan &plan, PlanReport &report);

/// Simulates `steps` steps of every variant under a network.
Status addNetwork(const plan::Plan &plan, const simulate::Scenario &network, int64_t steps, PlanReport &report);

/// One JSON object (design, section 7): variant 0's figures, and `variants` with those of each.
std::string reportJson(const PlanReport &report);
/// For people.
std::string reportText(const PlanReport &report);

} // namespace pipec::emit
