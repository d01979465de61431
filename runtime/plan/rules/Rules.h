// What must hold of a plan: one function a rule, and its number. RULES.md has the statements and the tests. A message
// begins with its rule's label ("P7: …"). P1 to P5 look at the file and stand in Decode.cpp; P36 (progress) is the walk
// of runtime/simulate.
//
// The functions stand in the order in which they are asked, and each may rely on those before it: an index that a rule
// has checked is used without a check afterwards.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/StageLayers.h"
#include "runtime/plan/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace pipec::plan {

/// Rules P6 to P20, which look at tables (Code::Input). O(rows), whatever the trip counts are.
Status checkTables(const Plan &plan);
Status checkVariant(const Variant &variant);

/// Rules P21 to P60, which look at the whole (Code::Check); needs checkTables. O(instructions executed), in memory 12
/// bytes for each that one rank executes; nothing is walked before the counts of P21 and P23 agree.
Status checkWhole(const Plan &plan);
Status checkWhole(const Variant &variant);

namespace rules {

inline bool within(int64_t value, int64_t least, int64_t most) { return least <= value && value <= most; }

/// Whether values for a library are a FlexBuffer whose keys end inside it, or none.
bool isProvider(const std::vector<uint8_t> &values);

/// One number for a peer and a direction.
inline uint64_t endOf(int32_t peer, Direction direction) { return uint64_t(uint32_t(peer)) << 1 | uint64_t(direction); }
inline uint64_t endOf(const Operation &o) {
  return endOf(o.peer, plan::sends(o.kind) ? Direction::Send : Direction::Recv);
}

/// What several rules ask of a program; valid once P13 holds.
struct Facts {
  std::vector<uint32_t> trips;    // of each instruction
  std::vector<int64_t> queue;     // instructions executed on each queue
  std::vector<int64_t> operation; // how often each operation is executed
};
Facts factsOf(const Program &program);

/// Stage → its rank, the last of several; valid once P9 holds.
std::vector<int32_t> rankOfStages(const Variant &variant);

// Of the plan and its variants: RulesPlan.cpp.
Status onlySupported(const Variant &variant); // P6
Status planSizes(const Plan &plan);           // P7
Status variantSizes(const Variant &variant);  // P7, of one variant
Status shardCount(const Variant &variant);    // P45, of one variant
Status processes(const Plan &plan);           // P45
Status stages(const Variant &variant);        // P9
Status certificate(const Variant &variant);   // P19
Status names(const Variant &variant);         // P59
Status provider(const Plan &plan);            // P20
Status groups(const Plan &plan);              // P44, which needs all others of tables

// Of a program's tables: RulesTables.cpp; P17 and P18: RulesCounts.cpp.
Status queues(const Variant &variant, const Program &program); // P10
Status operations(const Variant &variant, const Program &program,
                  const StageLayers &layers);                                            // P11
Status streams(const Program &program);                                                  // P12
Status instructions(const Program &program);                                             // P13
Status pairs(const Program &program);                                                    // P43
Status lengths(const Variant &variant);                                                  // P14
Status rings(const Program &program, const Facts &facts);                                // P15
Status microbatches(const Variant &variant, const Program &program, const Facts &facts); // P16
Status waitCounts(const Program &program, const Facts &facts);                           // P17
Status waitOrder(const Program &program);                                                // P18

// Of layers, where there are replicas: RulesReplicas.cpp.
Status layerSizes(const Variant &variant); // P7
/// Why the layers and bytes that an operation is about are wrong, or null; for P11.
const char *wrongLayers(const Operation &o, const StageLayers &layers);
Status exchange(const Variant &variant, const std::vector<Facts> &facts, const StageLayers &layers); // P47

// Of weights that several layers hold: RulesShared.cpp.
Status sharedSizes(const Variant &variant); // P7
/// Why an operation that carries gradients of a shared weight is wrong, or empty; for P11.
std::string wrongShared(const Operation &o, const Variant &variant, const Program &program);
Status sharedSums(const Variant &variant, const std::vector<Facts> &facts); // P60

// Of shards: RulesShards.cpp.
Status shardsSupported(const Variant &variant); // P53, before their rows are looked at
Status ownRows(const Variant &variant);         // P52
Status portions(const Variant &variant);        // P52
Status unitsOnce(const Variant &variant);       // P51
Status sameSplits(const Plan &plan);            // P51, of all variants
Status shardPeaks(const Variant &variant);      // P35, RulesMemory.cpp

// Of stages on several ranks: RulesGroups.cpp.
Status stageSizes(const Variant &variant);                                // P7
Status stageGroups(const Plan &plan, const Variant &variant);             // P44
Status reshards(const Variant &variant, const std::vector<Facts> &facts); // P57
Status oneOrder(const Variant &variant);                                  // P58

// Of background jobs: RulesJobs.cpp.
Status jobs(const Variant &variant);                            // P55
Status windows(const Variant &variant, const Program &program); // P54
Status sameJobs(const Plan &plan);                              // P55, of all variants

// Of the whole, in closed form: RulesCounts.cpp.
Status workCounts(const Variant &variant, const std::vector<Facts> &facts,
                  const StageLayers &layers);                                   // P21
Status collectives(const Variant &variant, const std::vector<Facts> &facts);    // P38
Status copySums(const Variant &variant, const std::vector<Facts> &facts);       // P41
Status neighbours(const Variant &variant);                                      // P22
Status transferCounts(const Variant &variant, const std::vector<Facts> &facts); // P23
Status released(const Variant &variant, const std::vector<Facts> &facts);       // P33

// Of the whole, instruction by instruction. P25 to P32, P34, P35, P39, P42 and P46 are asked in one walk of each
// rank (RankWalk.h), P48 to P50 in another (LayerWalk.h).
Status transferOrder(const Variant &variant); // P24, RulesTransfers.cpp
Status firstUse(const Variant &variant);      // P40, RulesTransfers.cpp

} // namespace rules
} // namespace pipec::plan
