#include "runtime/launch/HeldJob.h"

#include "runtime/job/MakeJob.h"
#include "runtime/plan/Provider.h"

#include <algorithm>
#include <spdlog/spdlog.h>
#include <utility>

namespace pipec::runtime {

Status HeldJob::make(const plan::Plan &plan, const RunOptions &options) {
  const plan::Variant &variant = plan.variants.front();
  job = options.runsJobs ? variant.programs[size_t(place.rank)].job : -1;
  if (job < 0)
    return {};
  const plan::Job &planned = variant.jobs[size_t(job)];
  name = planned.name;
  JobSetup own;
  own.name = planned.name;
  own.rank = place.rank;
  own.worldRank = place.world();
  own.world = plan.world();
  own.samples = planned.samples;
  own.atoms = planned.atoms;
  own.atom = planned.atom;
  own.memory = planned.memory;
  if (Status status = plan::jsonOf(planned.provider, own.provider); !status.ok())
    return status;
  const auto choice = options.jobs.find(planned.name);
  return backend.makeJob(choice == options.jobs.end() ? kSyntheticJob : choice->second, own, planned);
}

std::optional<JobState> HeldJob::save(int64_t step) {
  JobFiller *filler = backend.job();
  if (!filler || !filler->saves())
    return std::nullopt;
  const StateOf of = stateOf(step);
  JobState state{place.world(), name, filler->atoms(), {}};
  std::string path;
  Status status = beginState(folder, of, path);
  if (status.ok())
    status = filler->save(path);
  if (status.ok())
    status = finishState(folder, of, state.file);
  if (status.ok())
    return state;
  dropState(folder, of);
  spdlog::warn("the state of job {} after {} steps is not in the checkpoint: {}", name, step, status.message);
  return std::nullopt;
}

void HeldJob::load(const Manifest &checkpoint) {
  JobFiller *filler = backend.job();
  if (!filler)
    return;
  const auto mine = [&](const JobState &each) { return each.process == place.world() && each.job == name; };
  const auto found = std::ranges::find_if(checkpoint.jobs, mine);
  if (found == checkpoint.jobs.end() || !filler->saves()) {
    spdlog::warn("{}: job {} begins anew: the checkpoint has no state of it", plan::nameOf(place), name);
    return;
  }
  Status status = checkState(folder, found->file);
  if (status.ok())
    status = filler->load(folder + "/" + found->file.name, found->atoms);
  before = filler->atoms();
  if (!status.ok())
    filler->end(status.message);
}

std::optional<JobFiller::Paced> HeldJob::paces() {
  const JobFiller *filler = backend.job();
  if (!filler)
    return std::nullopt;
  const JobFiller::Paced now = filler->paces();
  return std::exchange(rounds, now.rounds) == now.rounds ? std::nullopt : std::optional(now);
}

JobDone HeldJob::done() const {
  const JobFiller *filler = backend.job();
  if (!filler)
    return {};
  const JobFiller::Paced paces = filler->paces();
  return {job, filler->pieces(), filler->atoms() - before, filler->ended(), paces.solo, paces.filled};
}

} // namespace pipec::runtime
