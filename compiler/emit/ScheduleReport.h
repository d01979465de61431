// What a plan is worth, in figures: for `pipec report` and after `pipec compile`.
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

/// A ring of transfer buffers that delays something in some timing (runtime/simulate/InFlight.h).
struct BindingRing {
  int32_t rank = 0, peer = 0;
  plan::Direction direction = plan::Direction::Send;
  uint32_t size = 0;                // slots
  std::optional<uint32_t> freeSize; // the least larger size that delays nothing; none: every size does
};

/// Figures of one variant, from one walk of it.
struct Report {
  std::string schedule, variant; // names; empty where the plan has none
  int32_t ranks = 0, stages = 0, copies = 1, slices = 1;
  int64_t microbatches = 0; // whole ones, of all copies
  plan::Certificate certificate;
  double bubbleRate = 0, spanBubbleRate = 0;
  std::vector<plan::Bytes> peakActivation, peak; // a rank each
  plan::Bytes ofJob = 0;                         // what the largest job of a rank has of that
  std::vector<int64_t> instructions;             // executed, a rank each
  int32_t degree = 1;                            // replicas of each rank
  plan::Time exposed = 0;                        // what of their exchange, and of sums of shared weights, nothing hides
  std::vector<plan::SharedWeight> shared;        // those that several ranks sum
  std::vector<int64_t> collectives;              // of gradients and weights, a rank each
  BalanceReport balance;                         // of shards
  JobsReport jobs;                               // background work
  WidthsReport widths;                           // of stages on several ranks
  /// For specs without a memory limit: bounds of all orders that need no more memory than this one's fullest rank.
  struct Bounds {
    plan::LeastTime makespan, span;
  };
  std::optional<Bounds> atOwnMemory;
  std::vector<int32_t> cut;                             // layers of each stage, where pipec chose them
  plan::LeastTime cutBound;                             // no cut has a plan that takes less
  std::vector<int32_t> recompute;                       // the stages that run their forward again
  size_t rings = 0;                                     // of all ranks
  std::optional<std::vector<BindingRing>> bindingRings; // absent: not asked about
  /// Of a round of an evaluation (runtime/plan/Evaluation.h).
  struct Evaluation {
    plan::Time makespan = 0;
    std::vector<plan::Bytes> peak; // a rank each
  };
  std::optional<Evaluation> evaluation; // none: the plan has none, or it is not asked about
  std::vector<plan::Time> steps;        // under a network, each step's time; empty: none was asked about
};

struct PlanReport {
  std::vector<Report> variants;
  int64_t planBytes = 0;
  double compileMs = -1; // negative: read from a file, nothing was compiled
  std::string stoppedBy; // what ended the search for it early; empty: nothing did
};

/// Walks every variant; the status says why if one stops.
Status report(const plan::Plan &plan, PlanReport &report);
/// Adds the figures of one variant of a plan, from a walk that has been made.
Status add(const plan::Plan &plan, const plan::Variant &variant, const simulate::Result &result, PlanReport &report);

/// Finds the rings of every variant that bind in some timing. Variants of more than 2^24 instructions are left out.
Status addRings(const plan::Plan &plan, PlanReport &report);

/// Walks the evaluation of every variant, where the plan has evaluations. Variants of more than 2^24 instructions are
/// left out.
Status addEvaluations(const plan::Plan &plan, PlanReport &report);

/// Simulates so many steps of every variant under a network.
Status addNetwork(const plan::Plan &plan, const simulate::Scenario &network, int64_t steps, PlanReport &report);

/// One JSON object (design, section 7): variant 0's figures, and `variants` with those of each.
std::string reportJson(const PlanReport &report);
/// For people.
std::string reportText(const PlanReport &report);

} // namespace pipec::emit
