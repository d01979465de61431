// The background job of a process from one end of a run to the other: made for the plan, saved and loaded beside the
// stage. What goes wrong with it ends the job, never the run.
#pragma once

#include "runtime/backend/Backend.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/launch/Report.h"

#include <optional>
#include <string>

namespace pipec::runtime {

/// For the issuing thread, at rest.
class HeldJob {
public:
  /// The backend outlives it. `folder`: of checkpoints.
  HeldJob(Backend &backend, const plan::Place &place, std::string folder)
      : backend(backend), place(place), folder(std::move(folder)) {}

  /// Makes the job that the plan has for this rank, of what the options say; nothing where there is none.
  Status make(const plan::Plan &plan, const RunOptions &options);
  /// Saves its state after `step` steps. Absent: there is no job, or it has ended, or does not save.
  std::optional<JobState> save(int64_t step);
  /// Goes on with the state that a checkpoint has of it; else it begins anew, which is said.
  void load(const Manifest &checkpoint);
  /// How long steps take with and without it, if that is known anew.
  std::optional<JobFiller::Paced> paces();
  /// What it got done in this run.
  JobDone done() const;

private:
  StateOf stateOf(int64_t step) const { return {step, StateOf::Whose::Job, place.world(), place.grid()}; }

  Backend &backend;
  const plan::Place place;
  const std::string folder;
  int32_t job = -1; // of the plan
  std::string name;
  int64_t before = 0; // atoms that ran before this run
  int64_t rounds = 0; // JobFiller::Paced, as last told
};

} // namespace pipec::runtime
