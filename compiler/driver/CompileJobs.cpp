#include "compiler/driver/CompileJobs.h"

#include "compiler/driver/DesignLevel.h"
#include "runtime/plan/Provider.h"

#include <fmt/format.h>

using namespace mlir;

namespace pipec {

jobs::Jobs jobsOf(const spec::Spec &spec) {
  jobs::Jobs made;
  made.slowDown = spec.jobs.slowDown.value;
  made.fillsCollectives = spec.jobs.fillsCollectives;
  for (const spec::Job &each : spec.jobs.work) {
    jobs::Job &job = made.work.emplace_back();
    job.row.name = each.name;
    job.row.samples = each.samples;
    job.row.atoms = each.atoms;
    job.row.atom = each.atom.value;
    job.row.overhead = each.overhead;
    job.row.memory = each.memory.value;
    job.ranks = each.ranks;
    if (each.piece)
      job.piece = each.piece->value;
  }
  return made;
}

SmallVector<Location> placesOfJobs(const spec::Spec &spec, MLIRContext &context) {
  SmallVector<Location> places;
  const auto add = [&](const std::string &key, const spec::Mark &mark) {
    places.push_back(NameLoc::get(StringAttr::get(&context, key), locationOf(spec, mark, context)));
  };
  add("jobs", spec.jobs.mark);
  add("jobs.slow_down", spec.jobs.slowDown.mark);
  for (size_t i = 0; i != spec.jobs.work.size(); ++i) {
    add(fmt::format("jobs.work[{}]", i), spec.jobs.work[i].mark);
    add(fmt::format("jobs.work[{}].memory", i), spec.jobs.work[i].memory.mark);
  }
  return places;
}

Code addJobs(const spec::Spec &spec, bool warns, ArrayRef<Walked> variants, MLIRContext &context) {
  jobs::Jobs jobs = jobsOf(spec);
  for (size_t i = 0; i != jobs.work.size(); ++i)
    if (Status status = plan::providerOf(spec.jobs.work[i].provider, jobs.work[i].row.provider); !status.ok()) {
      emitError(locationOf(spec, spec.jobs.mark, context)) << status.message;
      return status.code;
    }
  return openWindows(jobs, FusedLoc::get(&context, placesOfJobs(spec, context)), warns, variants);
}

} // namespace pipec
