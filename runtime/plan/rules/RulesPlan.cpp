// Rules P6, P7, P9, P19, P20, P44, P45 and P59: what a plan and its variants say of themselves.
#include "runtime/plan/Limits.h"
#include "runtime/plan/Place.h"
#include "runtime/plan/Text.h"
#include "runtime/plan/Units.h"
#include "runtime/plan/rules/Rules.h"

#include <algorithm>
#include <flatbuffers/flexbuffers.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>

namespace pipec::plan::rules {
namespace {

Status sizeError(const char *what, int64_t found, int64_t least, int64_t most) {
  return Status::input(fmt::format("P7: {} {}, expected {} to {}", found, what, least, most));
}

/// Whether a swap leaves a layer's state where it is.
bool keepsState(const Layer &one, const Layer &other) {
  return one.gradients == other.gradients && one.weights == other.weights && one.sharded == other.sharded;
}

} // namespace

Status onlySupported(const Variant &variant) {
  for (const Program &program : variant.programs) {
    for (const Operation &o : program.operations) {
      if (isKnown(o.kind) && !rowOf(o.kind).supported)
        return Status::input(
            fmt::format("P6: rank {}: operations of kind {} are not supported yet: a newer pipec is needed",
                        program.rank, name(o.kind)));
    }
    for (const Queue &q : program.queues) {
      if (q.priority == Priority::Jobs)
        return Status::input(fmt::format(
            "P6: rank {}: queues for background jobs are not supported yet: a newer pipec is needed", program.rank));
      if (q.priority == Priority::Weights && !variant.layers.empty())
        return Status::input(fmt::format(
            "P6: rank {}: queues for weights are not supported yet where there are replicas: a newer pipec is needed",
            program.rank));
    }
  }
  return {};
}

Status planSizes(const Plan &plan) {
  if (!within(int64_t(plan.variants.size()), 1, limits::kVariants))
    return sizeError("variants", int64_t(plan.variants.size()), 1, limits::kVariants);
  const Variant &first = plan.variants.front();
  for (size_t v = 1; v < plan.variants.size(); ++v) {
    const Variant &other = plan.variants[v];
    bool same = other.stages == first.stages && other.copies == first.copies && other.batch == first.batch &&
                other.stageGroups == first.stageGroups && other.boundaries == first.boundaries &&
                other.programs.size() == first.programs.size();
    for (size_t r = 0; same && r < first.programs.size(); ++r)
      same = other.programs[r].stages == first.programs[r].stages;
    if (!same)
      return Status::input(
          fmt::format("P7: variant {} places stages on ranks in another way than variant 0; all must agree", v));
    if (!std::equal(first.layers.begin(), first.layers.end(), other.layers.begin(), other.layers.end(), keepsState))
      return Status::input(fmt::format("P7: variant {} has other layers than variant 0, or shards others; all must "
                                       "agree, so that a swap moves no state",
                                       v));
    if (other.shared != first.shared || (!first.shared.empty() && other.cut != first.cut))
      return Status::input(fmt::format("P7: variant {} has other shared weights than variant 0, or other layers hold "
                                       "them; all must agree, so that a swap moves no state",
                                       v));
  }
  return {};
}

Status variantSizes(const Variant &v) {
  if (!within(int64_t(v.programs.size()), 1, limits::kRanks))
    return sizeError("ranks", int64_t(v.programs.size()), 1, limits::kRanks);
  if (!within(v.stages, 1, limits::kStages))
    return sizeError("stages", v.stages, 1, limits::kStages);
  if (!within(v.microbatches, 1, limits::kMicrobatches))
    return sizeError("microbatches", v.microbatches, 1, limits::kMicrobatches);
  if (!within(v.copies, 1, 2))
    return sizeError("copies", v.copies, 1, 2);
  if (v.stages % v.copies != 0)
    return Status::input(fmt::format("P7: {} stages of {} copies, expected as many of each", v.stages, v.copies));
  if (!within(v.slices, 1, v.microbatches))
    return sizeError("slices", v.slices, 1, v.microbatches);
  if (v.microbatches % v.slices != 0)
    return Status::input(
        fmt::format("P7: {} slices of sequences of {}, expected whole ones", v.microbatches, v.slices));
  if (!within(v.memoryLimit, 0, limits::kBytes))
    return sizeError("bytes of memory limit", v.memoryLimit, 0, limits::kBytes);
  for (const Program &program : v.programs) {
    if (!within(program.staticBytes, 0, limits::kBytes))
      return sizeError("static bytes", program.staticBytes, 0, limits::kBytes);
    if (!within(program.workspace, 0, limits::kBytes))
      return sizeError("bytes of workspace", program.workspace, 0, limits::kBytes);
    if (!within(program.memoryLimit, 0, v.memoryLimit))
      return sizeError("bytes of a rank's own memory limit", program.memoryLimit, 0, v.memoryLimit);
  }
  return {};
}

Status shardCount(const Variant &variant) {
  const size_t ranks = variant.programs.size(), rows = variant.own.size();
  if (rows != 0 && (ranks == 0 || rows % ranks != 0 || rows < 2 * ranks || rows > size_t(limits::kProcesses)))
    return Status::input(fmt::format("P45: {} processes with times of their own for {} ranks, expected none, or two or "
                                     "more of each and at most {}",
                                     rows, ranks, limits::kProcesses));
  return {};
}

Status processes(const Plan &plan) {
  for (size_t v = 0; v < plan.variants.size(); ++v) {
    if (Status status = shardCount(plan.variants[v]); !status.ok())
      return status;
    if (plan.variants[v].shards() != plan.shards())
      return Status::input(fmt::format("P45: variant {} has {} shards of each rank, variant 0 has {}; all must agree",
                                       v, plan.variants[v].shards(), plan.shards()));
  }
  const size_t ranks = plan.variants.front().programs.size(), count = plan.processes.size();
  const auto shards = size_t(plan.shards());
  if (ranks == 0 || count == 0 || count % (ranks * shards) != 0 || count > size_t(limits::kProcesses))
    return Status::input(fmt::format("P45: {} processes for {} ranks{}, expected as many of each and at most {}", count,
                                     ranks, shards == 1 ? "" : fmt::format(" of {} shards", shards),
                                     limits::kProcesses));
  const int32_t degree = plan.degree();
  if (degree > 1 && shards > 1)
    return Status::input(
        fmt::format("P45: {} replicas of each rank and {} shards of each of them, expected one of one or the other",
                    degree, shards));
  for (size_t i = 0; i < count; ++i) {
    const Place place = placeOf(int32_t(i), plan);
    const Process expected{place.rank, place.replica, place.shard};
    if (const Process &p = plan.processes[i]; p != expected)
      return Status::input(
          fmt::format("P45: process {} is replica {} of rank {}, shard {}, expected replica {} of rank "
                      "{}, shard {}",
                      i, p.replica, p.rank, p.shard, expected.replica, expected.rank, expected.shard));
  }
  for (size_t v = 0; v < plan.variants.size(); ++v) {
    if (plan.variants[v].sharedPort && degree == 1)
      return Status::input(
          fmt::format("P45: variant {} shares its ports with an exchange of replicas, of which there are none", v));
    if (plan.variants[v].sharesStages() && gridOf(plan).each() > 1)
      return Status::input(
          fmt::format("P45: variant {} has stages on several ranks, of which there are {} replicas and "
                      "{} shards, expected one of each",
                      v, degree, shards));
    if (plan.variants[v].layers.empty() != (degree == 1 && !plan.variants[v].sharesStages()))
      return Status::input(fmt::format("P45: variant {} has {} layers with {} replicas of each rank, expected {}", v,
                                       plan.variants[v].layers.size(), degree,
                                       plan.variants[v].sharesStages() ? "those of all stages"
                                       : degree == 1                   ? "none"
                                                                       : "those that replicas exchange"));
  }
  return {};
}

namespace {

/// Why a group is none, or empty.
std::string wrongMembers(const Group &group, size_t processes) {
  if (group.members.size() < 2)
    return fmt::format("{} members, expected two or more", group.members.size());
  for (size_t i = 0; i < group.members.size(); ++i) {
    if (!within(group.members[i], 0, int64_t(processes) - 1))
      return fmt::format("process {}, the plan has 0 to {}", group.members[i], int64_t(processes) - 1);
    if (i > 0 && group.members[i] <= group.members[i - 1])
      return fmt::format("process {} after process {}, expected ascending", group.members[i], group.members[i - 1]);
  }
  return {};
}

/// Which ranks have operations of each group.
std::vector<std::vector<int32_t>> usersOf(const Variant &variant, size_t groups) {
  std::vector<std::vector<int32_t>> users(groups);
  for (const Program &program : variant.programs)
    for (const Operation &o : program.operations)
      if (o.group >= 0 && size_t(o.group) < groups)
        if (std::vector<int32_t> &own = users[size_t(o.group)]; own.empty() || own.back() != program.rank)
          own.push_back(program.rank);
  return users;
}

/// Whether all operations of a group are sums of shared weights, in which replicas of several ranks take part.
bool isOfShared(const Variant &variant, size_t group) {
  for (const Program &program : variant.programs)
    for (const Operation &o : program.operations)
      if (o.group == int32_t(group) && !plan::isOfShared(o))
        return false;
  return true;
}

/// All replicas (shards) of ranks.
std::vector<int32_t> processesOf(const Plan &plan, const std::vector<int32_t> &ranks) {
  const int32_t each = gridOf(plan).each();
  std::vector<int32_t> processes;
  for (const int32_t rank : ranks)
    for (int32_t world = rank * each; world != (rank + 1) * each; ++world)
      processes.push_back(world);
  return processes;
}

} // namespace

Status groups(const Plan &plan) {
  for (size_t g = 0; g < plan.groups.size(); ++g)
    if (std::string wrong = wrongMembers(plan.groups[g], plan.processes.size()); !wrong.empty())
      return Status::input(fmt::format("P44: group {} has {}", g, wrong));
  for (const Variant &variant : plan.variants) {
    if (Status status = stageGroups(plan, variant); !status.ok())
      return status;
    for (const Program &program : variant.programs)
      for (const Operation &o : program.operations)
        if (o.group >= 0 && size_t(o.group) >= plan.groups.size())
          return Status::input(fmt::format("P44: rank {}: an operation ({} stage {}) is of group {}, the plan has {}",
                                           program.rank, name(o.kind), o.stage, o.group, plan.groups.size()));
    const std::vector<std::vector<int32_t>> users = usersOf(variant, plan.groups.size());
    for (size_t g = 0; g < users.size(); ++g) {
      if (users[g].empty())
        continue;
      const char *const what = plan.shards() > 1 ? "sums" : "collectives";
      if (gridOf(plan).each() > 1 && users[g].size() > 1 && !isOfShared(variant, g))
        return Status::input(fmt::format("P44: ranks {} have {} of group {}, expected the {} of one rank",
                                         fmt::join(users[g], ", "), what, g,
                                         plan.shards() > 1 ? "shards" : "replicas"));
      if (processesOf(plan, users[g]) != plan.groups[g].members)
        return Status::input(fmt::format("P44: ranks {} have {} of group {}, which is of {}", fmt::join(users[g], ", "),
                                         what, g, fmt::join(plan.groups[g].members, ", ")));
    }
  }
  return {};
}

Status stages(const Variant &variant) {
  std::vector<int32_t> rankOf(size_t(variant.stages), -1);
  for (size_t r = 0; r < variant.programs.size(); ++r) {
    const Program &program = variant.programs[r];
    if (program.rank != int64_t(r))
      return Status::input(fmt::format("P9: program {} has rank {}, expected {}", r, program.rank, r));
    int32_t before = -1;
    for (const int32_t stage : program.stages) {
      if (!within(stage, 0, variant.stages - 1))
        return Status::input(
            fmt::format("P9: rank {} holds stage {}, the plan has 0 to {}", r, stage, variant.stages - 1));
      if (stage <= before)
        return Status::input(
            fmt::format("P9: rank {} lists stage {} after stage {}, expected ascending", r, stage, before));
      if (rankOf[size_t(stage)] != -1 && !variant.sharesStages())
        return Status::input(fmt::format("P9: stage {} is on rank {} and on rank {}: copies of a stage have numbers of "
                                         "their own",
                                         stage, rankOf[size_t(stage)], r));
      if (variant.sharesStages() && rankOf[size_t(stage)] != int32_t(r) - 1)
        return Status::input(
            fmt::format("P9: stage {} is on rank {} and not on rank {}: expected the first ranks of all", stage, r,
                        rankOf[size_t(stage)] + 1));
      rankOf[size_t(stage)] = int32_t(r);
      before = stage;
    }
  }
  const auto missing = std::find(rankOf.begin(), rankOf.end(), -1);
  if (missing != rankOf.end())
    return Status::input(fmt::format("P9: stage {} is on no rank", missing - rankOf.begin()));
  const int32_t half = variant.stagesOfCopy(), last = int32_t(variant.programs.size()) - 1;
  for (int32_t s = 0; variant.copies == 2 && s < half; ++s)
    if (rankOf[size_t(s + half)] != last - rankOf[size_t(s)])
      return Status::input(fmt::format("P9: stage {} is on rank {} and its copy, stage {}, on rank {}, expected {}", s,
                                       rankOf[size_t(s)], s + half, rankOf[size_t(s + half)],
                                       last - rankOf[size_t(s)]));
  return {};
}

Status certificate(const Variant &variant) {
  const Certificate &c = variant.certificate;
  for (const Time time : {c.makespan, c.span, c.lowerBound.picoseconds(), c.spanLowerBound.picoseconds()})
    if (!within(time, 0, limits::kTime))
      return Status::input(
          fmt::format("P19: the certificate has a time of {} ps, expected 0 to {}", time, limits::kTime));
  if (c.bound > Bound::Exchange || c.spanBound > Bound::Exchange)
    return Status::input(fmt::format("P19: the certificate's bounds are of kinds {} and {}, expected 0 to {}",
                                     int(c.bound), int(c.spanBound), int(Bound::Exchange)));
  if (c.lowerBound.isRefutedBy(c.makespan))
    return Status::input(fmt::format("P19: the certificate's makespan, {}, is under its lower bound, {}",
                                     timeText(c.makespan), timeText(c.lowerBound.picoseconds())));
  if (c.spanLowerBound.isRefutedBy(c.span))
    return Status::input(fmt::format("P19: the certificate's span, {}, is under its lower bound, {}", timeText(c.span),
                                     timeText(c.spanLowerBound.picoseconds())));
  if (!within(variant.cutBound.picoseconds(), 0, c.makespan))
    return Status::input(
        fmt::format("P19: the certificate's bound over all cuts is {} ps, expected 0 to {}, the makespan",
                    variant.cutBound.picoseconds(), c.makespan));
  if (!variant.cut.empty() &&
      (int64_t(variant.cut.size()) != variant.stagesOfCopy() ||
       std::any_of(variant.cut.begin(), variant.cut.end(), [](int32_t each) { return each < 1; })))
    return Status::input(fmt::format(
        "P19: expected a layer or more for each of {} stages in the cut, found {} stages{}", variant.stagesOfCopy(),
        variant.cut.size(), int64_t(variant.cut.size()) != variant.stagesOfCopy() ? "" : ", some without"));
  if (const int64_t layers = std::accumulate(variant.cut.begin(), variant.cut.end(), int64_t(0));
      layers > limits::kModelLayers)
    return Status::input(
        fmt::format("P19: expected at most {} layers in the cut, found {}", limits::kModelLayers, layers));
  return {};
}

bool isProvider(const std::vector<uint8_t> &values) {
  if (values.empty())
    return true;
  std::vector<uint8_t> seen; // by offset, the type of what begins there; what is shared is looked at once
  if (!flexbuffers::VerifyBuffer(values.data(), values.size(), &seen))
    return false;
  // The verifier takes any key with a character for one that ends. A key without a 0 behind its start has no end.
  const auto fromLastZero = std::find(values.rbegin(), values.rend(), 0).base() - values.begin();
  const uint8_t key = flexbuffers::PackedType(flexbuffers::BIT_WIDTH_8, flexbuffers::FBT_KEY);
  return std::find(seen.begin() + fromLastZero, seen.end(), key) == seen.end();
}

Status names(const Variant &variant) {
  const auto error = [](const char *what, const std::string &wrong) {
    return Status::input(fmt::format("P59: {}: {}, expected at most {} bytes of UTF-8 without control characters", what,
                                     wrong, limits::kNameBytes));
  };
  if (const std::string wrong = units::wrongName(variant.name); !wrong.empty())
    return error("the variant's name", wrong);
  if (const std::string wrong = units::wrongName(variant.schedule); !wrong.empty())
    return error("the schedule's name", wrong);
  for (const Portion &portion : variant.portions)
    if (const std::string wrong = units::wrongName(portion.split); !wrong.empty())
      return error("a split's name", wrong);
  if (const std::string wrong = units::wrongText(variant.balance); !wrong.empty())
    return Status::input(
        fmt::format("P59: what chose the portions: {}, expected UTF-8 without control characters", wrong));
  return {};
}

Status provider(const Plan &plan) {
  if (plan.provider.size() > size_t(limits::kProviderBytes))
    return Status::input(fmt::format("P20: the values for the stage library take {} bytes, over the limit of {}",
                                     plan.provider.size(), limits::kProviderBytes));
  if (!isProvider(plan.provider))
    return Status::input("P20: the values for the stage library are damaged: they are no FlexBuffer, or one of their "
                         "keys has no end");
  return {};
}

} // namespace pipec::plan::rules
