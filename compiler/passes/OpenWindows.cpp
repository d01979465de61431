// pipe-open-windows: which rank runs which background job, and the windows of its pieces.
#include "compiler/jobs/ChooseWindows.h"
#include "compiler/passes/Passes.h"
#include "runtime/plan/Text.h"
#include "runtime/plan/Units.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace mlir;

namespace pipec {

namespace {

class Opening {
public:
  Opening(const jobs::Jobs &jobs, Location place, ArrayRef<Walked> variants)
      : jobs(jobs), place(place), variants(variants) {}

  Code run(bool warns) {
    const std::vector<int32_t> jobOf = placed();
    if (llvm::all_of(jobOf, [](int32_t job) { return job < 0; }))
      return fitsNowhere();
    if (warns)
      warnOfRanks(jobOf);
    for (const Walked &each : variants) {
      std::vector<jobs::Unused> unused;
      if (Status status = jobs::chooseWindows(jobs, jobOf, *each.variant, unused); !status.ok()) {
        emitError(at("jobs")) << status.message;
        return status.code;
      }
      for (const jobs::Unused &own : unused)
        if (!report(own, warns))
          return Code::Check;
    }
    return Code::Ok;
  }

private:
  Location at(const std::string &key) const { return placeOf(key, place); }
  const jobs::Job &job(size_t index) const { return jobs.work[index]; }
  const plan::Variant &first() const { return *variants.front().variant; }
  /// What a rank needs beside jobs, in the variant where it has least room.
  plan::Bytes needOf(int32_t rank) const {
    plan::Bytes most = 0;
    for (const Walked &each : variants)
      most = std::max(most, each.walk->places[size_t(rank)].peak);
    return most;
  }
  plan::Bytes limitOf(int32_t rank) const { return first().limitOf(first().programs[size_t(rank)]); }
  __int128 with(size_t index, int32_t rank) const { return __int128(needOf(rank)) + job(index).row.memory; }

  std::vector<int32_t> placed() const {
    std::vector<int32_t> jobOf(first().programs.size(), -1);
    for (int32_t rank = 0; rank != int32_t(jobOf.size()); ++rank)
      for (size_t index = 0; index != jobs.work.size() && jobOf[size_t(rank)] < 0; ++index)
        if (job(index).mayRunOn(rank) && (limitOf(rank) == 0 || with(index, rank) <= limitOf(rank)))
          jobOf[size_t(rank)] = int32_t(index);
    return jobOf;
  }

  /// The error is about the job and the rank that lack least.
  Code fitsNowhere() const {
    size_t nearest = 0;
    int32_t where = -1;
    __int128 lacks = 0;
    for (size_t index = 0; index != jobs.work.size(); ++index)
      for (int32_t rank = 0; rank != int32_t(first().programs.size()); ++rank)
        if (job(index).mayRunOn(rank))
          if (const __int128 own = with(index, rank) - limitOf(rank); where < 0 || own < lacks) {
            nearest = index;
            where = rank;
            lacks = own;
          }
    const __int128 least = with(nearest, where);
    emitError(at(fmt::format("jobs.work[{}].memory", nearest))) << fmt::format(
        "jobs.work[{}].memory: no job fits any rank: rank {} needs {} and job '{}' {}, over the limit of "
        "{}; the least limit that would do there is {} ({}B)",
        nearest, where, plan::bytesText(needOf(where)), job(nearest).row.name, plan::bytesText(job(nearest).row.memory),
        plan::bytesText(limitOf(where)), plan::bytesText(plan::Bytes(least)), int64_t(least));
    return Code::Check;
  }

  void warnOfRanks(const std::vector<int32_t> &jobOf) const {
    std::vector<size_t> without;
    for (size_t rank = 0; rank != jobOf.size(); ++rank)
      for (size_t index = 0; index != jobs.work.size() && jobOf[rank] < 0; ++index)
        if (job(index).mayRunOn(int32_t(rank))) {
          without.push_back(rank);
          break;
        }
    if (!without.empty())
      emitWarning(at("jobs")) << fmt::format("jobs: no job fits the memory of rank{} {}, which {} none",
                                             without.size() == 1 ? "" : "s", fmt::join(without, ", "),
                                             without.size() == 1 ? "runs" : "run");
  }

  /// Whether a job that got no window is no error.
  bool report(const jobs::Unused &unused, bool warns) const {
    const jobs::Job &own = job(unused.job);
    const auto percent = [](int64_t millionths) { return units::decimalText(100 * millionths) + "%"; };
    if (unused.least > jobs.slowDown) {
      emitError(at("jobs.slow_down")) << fmt::format(
          "jobs.slow_down: no piece of job '{}' keeps within {}: its shortest takes {}; the least that "
          "would do is {}",
          own.row.name, percent(jobs.slowDown), plan::timeText(own.shortest()), percent(unused.least));
      return false;
    }
    if (warns)
      emitWarning(at(fmt::format("jobs.work[{}]", unused.job)))
          << fmt::format("jobs.work[{}]: job '{}' never runs: its shortest piece takes {}, and {}", unused.job,
                         own.row.name, plan::timeText(own.shortest()),
                         unused.least > 0 ? "the windows go to pieces of other jobs"
                                          : fmt::format("no rank that may run it waits for longer than {}",
                                                        plan::timeText(unused.longest)));
    return true;
  }

  const jobs::Jobs &jobs;
  const Location place;
  const ArrayRef<Walked> variants;
};

} // namespace

Code openWindows(const jobs::Jobs &jobs, Location place, bool warns, ArrayRef<Walked> variants) {
  return Opening(jobs, place, variants).run(warns);
}

void noteWindows(const plan::Variant &variant, ProgramSet &set) {
  for (size_t rank = 0; rank != set.ranks(); ++rank) {
    const plan::Program &opened = variant.programs[rank];
    set.programs[rank].job = opened.job;
    set.programs[rank].piece = opened.piece;
    set.programs[rank].windows = opened.windows;
  }
}

} // namespace pipec
