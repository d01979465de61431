// Rules P54 and P55: background jobs, and the waits that their pieces may fill.
#include "runtime/plan/Limits.h"
#include "runtime/plan/Text.h"
#include "runtime/plan/rules/Rules.h"

#include <fmt/format.h>

namespace pipec::plan::rules {
namespace {

bool isName(const std::string &name) {
  return within(int64_t(name.size()), 1, limits::kJobNameBytes) &&
         name.find_first_not_of(limits::kJobNameCharacters) == name.npos;
}

/// What is wrong with a job, or empty.
std::string wrongJob(const Job &job) {
  const auto number = [](const char *what, int64_t found, int64_t least, int64_t most) {
    return within(found, least, most) ? std::string()
                                      : fmt::format("{} {}, expected {} to {}", found, what, least, most);
  };
  if (!isName(job.name))
    return fmt::format("a name of 1 to {} letters, digits, '-', '_' and '.' is expected", limits::kJobNameBytes);
  for (const std::string &wrong :
       {number("samples", job.samples, 1, limits::kTime), number("atoms", job.atoms, 1, limits::kAtoms),
        number("ps of an atom", job.atom, 1, limits::kTime), number("ps of overhead", job.overhead, 0, limits::kTime),
        number("bytes of memory", job.memory, 0, limits::kBytes),
        number("bytes of values", int64_t(job.provider.size()), 0, limits::kProviderBytes)})
    if (!wrong.empty())
      return wrong;
  return isProvider(job.provider) ? "" : "its values are no FlexBuffer, or one of their keys has no end";
}

} // namespace

Status jobs(const Variant &variant) {
  if (variant.jobs.size() > size_t(limits::kJobs))
    return Status::input(fmt::format("P55: {} jobs, expected at most {}", variant.jobs.size(), limits::kJobs));
  for (size_t j = 0; j != variant.jobs.size(); ++j) {
    const Job &job = variant.jobs[j];
    if (const std::string wrong = wrongJob(job); !wrong.empty())
      return Status::input(fmt::format("P55: job {}: {}", j, wrong));
    for (size_t other = 0; other != j; ++other)
      if (variant.jobs[other].name == job.name)
        return Status::input(fmt::format("P55: jobs {} and {} have one name, {}", other, j, job.name));
  }
  if (!within(variant.slowDown, 0, limits::kWholeSlowDown))
    return Status::input(fmt::format("P55: jobs may make a step longer by {} millionths, expected 0 to {}",
                                     variant.slowDown, limits::kWholeSlowDown));
  for (const Program &program : variant.programs) {
    if (!within(program.job, -1, int64_t(variant.jobs.size()) - 1))
      return Status::input(
          fmt::format("P55: rank {} runs job {}, the plan has {}", program.rank, program.job, variant.jobs.size()));
    if (program.job < 0 && (program.piece != 0 || !program.windows.empty()))
      return Status::input(fmt::format("P55: rank {} has a piece or windows and no job", program.rank));
    if (program.job < 0)
      continue;
    if (variant.shards() > 1)
      return Status::input(fmt::format("P55: rank {} runs a job and has shards, which is not supported yet: a newer "
                                       "pipec is needed",
                                       program.rank));
    const Job &job = variant.jobs[size_t(program.job)];
    if (!within(program.piece, 1, (limits::kTime - job.overhead) / job.atom))
      return Status::input(fmt::format("P55: rank {}: a piece of {} atoms, expected 1 or more, and at most {} ps with "
                                       "its overhead",
                                       program.rank, program.piece, limits::kTime));
  }
  const Certificate &c = variant.certificate;
  if (!within(c.delay, 0, limits::kTime))
    return Status::input(fmt::format("P55: pieces add {} ps to a step, expected 0 to {}", c.delay, limits::kTime));
  return {};
}

Status windows(const Variant &variant, const Program &program) {
  int64_t before = -1;
  const Time piece = variant.pieceTime(program), span = variant.certificate.span;
  for (const Window &window : program.windows) {
    const auto error = [&](const std::string &what) {
      return Status::input(
          fmt::format("P54: rank {}: the window of instruction {} {}", program.rank, window.instruction, what));
    };
    if (window.instruction >= program.instructions.size())
      return error(fmt::format("is of none: there are {}", program.instructions.size()));
    if (int64_t(window.instruction) <= before)
      return error(fmt::format("comes behind that of instruction {}, expected ascending", before));
    before = window.instruction;
    const Instruction &instruction = program.instructions[window.instruction];
    if (instruction.queue != 0)
      return error("is not of the compute queue");
    if (instruction.waits == 0)
      return error("is of one without waits");
    if (window.length < piece)
      return error(
          fmt::format("is {}, shorter than a piece with its overhead, {}", timeText(window.length), timeText(piece)));
    if (window.length > span)
      return error(fmt::format("is {}, longer than a step, {}", timeText(window.length), timeText(span)));
    if (!within(window.from, 0, span - window.length))
      return error(fmt::format("begins {} ps after the device is free, expected 0 to {}, so that it ends in a step",
                               window.from, span - window.length));
  }
  return {};
}

Status sameJobs(const Plan &plan) {
  const Variant &first = plan.variants.front();
  for (size_t v = 1; v < plan.variants.size(); ++v) {
    const Variant &other = plan.variants[v];
    if (!runSameJobs(first, other) || other.slowDown != first.slowDown)
      return Status::input(fmt::format("P55: variant {} has other jobs than variant 0, or on other ranks; all must "
                                       "agree, so that a swap leaves them running",
                                       v));
  }
  return {};
}

} // namespace pipec::plan::rules
