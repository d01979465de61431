// What a picture of a schedule shows, whether drawn in a terminal or as SVG: sections one under the other on one time
// scale, each with a lane for every rank (for every shard of one), or two where a real run lies under the predicted
// one.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"
#include "runtime/simulate/Scenario.h"
#include "runtime/trace/Trace.h"

#include <string>
#include <vector>

namespace pipec::emit {

/// One operation on its device. Transfers are not drawn. What waits in a sum for another shard is two boxes: until it
/// waits, and from when they met.
struct Box {
  plan::Kind kind = plan::Kind::Forward;
  int32_t chunk = 0;             // which of its rank's stages, from 0
  int64_t microbatch = 0;        // as people count them, over all copies
  plan::Time start = 0, end = 0; // from the step's first start
  /// Of an overlapped pair on one lane, the F is the upper part of the box, the backward the lower.
  enum class Part : uint8_t { Whole, Upper, Lower } part = Part::Whole;
  int32_t firstLayer = 0; // of a pass cut by layers
};

/// What a lane of a rank shows, where it has several: passes as planned and as they ran; collectives with replicas.
enum class LaneKind : uint8_t { Plan, Run, Exchange };

/// Pieces of a background job, end to end in a bubble.
struct Filled {
  plan::Time start = 0, end = 0; // from the step's first start
};

struct Lane {
  int32_t place = 0; // rank * shards + shard
  LaneKind kind = LaneKind::Plan;
  std::vector<Box> boxes;     // by start
  std::vector<Filled> pieces; // likewise
};

struct Section {
  std::string title;   // "1f1b: 4 ranks, 8 microbatches"
  std::string figures; // "makespan 66 ms, bubble 27.27 %, …"
  std::vector<Lane> lanes;
  int lanesPerPlace = 1; // 2: predicted and measured, or passes and collectives
  int chunks = 1;        // the most that a rank holds
  int shards = 1;        // of each rank
  int copies = 1;        // of the pipeline, each in its own direction; a chunk is a copy's then
  plan::Time length = 0;
  double bubble = -1;          // of ranks with shards, by own time; else it follows from the boxes
  plan::LeastTime bound;       // no step is shorter; 0: not known
  plan::Bytes activations = 0; // the most that a rank holds
  std::vector<trace::Decision>
      decisions; // of a real run, by time from the step's first start; maybe before or after it
};

/// "rank 3", "rank 3 shard 0"
std::string placeName(const Section &section, const Lane &lane);
/// What tells the lanes of one process apart: "plan" and "run", or "work" and "sums".
std::string_view nameOf(const Section &section, const Lane &lane);

struct Picture {
  std::vector<Section> sections;

  /// The time that the picture's width stands for.
  plan::Time scale() const;
};

/// The network under which a step is simulated: a scenario, or null for what the plan says.
struct Network {
  const simulate::Scenario *scenario = nullptr; // outlives its use
  std::string name;
};

/// One step of a variant in virtual time: the `step`-th of steps that follow each other. Step 0 begins with nothing
/// before it.
Status predicted(const plan::Variant &variant, int64_t step, Section &section, const Network &network = {});

/// A step of a real run below the same step as predicted; the figures say how far they differ. `step` < 0: the last
/// that is whole. If the trace is of another plan, the status says what does not agree.
Status compared(const plan::Variant &variant, const trace::Run &run, int64_t step, Section &section,
                const Network &network = {});

/// A sentence on how much time and memory the second takes, as a multiple of the first.
std::string comparison(const Section &first, const Section &second);

} // namespace pipec::emit
