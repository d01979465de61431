// Names of the plan's enumerations, and the length of a program. The names are what traces, reports and messages say
// (design, section 6).
#include "runtime/plan/Plan.h"

#include "runtime/plan/Unroll.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace pipec::plan {

const char *name(Bound bound) {
  static constexpr const char *kNames[] = {"none", "critical path", "work",  "warm-up", "memory chain",
                                           "area", "last device",   "exact", "exchange"};
  return size_t(bound) < std::size(kNames) ? kNames[size_t(bound)] : "unknown";
}

std::vector<Group> groupsOf(const std::vector<Variant> &variants, int32_t degree) {
  std::vector<Group> groups;
  const auto join = [&](int32_t group, int32_t rank, int32_t each) {
    if (group < 0)
      return;
    groups.resize(std::max(groups.size(), size_t(group) + 1));
    std::vector<int32_t> &members = groups[size_t(group)].members;
    for (int32_t world = rank * each; world != (rank + 1) * each; ++world)
      if (const auto at = std::lower_bound(members.begin(), members.end(), world); at == members.end() || *at != world)
        members.insert(at, world);
  };
  for (const Variant &variant : variants)
    for (const Program &program : variant.programs) {
      for (const Operation &o : program.operations)
        join(o.group, program.rank, degree * variant.shards());
      for (const int32_t stage : program.stages)
        if (variant.sharesStages())
          join(variant.stageGroups[size_t(stage)], program.rank, 1);
    }
  return groups;
}

std::vector<int32_t> Variant::widths() const {
  std::vector<int32_t> widths(static_cast<size_t>(stages));
  for (const Program &program : programs)
    for (const int32_t stage : program.stages)
      ++widths[size_t(stage)];
  return widths;
}

bool runSameJobs(const Variant &one, const Variant &other) {
  return one.jobs == other.jobs && std::ranges::equal(one.programs, other.programs, {}, &Program::job, &Program::job);
}

Window windowOf(const Program &program, uint32_t instruction) {
  const auto found = std::ranges::lower_bound(program.windows, instruction, {}, &Window::instruction);
  return found == program.windows.end() || found->instruction != instruction ? Window{instruction} : *found;
}

Program unrolled(const Program &program) {
  Program flat = program;
  flat.instructions.clear();
  flat.waits.clear();
  flat.windows.clear();
  for (Cursor cursor(program); !cursor.done(); cursor.next()) {
    const Step step = cursor.at();
    Instruction instruction = *step.instruction;
    instruction.microbatch = int32_t(step.microbatch());
    instruction.microbatchStride = 0;
    instruction.firstWait = uint32_t(flat.waits.size());
    for (uint32_t w = 0; w != instruction.waits; ++w) {
      Wait wait = program.waits[step.instruction->firstWait + w];
      wait.base += wait.stride * step.trip;
      wait.stride = 0;
      flat.waits.push_back(wait);
    }
    if (Window window = windowOf(program, uint32_t(step.instruction - program.instructions.data()));
        window.length != 0) {
      window.instruction = uint32_t(flat.instructions.size());
      flat.windows.push_back(window);
    }
    flat.instructions.push_back(instruction);
  }
  flat.step = {{0, uint32_t(flat.instructions.size()), 1}};
  return flat;
}

std::vector<int32_t> stagesDoing(const Variant &variant, Work work) {
  std::set<int32_t> stages;
  for (const Program &program : variant.programs)
    for (const Operation &operation : program.operations)
      if (does(operation.kind, work))
        stages.insert(operation.stage);
  return {stages.begin(), stages.end()};
}

int64_t executed(const Program &program) {
  int64_t count = 0;
  for (const Segment &segment : program.step)
    count += int64_t(segment.count) * segment.trips;
  return count;
}

} // namespace pipec::plan
