// Checkpoints that a host writes (pipec_run.h): each is a folder of all ranks, step-STEP in the run's folder. The host
// decides what files such a folder holds. A folder named step-STEP is whole; an unfinished folder is step-STEP.partial.
#pragma once

#include "runtime/checkpoint/Checkpoint.h"

#include <cstdint>
#include <optional>
#include <string>

namespace pipec::runtime {

/// The path of a step's folder.
std::string stepFolder(const std::string &folder, int64_t step);

/// Begins a run: takes the lock, removes what killed runs left unfinished, and says from which step the run goes on.
/// Code::Usage if there is a checkpoint and the user has asked neither to resume nor to overwrite; Code::Input if the
/// only checkpoint has a state of each process (Checkpoint.h). Call prepareFolder() before.
Status openStepFolders(const std::string &folder, const FolderUse &use, FolderHold &hold,
                       std::optional<int64_t> &resume);

/// Removes all checkpoints, of steps and of processes. Code::Run if one cannot be removed.
Status clearStepFolders(const std::string &folder);

} // namespace pipec::runtime
