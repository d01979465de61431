// Queues by name. Should a program have several of one name, they are told apart by their order.
#include "runtime/device/Layout.h"

#include "runtime/device/Device.h"
#include "runtime/plan/Disassemble.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace pipec::runtime {

Layout::Layout(const plan::Program &program) { add(program); }

namespace {

/// The first queue of that name which is not taken; names.size() if there is none.
size_t findFree(const std::vector<std::string> &names, const std::vector<bool> &taken, const std::string &name) {
  size_t at = 0;
  while (at < names.size() && (taken[at] || names[at] != name))
    ++at;
  return at;
}

bool reduces(const plan::Program &program, bool inGroups) {
  return std::any_of(program.operations.begin(), program.operations.end(), [&](const plan::Operation &op) {
    return plan::isCollective(op.kind) && (op.group != -1) == inGroups;
  });
}

} // namespace

void Layout::add(const plan::Program &program) {
  place.rank = program.rank;
  reduces |= runtime::reduces(program, false);
  reducesInGroups |= runtime::reduces(program, true);
  std::vector<std::string> theirs = plan::queueNames(program);
  std::vector<int64_t> counts = executedByQueue(program);
  std::vector<bool> taken(names.size(), false);
  for (size_t q = 0; q < theirs.size(); ++q) {
    size_t at = findFree(names, taken, theirs[q]);
    if (at == names.size()) {
      names.push_back(theirs[q]);
      queues.push_back(program.queues[q]);
      executed.push_back(0);
      taken.push_back(false);
    }
    taken[at] = true;
    executed[at] = std::max(executed[at], counts[q]);
  }
}

Status Layout::map(const plan::Program &program, std::vector<uint32_t> &queueOf) const {
  if ((runtime::reduces(program, false) && !reduces) || (runtime::reduces(program, true) && !reducesInGroups))
    return Status::check(fmt::format("{}: the plan has an all_reduce, this run was started without one: start it "
                                     "with a plan that has one in some variant",
                                     plan::nameOf(place)));
  std::vector<bool> taken(names.size(), false);
  queueOf.clear();
  for (const std::string &name : plan::queueNames(program)) {
    size_t at = findFree(names, taken, name);
    if (at == names.size())
      return Status::check(fmt::format("{}: the plan needs a queue \"{}\", this run has \"{}\": compile it with the "
                                       "same placement and communicator as the plan that runs",
                                       plan::nameOf(place), name, fmt::join(names, "\", \"")));
    taken[at] = true;
    queueOf.push_back(uint32_t(at));
  }
  return {};
}

Layout layoutOf(const plan::Plan &plan, int32_t world) {
  Layout layout;
  layout.place = plan::placeOf(world, plan);
  for (const plan::Variant &variant : plan.variants)
    layout.add(variant.programs[size_t(layout.place.rank)]);
  return layout;
}

} // namespace pipec::runtime
