// Why a rank (one of its shards) is idle or busy at a moment of the first step: the chain of causes, from what starts
// next back to the start of the step, and what more of the limits that it meets would gain.
#pragma once

#include "compiler/explain/BindingLimits.h"
#include "runtime/plan/Place.h"
#include "runtime/plan/Status.h"
#include "runtime/simulate/Recording.h"

#include <string>
#include <vector>

namespace pipec::emit {

/// One link of the chain: what a process's device ran without waiting for others in between, or one transfer. What
/// waited in a sum for another shard is there from when they met on.
struct CauseLink {
  std::string what;  // "rank 1 runs F stage 1 microbatch 2"
  int32_t place = 0; // rank * shards + shard; of a transfer: the receiver's
  int64_t instructions = 1;
  plan::Time start = 0, end = 0;
  simulate::Why why = simulate::Why::Begin; // why it did not start earlier: what the next link in the list is to it
};

struct Explanation {
  plan::Place place;
  plan::Time at = 0;
  bool busy = false;
  bool meets = false;           // it has begun what runs next, and waits in a sum for another shard
  plan::Time from = 0, to = 0;  // of the idle or busy stretch around `at`
  std::string next;             // what runs, or what runs next; empty: the rank has finished its step
  std::string job;              // of an idle stretch: what background jobs do in it; empty: the plan has none
  int64_t pieces = 0;           // of a job in it
  std::vector<CauseLink> chain; // latest first; each ends when the one before it in the list starts
  std::vector<Gain> gains;      // of raising the limits that hold up the chain longest
  plan::Time makespan = 0;
  bool measured = false; // of a real run
};

/// `at` counts from the start of the step; a rank, shard or time that the step does not have is an error (Code::Usage).
Status explain(const plan::Variant &variant, int32_t rank, plan::Time at, Explanation &explanation, int32_t shard = 0);
/// The same of a step of a real run (Recording::replay); what would change it is not tried.
Status explainRun(const plan::Variant &variant, const simulate::Recording &run, int32_t rank, plan::Time at,
                  Explanation &explanation, int32_t shard = 0);

/// "data", "order", …
const char *name(simulate::Why why);

std::string explanationJson(const Explanation &explanation);
/// For people: at most `links` links.
std::string explanationText(const Explanation &explanation, size_t links);

} // namespace pipec::emit
