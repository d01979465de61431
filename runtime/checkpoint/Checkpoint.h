// A checkpoint is a folder with states in files, and a manifest that names these files. A state belongs to a process,
// or to a layer of the model; then it does not depend on the stage, rank and process of the layer. The manifest is
// written last and replaced atomically, and only files that it names are read again. So a run that dies while it saves
// still has its last checkpoint.
#pragma once

#include "runtime/plan/Place.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace pipec::runtime {

/// What a state belongs to.
struct StateOf {
  enum class Whose { Process, Layer, Job };
  int64_t step = 0;
  Whose whose = Whose::Process;
  int32_t number = 0;   // world rank of the process (or of the process that runs the job), or the layer
  plan::Grid grid = {}; // of the process's plan
};

/// A state that was saved.
struct StateFile {
  std::string name; // in the folder
  int64_t bytes = 0;
  std::string hash; // of the content, hexadecimal
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StateFile, name, bytes, hash)

/// The units whose weights and optimizer state are in a shard's state.
struct OwnedUnits {
  int32_t stage = 0, first_layer = 0, layers = 0;
  std::string split;
  int64_t units = 0;                              // of the split
  std::vector<std::pair<int64_t, int64_t>> owned; // first and count
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OwnedUnits, stage, first_layer, layers, split, units, owned)

/// The state of a background job.
struct JobState {
  int32_t process = 0; // world rank
  std::string job;     // its name
  int64_t atoms = 0;   // number of atoms that have run
  StateFile file;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(JobState, process, job, atoms, file)

struct Manifest {
  int64_t step = 0;                                // how many steps are done
  std::vector<std::vector<int32_t>> stages;        // by rank; empty: the files are of layers
  std::vector<StateFile> files;                    // by world rank, or by layer
  int32_t replicas = 1;                            // of each rank
  int32_t shards = 1;                              // of each rank
  std::vector<std::vector<OwnedUnits>> owned = {}; // by world rank, where ranks have shards
  std::vector<JobState> jobs = {};                 // of processes with a job, by world rank

  bool ofLayers() const { return stages.empty(); }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Manifest, step, stages, files, replicas, shards, owned, jobs)

/// Makes the empty file into which a stage writes a state. Its `path` is provisional until finishState(). Code::Run if
/// it cannot be made.
Status beginState(const std::string &folder, const StateOf &of, std::string &path);
/// Makes the written state durable, gives the file its final name, and fills `file`. Code::Run if that fails, or if the
/// path is no longer a regular file.
Status finishState(const std::string &folder, const StateOf &of, StateFile &file);
/// Removes the provisional file of a state that could not be saved.
void dropState(const std::string &folder, const StateOf &of);

/// Ok if the file is there, is a regular one, and has the bytes that were saved; else Code::Input.
Status checkState(const std::string &folder, const StateFile &file);

/// What a run is to do with a checkpoint that its folder may have.
struct FolderUse {
  bool resumes = false;    // resumes from the checkpoint, if there is one
  bool needsOne = false;   // a missing checkpoint is an error
  bool overwrites = false; // begins anew; the old checkpoint is removed once all have met
  // In messages: the option for the folder, and the two ways out.
  const char *folder = "--checkpoint", *resume = "--resume", *overwrite = "--overwrite";
};

/// Code::Usage: the folder has a checkpoint, and the user has asked neither to resume nor to overwrite.
Status unsaidCheckpoint(const std::string &folder, const FolderUse &use);

/// Creates the folder if need be. Code::Usage if it cannot be written to.
Status prepareFolder(const std::string &folder, const FolderUse &use = {});

/// Keeps other runs out of a run's folder with a lock. The lock ends with this object or, if the process dies, with the
/// last of its forked children. The lock belongs to the process that took it: destroying the object in a child ends
/// nothing.
class FolderHold {
public:
  FolderHold() = default;
  ~FolderHold();
  FolderHold(const FolderHold &) = delete;

  /// Takes the lock, once. Code::Run while another run has it. Call prepareFolder() before.
  Status take(const std::string &folder);

private:
  std::string path; // of the lock file in the folder; empty: not taken
  int file = -1;
  pid_t process = 0; // the process that took it
};

/// Replaces the folder's manifest, then removes the files of earlier steps and unfinished files of killed runs.
/// Code::Run if the manifest cannot be written.
Status writeManifest(const std::string &folder, const Manifest &manifest);

/// Code::Input if there is no manifest, if it is no regular file or damaged, or if it has other ranks, stages,
/// replicas, shards or splits than `plan`. If its states are of layers: if it has another model than `plan` says, or if
/// `plan` has replicas, for which it has no states.
Status readManifest(const std::string &folder, const plan::Plan &plan, Manifest &manifest);

/// Whether the folder has a manifest, readable or not.
bool hasManifest(const std::string &folder);

/// Begins a run: takes the lock, and reads the checkpoint that the run resumes from into `resume`. Code::Usage if there
/// is a checkpoint and the user has not said what to do with it. Call prepareFolder() before.
Status openFolder(const std::string &folder, const plan::Plan &plan, const FolderUse &use, FolderHold &hold,
                  std::optional<Manifest> &resume);

/// Removes manifest and states, so that there is nothing to resume from. Code::Run if the manifest cannot be removed.
Status clearFolder(const std::string &folder);

/// The stages that each rank of the plan holds.
std::vector<std::vector<int32_t>> stagesOf(const plan::Plan &plan);

} // namespace pipec::runtime
