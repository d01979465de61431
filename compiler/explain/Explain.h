// Explains why a rank (one of its shards) is idle or busy at a moment of the first step: the chain of causes, from what
// starts next back to the start of the step, and the gain from raising the limits in the chain.
#pragma once

#include "compiler/explain/BindingLimits.h"
#include "runtime/plan/Place.h"
#include "runtime/plan/Status.h"
#include "runtime/simulate/Recording.h"

#include <string>
#include <vector>

namespace pipec::emit {

/// One link of the chain: instructions that a process's device ran without waiting for others in between, or one
/// transfer. Work that waited in a sum for another shard counts from the time when the shards met.
struct CauseLink {
  std::string what;  // "rank 1 runs F stage 1 microbatch 2"
  int32_t place = 0; // rank * shards + shard; for a transfer, of the receiver
  int64_t instructions = 1;
  plan::Time start = 0, end = 0;
  simulate::Why why = simulate::Why::Begin; // why it did not start earlier: the relation to the next link in the list
};

struct Explanation {
  plan::Place place;
  plan::Time at = 0;
  bool busy = false;
  bool meets = false;           // it has begun what runs next, and is waiting in a sum for another shard
  plan::Time from = 0, to = 0;  // start and end of the idle or busy time around `at`
  std::string next;             // what runs, or what runs next; empty: the rank has finished its step
  std::string job;              // for idle time: what background jobs do in it; empty: the plan has none
  int64_t pieces = 0;           // pieces of a job in that time
  std::vector<CauseLink> chain; // latest first; each link ends when the link before it in the list starts
  std::vector<Gain> gains;      // gains from raising the limits that delay the chain longest
  plan::Time makespan = 0;
  bool measured = false; // whether this is a real run
};

/// `at` counts from the start of the step; a rank, shard or time that the step does not have is an error (Code::Usage).
Status explain(const plan::Variant &variant, int32_t rank, plan::Time at, Explanation &explanation, int32_t shard = 0);
/// The same for a step of a real run (Recording::replay), without trying changes.
Status explainRun(const plan::Variant &variant, const simulate::Recording &run, int32_t rank, plan::Time at,
                  Explanation &explanation, int32_t shard = 0);

/// "data", "order", …
const char *name(simulate::Why why);

std::string explanationJson(const Explanation &explanation);
/// For people: at most `links` links.
std::string explanationText(const Explanation &explanation, size_t links);

} // namespace pipec::emit
