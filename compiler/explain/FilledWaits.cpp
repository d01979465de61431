#include "compiler/explain/FilledWaits.h"

#include "runtime/plan/Text.h"
#include "runtime/plan/Units.h"
#include "runtime/plan/Unroll.h"

#include <algorithm>
#include <fmt/format.h>

namespace pipec::emit {

std::string filledText(const plan::Variant &variant, const plan::Program &program, const IdleStretch &idle,
                       int64_t &pieces) {
  pieces = 0;
  if (variant.jobs.empty())
    return {};
  if (program.job < 0)
    return fmt::format("Rank {} runs no job: none may run there, or none fits its memory.", program.rank);
  const plan::Job &job = variant.jobs[size_t(program.job)];
  const plan::Time piece = variant.pieceTime(program);
  if (program.runsJobAlone())
    return fmt::format("Rank {} has nothing else to do: pieces of job {} run all the time.", program.rank, job.name);
  // Behind the last instruction of a step stands the first of the next one.
  const auto next = idle.next ? program.instructions.begin() + (idle.next - program.instructions.data())
                              : std::ranges::find(program.instructions, 0U, &plan::Instruction::queue);
  const plan::Time window = plan::windowOf(program, uint32_t(next - program.instructions.begin())).length;
  if (!idle.next)
    return fmt::format("Until the next step begins here, pieces of job {} {}.", job.name,
                       window == 0 ? "do not run" : "fill what its first pass waits");
  if (window != 0 && idle.first)
    return fmt::format("No piece stands before the first pass of a run; from the second step on pieces of job {} do.",
                       job.name);
  if (window != 0) {
    pieces = window / piece;
    return fmt::format("{} of job {} fill{} it, of {} each.",
                       pieces == 1 ? "A piece" : fmt::format("{} pieces", pieces), job.name, pieces == 1 ? "s" : "",
                       plan::timeText(piece - job.overhead));
  }
  if (idle.next->queue != 0 || idle.next->waits == 0)
    return fmt::format("No piece of job {} stands in it: what comes next has no wait of the compute queue.", job.name);
  if (idle.length < piece)
    return fmt::format("No piece of job {} stands in it: one takes {} with its overhead.", job.name,
                       plan::timeText(piece));
  return fmt::format("No piece of job {} stands in it. Each wait that is filled costs a piece of the {} % that a step "
                     "may get longer, and longer waits are worth more; or a collective of the rank is under way.",
                     job.name, units::decimalText(100 * variant.slowDown));
}

} // namespace pipec::emit
