// A checkpoint is a folder with states in files, and a manifest that names these files. A state is of a process, or of
// a layer of the model: then it does not depend on which stage, rank and process the layer is. The manifest is written
// last and replaced in one piece, and only files that it names are read again. So a run that dies while it saves still
// has its last checkpoint.
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

/// What a state is of.
struct StateOf {
  enum class Whose { Process, Layer, Job };
  int64_t step = 0;
  Whose whose = Whose::Process;
  int32_t number = 0;   // world rank of the process (of the one that runs the job), or the layer
  plan::Grid grid = {}; // of the process's plan
};

/// A state that was saved.
struct StateFile {
  std::string name; // in the folder
  int64_t bytes = 0;
  std::string hash; // of the content, hexadecimal
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StateFile, name, bytes, hash)

/// Whose units' weights and optimizer state a shard's state has.
struct OwnedUnits {
  int32_t stage = 0, first_layer = 0, layers = 0;
  std::string split;
  int64_t units = 0;                              // of the split
  std::vector<std::pair<int64_t, int64_t>> owned; // first and count
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OwnedUnits, stage, first_layer, layers, split, units, owned)

/// Of a background job.
struct JobState {
  int32_t process = 0; // world rank
  std::string job;     // its name
  int64_t atoms = 0;   // that have run
  StateFile file;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(JobState, process, job, atoms, file)

struct Manifest {
  int64_t step = 0;                                // how many steps are done
  std::vector<std::vector<int32_t>> stages;        // by rank; empty: the files are of layers
  std::vector<StateFile> files;                    // by world rank, or by layer
  int32_t replicas = 1;                            // of each rank
  int32_t shards = 1;                              // likewise
  std::vector<std::vector<OwnedUnits>> owned = {}; // by world rank, where ranks have shards
  std::vector<JobState> jobs = {};                 // by world rank, of those that have one

  bool ofLayers() const { return stages.empty(); }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Manifest, step, stages, files, replicas, shards, owned, jobs)

/// Makes the empty file into which a stage writes a state. Its `path` is provisional until finishState(). Code::Run if
/// it cannot be made.
Status beginState(const std::string &folder, const StateOf &of, std::string &path);
/// Makes the state that was written there durable, gives the file its name, and fills `file`. Code::Run if it cannot,
/// or if no regular file is there any more.
Status finishState(const std::string &folder, const StateOf &of, StateFile &file);
/// Removes the provisional file of a state that could not be saved.
void dropState(const std::string &folder, const StateOf &of);

/// Ok if the file is there, is a regular one, and has the bytes that were saved; else Code::Input.
Status checkState(const std::string &folder, const StateFile &file);

/// What a run was told to do with the checkpoint that its folder may have.
struct FolderUse {
  bool resumes = false;    // goes on from it, where there is one
  bool needsOne = false;   // it is wrong that there is none
  bool overwrites = false; // begins anew; what is there goes once all have met
  // In messages: what names the folder, and the two ways out.
  const char *folder = "--checkpoint", *resume = "--resume", *overwrite = "--overwrite";
};

/// Code::Usage: the folder has a checkpoint, and the user has asked neither to resume nor to overwrite.
Status unsaidCheckpoint(const std::string &folder, const FolderUse &use);

/// Creates the folder if need be. Code::Usage if it cannot be written to.
Status prepareFolder(const std::string &folder, const FolderUse &use = {});

/// Keeps other runs out of a run's folder. The hold ends with this object, or, should the process die, with the last of
/// its forked children. It is of the process that took it: its end in a child ends nothing.
class FolderHold {
public:
  FolderHold() = default;
  ~FolderHold();
  FolderHold(const FolderHold &) = delete;

  /// Takes the hold, once. Code::Run while another run has it. Needs prepareFolder() before.
  Status take(const std::string &folder);

private:
  std::string path; // of the lock file in the folder; empty: not taken
  int file = -1;
  pid_t process = 0; // which took it
};

/// Replaces the folder's manifest, then removes the files of earlier steps and what killed runs began. Code::Run if it
/// cannot be written.
Status writeManifest(const std::string &folder, const Manifest &manifest);

/// Code::Input if there is no manifest, if it is no regular file, if it is damaged, or if it is of other ranks, stages,
/// replicas, shards or splits than `plan` or, where it is of layers, of another model than `plan` says or for replicas,
/// whose states it has not.
Status readManifest(const std::string &folder, const plan::Plan &plan, Manifest &manifest);

/// Whether the folder has a manifest at all, be it one that cannot be read.
bool hasManifest(const std::string &folder);

/// Where a run begins: takes the hold, and reads into `resume` the checkpoint that it goes on from. Code::Usage if
/// there is one of which nothing was said. Needs prepareFolder() before.
Status openFolder(const std::string &folder, const plan::Plan &plan, const FolderUse &use, FolderHold &hold,
                  std::optional<Manifest> &resume);

/// Removes manifest and states, so that there is nothing to resume from. Code::Run if the manifest cannot be removed.
Status clearFolder(const std::string &folder);

/// The stages that each rank of the plan holds.
std::vector<std::vector<int32_t>> stagesOf(const plan::Plan &plan);

} // namespace pipec::runtime
