// Rules P7, P44, P57 and P58, where they are about stages on several ranks.
#include "runtime/plan/Disassemble.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Text.h"
#include "runtime/plan/rules/Rules.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <tuple>

namespace pipec::plan::rules {

Status stageSizes(const Variant &variant) {
  if (!variant.sharesStages())
    return variant.batch == 0 && variant.boundaries.empty()
               ? Status()
               : Status::input(fmt::format("P7: a batch of {} samples and boundaries of {} stages, expected 0 and none "
                                           "where each stage is on one rank",
                                           variant.batch, variant.boundaries.size()));
  if (variant.stageGroups.size() != size_t(variant.stages))
    return Status::input(
        fmt::format("P7: groups of {} stages, expected of all {}", variant.stageGroups.size(), variant.stages));
  if (!within(variant.batch, 1, limits::kTime))
    return Status::input(fmt::format("P7: a batch of {} samples, expected 1 to {}", variant.batch, limits::kTime));
  if (variant.microbatches != 1 || variant.copies != 1 || variant.slices != 1)
    return Status::input(fmt::format("P7: {} microbatches, {} copies and {} slices, expected one of each where stages "
                                     "are on several ranks",
                                     variant.microbatches, variant.copies, variant.slices));
  if (!variant.boundaries.empty() && variant.boundaries.size() != size_t(variant.stages))
    return Status::input(fmt::format("P7: boundaries of {} stages, expected of all {} or none",
                                     variant.boundaries.size(), variant.stages));
  for (const Bytes bytes : variant.boundaries)
    if (!within(bytes, 0, limits::kBytes) || __int128(bytes) * variant.batch > limits::kBytes)
      return Status::input(fmt::format("P7: a stage hands on {} bytes of a sample, expected 0 to {} of all {} samples",
                                       bytes, limits::kBytes, variant.batch));
  return {};
}

Status stageGroups(const Plan &plan, const Variant &variant) {
  const std::vector<int32_t> widths = variant.widths();
  for (size_t stage = 0; stage != variant.stageGroups.size(); ++stage) {
    const int32_t group = variant.stageGroups[stage];
    if (widths[stage] > variant.batch)
      return Status::input(
          fmt::format("P44: stage {} is on {} ranks, expected no more than the {} samples of the batch", stage,
                      widths[stage], variant.batch));
    if (!within(group, -1, int64_t(plan.groups.size()) - 1))
      return Status::input(
          fmt::format("P44: stage {} is of group {}, the plan has {}", stage, group, plan.groups.size()));
    const size_t members = group == -1 ? 1 : plan.groups[size_t(group)].members.size();
    if (members != size_t(widths[stage]) ||
        (group != -1 && plan.groups[size_t(group)].members.back() != widths[stage] - 1))
      return Status::input(
          fmt::format("P44: stage {} is on the first {} ranks, its group is of others", stage, widths[stage]));
  }
  return {};
}

namespace {

/// The reshards that a rank has to execute, and does.
class Reshards {
public:
  Reshards(const Variant &variant, const std::vector<int32_t> &widths, bool backwards)
      : variant(variant), widths(widths), backwards(backwards) {}

  /// Whether ranks change what stage `from` hands on: they do where one stage is on more ranks than the other.
  bool isDue(int32_t rank, int32_t from, Payload of) const {
    const int32_t to = takerOf(from, of);
    return within(to, 0, variant.stages - 1) && (of == Payload::Forward || backwards) &&
           widths[size_t(from)] != widths[size_t(to)] && rank < std::max(widths[size_t(from)], widths[size_t(to)]);
  }
  /// The group of the wider one.
  int32_t groupOf(int32_t from, Payload of) const {
    const int32_t to = takerOf(from, of);
    return variant.stageGroups[size_t(widths[size_t(from)] > widths[size_t(to)] ? from : to)];
  }

  Status check(const Program &program, const Facts &facts) const {
    std::vector<int64_t> counts(2 * size_t(variant.stages));
    for (size_t i = 0; i != program.operations.size(); ++i) {
      const Operation &o = program.operations[i];
      if (!plan::movesSamples(o.kind) || facts.operation[i] == 0)
        continue;
      counts[2 * size_t(o.stage) + size_t(o.of == Payload::Backward)] += facts.operation[i];
      if (isDue(program.rank, o.stage, o.of) && o.group != groupOf(o.stage, o.of))
        return Status::check(fmt::format("P57: rank {}: {} is of group {}, expected {}, that of the wider stage",
                                         program.rank, text(o.stage, o.of), o.group, groupOf(o.stage, o.of)));
    }
    for (int32_t stage = 0; stage != variant.stages; ++stage)
      for (const Payload of : {Payload::Forward, Payload::Backward}) {
        const int64_t found = counts[2 * size_t(stage) + size_t(of == Payload::Backward)];
        if (found != int64_t(isDue(program.rank, stage, of)))
          return Status::check(fmt::format("P57: rank {} executes {} {} a step, expected {}", program.rank, found,
                                           text(stage, of), int64_t(isDue(program.rank, stage, of))));
      }
    return {};
  }

private:
  static std::string text(int32_t stage, Payload of) {
    return fmt::format("{} {} stage {}", name(Kind::Reshard), name(of), stage);
  }

  const Variant &variant;
  const std::vector<int32_t> &widths;
  bool backwards;
};

bool hasBackwards(const Variant &variant, const std::vector<Facts> &facts) {
  for (size_t r = 0; r != facts.size(); ++r)
    for (size_t i = 0; i != facts[r].operation.size(); ++i)
      if (facts[r].operation[i] > 0 && does(variant.programs[r].operations[i].kind, kInputGradient))
        return true;
  return false;
}

/// A rank's collectives of groups, as it issues them.
std::vector<const Operation *> collectivesOf(const Program &program) {
  std::vector<const Operation *> all;
  for (Cursor cursor(program); !cursor.done(); cursor.next())
    if (const Operation &o = *cursor.at().operation; isCollective(o.kind) && o.group != -1)
      all.push_back(&o);
  return all;
}

/// What all members of a group must have alike of a collective.
auto sharedOf(const Operation &o) {
  return std::tuple(o.kind, o.of, o.stage, o.firstLayer, o.layers, o.begin, o.end, o.bytes, o.cost);
}

std::string costsOf(const Operation &o) { return fmt::format("{} bytes in {}", o.bytes, timeText(o.cost)); }

} // namespace

Status reshards(const Variant &variant, const std::vector<Facts> &facts) {
  if (!variant.sharesStages())
    return {};
  const std::vector<int32_t> widths = variant.widths();
  const Reshards rule(variant, widths, hasBackwards(variant, facts));
  for (const Program &program : variant.programs) {
    if (Status status = rule.check(program, facts[size_t(program.rank)]); !status.ok())
      return status;
    for (size_t i = 0; i != program.operations.size(); ++i)
      if (const Operation &o = program.operations[i]; isOfLayers(o) && o.group != variant.stageGroups[size_t(o.stage)])
        return Status::check(fmt::format("P57: {} is of group {}, expected {}, that of its stage",
                                         describe(program.rank, o, 0), o.group, variant.stageGroups[size_t(o.stage)]));
  }
  return {};
}

Status oneOrder(const Variant &variant) {
  if (!variant.sharesStages())
    return {};
  // Who is in a group has rank 0 beside it, so it is enough to compare with rank 0's.
  const std::vector<const Operation *> first = collectivesOf(variant.programs.front());
  std::map<int32_t, std::vector<const Operation *>> expected; // by group
  for (const Operation *o : first)
    expected[o->group].push_back(o);
  for (size_t r = 1; r < variant.programs.size(); ++r) {
    std::map<int32_t, size_t> seen;
    for (const Operation *o : collectivesOf(variant.programs[r])) {
      const std::vector<const Operation *> &its = expected[o->group];
      const size_t at = seen[o->group]++;
      if (at >= its.size() || sharedOf(*o) != sharedOf(*its[at]))
        return Status::check(fmt::format(
            "P58: collective {} of group {} is {} of {}, {}", at, o->group, describe(int32_t(r), *o, 0), costsOf(*o),
            at < its.size() ? describe(0, *its[at], 0) + " of " + costsOf(*its[at]) : "rank 0 has none"));
    }
    for (const int32_t stage : variant.programs[r].stages)
      if (const int32_t group = variant.stageGroups[size_t(stage)]; seen[group] != expected[group].size())
        return Status::check(fmt::format("P58: rank {} executes {} collectives of group {} a step, rank 0 {}", r,
                                         seen[group], group, expected[group].size()));
  }
  return {};
}

} // namespace pipec::plan::rules
