// The contents of a picture of a schedule, in a terminal or as SVG: sections below each other on one time scale. Each
// section has a lane for every rank (or every shard of a rank), or two lanes if a real run is shown below the predicted
// one.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"
#include "runtime/simulate/Scenario.h"
#include "runtime/trace/Trace.h"

#include <string>
#include <vector>

namespace pipec::emit {

/// One operation on its device. Transfers are not drawn. An operation that waits in a sum for another shard is two
/// boxes: one until it waits, one from when the shards have met.
struct Box {
  plan::Kind kind = plan::Kind::Forward;
  int32_t chunk = 0;             // index of its stage on the rank, from 0
  int64_t microbatch = 0;        // number for display, counted over all copies
  plan::Time start = 0, end = 0; // from the step's first start
  /// For an overlapped pair on one lane: the F is the upper part of the box, the backward the lower part.
  enum class Part : uint8_t { Whole, Upper, Lower } part = Part::Whole;
  int32_t firstLayer = 0; // first layer of a part of a pass cut by layers
};

/// The contents of a lane, if a rank has several: passes as planned, and as they ran; collectives with replicas.
enum class LaneKind : uint8_t { Plan, Run, Exchange };

/// Adjacent pieces of a background job in a bubble.
struct Filled {
  plan::Time start = 0, end = 0; // from the step's first start
};

struct Lane {
  int32_t place = 0; // rank * shards + shard
  LaneKind kind = LaneKind::Plan;
  std::vector<Box> boxes;     // by start
  std::vector<Filled> pieces; // by start
};

struct Section {
  std::string title;   // "1f1b: 4 ranks, 8 microbatches"
  std::string figures; // "makespan 66 ms, bubble 27.27 %, …"
  std::vector<Lane> lanes;
  int lanesPerPlace = 1; // 2: predicted and measured, or passes and collectives
  int chunks = 1;        // most chunks on a rank
  int shards = 1;        // of each rank
  int copies = 1;        // copies of the pipeline, each in its own direction; a chunk then belongs to one copy
  plan::Time length = 0;
  /// For ranks with shards: bubble by the shards' own times; negative: computed from the boxes.
  double bubble = -1;
  plan::LeastTime bound;       // lower bound of a step; 0: not known
  plan::Bytes activations = 0; // peak bytes on a rank
  std::vector<trace::Decision>
      decisions; // of a real run, by time from the step's first start; may lie before or after the step
};

/// "rank 3", "rank 3 shard 0"
std::string placeName(const Section &section, const Lane &lane);
/// The name that distinguishes the lanes of one process: "plan" and "run", or "work" and "sums".
std::string_view nameOf(const Section &section, const Lane &lane);

struct Picture {
  std::vector<Section> sections;

  /// The time that corresponds to the picture's width.
  plan::Time scale() const;
};

/// The network for the simulation of a step: a scenario, or null for the plan's network.
struct Network {
  const simulate::Scenario *scenario = nullptr; // outlives its use
  std::string name;
};

/// One step of a variant in virtual time: the `step`-th of steps that follow each other. Step 0 begins with nothing
/// before it.
Status predicted(const plan::Variant &variant, int64_t step, Section &section, const Network &network = {});

/// A step of a real run below the same predicted step; the figures say how far they differ. `step` < 0: the last
/// complete step. If the trace belongs to another plan, the status says what does not match.
Status compared(const plan::Variant &variant, const trace::Run &run, int64_t step, Section &section,
                const Network &network = {});

/// A sentence that gives the second section's time and memory as multiples of the first's.
std::string comparison(const Section &first, const Section &second);

} // namespace pipec::emit
