#include "compiler/driver/CompileJobs.h"

#include "compiler/driver/DesignLevel.h"
#include "compiler/jobs/OpenWindows.h"
#include "runtime/plan/Text.h"
#include "runtime/plan/Units.h"

#include "mlir/IR/Diagnostics.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace mlir;

namespace pipec {

namespace {

class JobsOfSpec {
public:
  JobsOfSpec(const spec::Spec &spec, const std::vector<simulate::Result> &walks, std::vector<plan::Variant> &variants,
             MLIRContext &context)
      : spec(spec), walks(walks), variants(variants), context(context) {}

  Code run(bool warns) {
    const std::vector<int32_t> jobOf = place();
    if (std::ranges::count(jobOf, -1) == std::ptrdiff_t(jobOf.size()))
      return fitsNowhere();
    if (warns)
      warnOfRanks(jobOf);
    for (size_t v = 0; v != variants.size(); ++v) {
      std::vector<jobs::Unused> unused;
      if (Status status = jobs::openWindows(spec.jobs, jobOf, variants[v], unused); !status.ok()) {
        emitError(at(spec.jobs.mark)) << status.message;
        return status.code;
      }
      for (const jobs::Unused &each : unused)
        if (!report(each, warns))
          return Code::Check;
    }
    return Code::Ok;
  }

private:
  Location at(const spec::Mark &mark) { return locationOf(spec, mark, context); }
  const spec::Job &job(size_t index) const { return spec.jobs.work[index]; }
  bool mayRunOn(size_t index, int32_t rank) const {
    return !job(index).ranks || std::ranges::binary_search(*job(index).ranks, rank);
  }
  /// What a rank needs beside jobs, in the variant where it has least room.
  plan::Bytes needOf(int32_t rank) const {
    plan::Bytes most = 0;
    for (const simulate::Result &walk : walks)
      most = std::max(most, walk.places[size_t(rank)].peak);
    return most;
  }
  plan::Bytes limitOf(int32_t rank) const { return variants.front().limitOf(variants.front().programs[size_t(rank)]); }
  __int128 with(size_t index, int32_t rank) const { return __int128(needOf(rank)) + job(index).memory.value; }

  std::vector<int32_t> place() const {
    std::vector<int32_t> jobOf(size_t(variants.front().programs.size()), -1);
    for (int32_t rank = 0; rank != int32_t(jobOf.size()); ++rank)
      for (size_t index = 0; index != spec.jobs.work.size() && jobOf[size_t(rank)] < 0; ++index)
        if (mayRunOn(index, rank) && (limitOf(rank) == 0 || with(index, rank) <= limitOf(rank)))
          jobOf[size_t(rank)] = int32_t(index);
    return jobOf;
  }

  /// The error is about the job and the rank that lack least.
  Code fitsNowhere() {
    size_t nearest = 0;
    int32_t where = -1;
    __int128 lacks = 0;
    for (size_t index = 0; index != spec.jobs.work.size(); ++index)
      for (int32_t rank = 0; rank != int32_t(variants.front().programs.size()); ++rank)
        if (mayRunOn(index, rank))
          if (const __int128 own = with(index, rank) - limitOf(rank); where < 0 || own < lacks) {
            nearest = index;
            where = rank;
            lacks = own;
          }
    const __int128 least = with(nearest, where);
    emitError(at(job(nearest).memory.mark)) << fmt::format(
        "jobs.work[{}].memory: no job fits any rank: rank {} needs {} and job '{}' {}, over the limit of "
        "{}; the least limit that would do there is {} ({}B)",
        nearest, where, plan::bytesText(needOf(where)), job(nearest).name, plan::bytesText(job(nearest).memory.value),
        plan::bytesText(limitOf(where)), plan::bytesText(plan::Bytes(least)), int64_t(least));
    return Code::Check;
  }

  void warnOfRanks(const std::vector<int32_t> &jobOf) {
    std::vector<size_t> without;
    for (size_t rank = 0; rank != jobOf.size(); ++rank)
      for (size_t index = 0; index != spec.jobs.work.size() && jobOf[rank] < 0; ++index)
        if (mayRunOn(index, int32_t(rank))) {
          without.push_back(rank);
          break;
        }
    if (!without.empty())
      emitWarning(at(spec.jobs.mark)) << fmt::format("jobs: no job fits the memory of rank{} {}, which {} none",
                                                     without.size() == 1 ? "" : "s", fmt::join(without, ", "),
                                                     without.size() == 1 ? "runs" : "run");
  }

  /// Whether a job that got no window is no error.
  bool report(const jobs::Unused &unused, bool warns) {
    const spec::Job &own = job(unused.job);
    const auto percent = [](int64_t millionths) { return units::decimalText(100 * millionths) + "%"; };
    if (unused.least > spec.jobs.slowDown.value) {
      emitError(at(spec.jobs.slowDown.mark)) << fmt::format(
          "jobs.slow_down: no piece of job '{}' keeps within {}: its shortest takes {}; the least that "
          "would do is {}",
          own.name, percent(spec.jobs.slowDown.value), plan::timeText(own.shortest()), percent(unused.least));
      return false;
    }
    if (warns)
      emitWarning(at(own.mark)) << fmt::format(
          "jobs.work[{}]: job '{}' never runs: its shortest piece takes {}, and {}", unused.job, own.name,
          plan::timeText(own.shortest()),
          unused.least > 0
              ? "the windows go to pieces of other jobs"
              : fmt::format("no rank that may run it waits for longer than {}", plan::timeText(unused.longest)));
    return true;
  }

  const spec::Spec &spec;
  const std::vector<simulate::Result> &walks;
  std::vector<plan::Variant> &variants;
  MLIRContext &context;
};

} // namespace

Code addJobs(const spec::Spec &spec, const std::vector<simulate::Result> &walks, bool warns,
             std::vector<plan::Variant> &variants, MLIRContext &context) {
  return spec.jobs.work.empty() ? Code::Ok : JobsOfSpec(spec, walks, variants, context).run(warns);
}

} // namespace pipec
