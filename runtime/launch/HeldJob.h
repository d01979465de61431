// HeldJob owns the background job of a process for a whole run. It makes the job from the plan, and saves and loads the
// job's state beside that of the stage. An error of the job ends the job, never the run.
#pragma once

#include "runtime/backend/Backend.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/launch/Report.h"

#include <optional>
#include <string>

namespace pipec::runtime {

/// All functions are for the issuing thread, while no instruction runs.
class HeldJob {
public:
  /// The backend must outlive this object. `folder`: the folder of checkpoints.
  HeldJob(Backend &backend, const plan::Place &place, std::string folder)
      : backend(backend), place(place), folder(std::move(folder)) {}

  /// Makes the job that the plan has for this rank, from the provider that the options name. Does nothing if the plan
  /// has no job for this rank.
  Status make(const plan::Plan &plan, const RunOptions &options);
  /// Saves the job's state after `step` steps. Returns nothing if there is no job, if the job has ended or cannot save,
  /// or if saving failed, which a log line says.
  std::optional<JobState> save(int64_t step);
  /// Loads the job's state from a checkpoint. If the checkpoint has none, the job begins anew, and a log line says so.
  void load(const Manifest &checkpoint);
  /// Step times with and without the job, if measured anew since the last call.
  std::optional<JobFiller::Paced> paces();
  /// What the job has done in this run.
  JobDone done() const;

private:
  StateOf stateOf(int64_t step) const { return {step, StateOf::Whose::Job, place.world(), place.grid()}; }

  Backend &backend;
  const plan::Place place;
  const std::string folder;
  int32_t job = -1; // index among the plan's jobs; -1: none
  std::string name;
  int64_t before = 0; // atoms that ran before this run
  int64_t rounds = 0; // of the step times that paces() returned last
};

} // namespace pipec::runtime
