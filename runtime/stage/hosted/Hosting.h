// The program around the runtime, where that computes (Handover.h).
#pragma once

#include "runtime/stage/LayerTable.h"

namespace pipec::runtime {

class Handover;

struct Hosting {
  Handover *handover = nullptr; // null: the runtime's own stage computes
  LayerTable layers = {};       // where it keeps what its replicas sum
  bool folders = false;         // its checkpoints are folders that it makes (StepFolders.h)
  bool overlaps = false;        // a step ends for it when its passes have; updates go on beside the next one's
};

} // namespace pipec::runtime
