// Checkpoints (design, section 6): a folder with a file of each process and one manifest, which is written last and in
// one piece. Only what the manifest names is ever read again, so a run that dies while it saves loses nothing.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"

#include <string>
#include <vector>

namespace pipec::runtime {

/// What a process saved.
struct StateFile {
  std::string name; // in the folder
  int64_t bytes = 0;
  std::string hash; // hexadecimal
};

struct Manifest {
  int64_t step = 0;                         // steps done
  std::vector<std::vector<int32_t>> stages; // of each rank
  std::vector<StateFile> files;             // of each rank
};

/// Where the stage of a rank writes its state; made durable and named by finishState.
std::string statePath(const std::string &folder, int64_t step, int32_t rank);
Status finishState(const std::string &folder, int64_t step, int32_t rank, StateFile &file);
/// Removes what a state that could not be saved has left.
void dropState(const std::string &folder, int64_t step, int32_t rank);

/// Ok if the file is there and is what was saved; else Code::Input.
Status checkState(const std::string &folder, const StateFile &file);

/// Creates the folder if need be; refused if it cannot be written to.
Status prepareFolder(const std::string &folder);

/// A run's hold on its folder, which no other run may have meanwhile: until this goes, or the last process that was
/// forked since has ended, however it ends.
class FolderHold {
public:
  FolderHold() = default;
  ~FolderHold();
  FolderHold(const FolderHold &) = delete;

  /// Refused (Code::Run) while another run has it; once, of a folder that is prepared.
  Status take(const std::string &folder);

private:
  std::string path; // of a file in the folder; empty: not taken
  int file = -1;
};

/// Replaces the folder's manifest, then removes the files of earlier steps.
Status writeManifest(const std::string &folder, const Manifest &manifest);

/// Code::Input if there is none, if it is torn, or if it is of other ranks or stages than `plan`.
Status readManifest(const std::string &folder, const plan::Plan &plan, Manifest &manifest);

/// Whether the folder has a manifest at all.
bool hasManifest(const std::string &folder);

/// From now on the folder has nothing to resume from (Code::Run if it cannot go).
Status clearFolder(const std::string &folder);

/// Which stages each rank of the plan holds.
std::vector<std::vector<int32_t>> stagesOf(const plan::Plan &plan);

} // namespace pipec::runtime
