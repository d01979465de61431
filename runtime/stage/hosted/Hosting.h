// The host program, if one computes (Handover.h).
#pragma once

#include "runtime/stage/LayerTable.h"

namespace pipec::runtime {

class Handover;

struct Hosting {
  Handover *handover = nullptr; // null: the runtime's own stage computes
  LayerTable layers = {};       // where the host keeps what its replicas sum
  bool folders = false;         // its checkpoints are folders that it makes itself (StepFolders.h)
  bool overlaps = false; // a step ends for the host when its passes have ended; updates go on beside the next step
};

} // namespace pipec::runtime
