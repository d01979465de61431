#include "compiler/jobs/Gaps.h"

#include "runtime/simulate/Simulate.h"

#include <algorithm>
#include <optional>
#include <tuple>

namespace pipec::jobs {

using plan::Time;

namespace {

constexpr int64_t kSteps = 64;

/// What a device or a communicator does for a while.
struct Busy {
  Time start = 0, end = 0;
  uint32_t instruction = 0;
  bool resumes = false; // it is of the compute queue and has waits
};

/// A part of a wait, after the device is free.
struct Part {
  Time from = 0, end = 0;
};

/// What of a wait from `free` to `start` is beside none of these collectives, the first of which that may matter is
/// `next`.
std::vector<Part> quietParts(Time free, Time start, const std::vector<Busy> &collectives, size_t next) {
  std::vector<Part> parts;
  Time from = free;
  for (; next != collectives.size() && collectives[next].start < start; ++next) {
    if (collectives[next].start > from)
      parts.push_back({from - free, collectives[next].start - free});
    from = std::max(from, collectives[next].end);
  }
  if (from < start)
    parts.push_back({from - free, start - free});
  return parts;
}

/// What both have.
std::vector<Part> common(const std::vector<Part> &one, const std::vector<Part> &other) {
  std::vector<Part> parts;
  for (size_t i = 0, j = 0; i != one.size() && j != other.size();) {
    const Part both{std::max(one[i].from, other[j].from), std::min(one[i].end, other[j].end)};
    if (both.from < both.end)
      parts.push_back(both);
    ++(one[i].end < other[j].end ? i : j);
  }
  return parts;
}

/// The gaps of one rank: `device` is all that its device queues do, `collectives` what pieces must not stand beside.
std::vector<Gap> gapsOf(std::vector<Busy> &device, std::vector<Busy> &collectives, size_t instructions) {
  // Events come queue by queue. What takes no time goes before what starts with it.
  const auto sooner = [](const Busy &one, const Busy &other) {
    return std::tie(one.start, one.end, one.instruction) < std::tie(other.start, other.end, other.instruction);
  };
  std::sort(device.begin(), device.end(), sooner);
  std::sort(collectives.begin(), collectives.end(), sooner);
  std::vector<std::optional<std::vector<Part>>> known(instructions); // in all steps so far
  Time free = 0;                                                     // when the device is
  size_t next = 0; // of the collectives, which come one after the other: the first that is not over by then
  for (size_t i = 0; i != device.size(); ++i) {
    const Busy &each = device[i];
    if (each.resumes && i != 0) {
      while (next != collectives.size() && collectives[next].end <= free)
        ++next;
      std::vector<Part> parts = quietParts(free, each.start, collectives, next);
      std::optional<std::vector<Part>> &own = known[each.instruction];
      own = own ? common(*own, parts) : std::move(parts);
    }
    free = std::max(free, each.end);
  }
  std::vector<Gap> gaps;
  for (uint32_t i = 0; i != instructions; ++i) {
    Gap longest{i};
    if (known[i])
      for (const Part &part : *known[i])
        if (part.end - part.from > longest.length)
          longest = {i, part.end - part.from, part.from};
    if (longest.length > 0)
      gaps.push_back(longest);
  }
  return gaps;
}

} // namespace

Status gapsOf(const plan::Variant &variant, bool quiet, std::vector<std::vector<Gap>> &gaps) {
  std::vector<std::vector<Busy>> device(variant.programs.size()), collectives(variant.programs.size());
  simulate::Options options;
  options.steps = kSteps;
  options.untilRepeats = true;
  options.observe = [&](const simulate::Event &event) {
    const plan::Program &program = variant.programs[size_t(event.rank)];
    const auto instruction = uint32_t(event.index);
    if (program.queues[event.queue].kind == plan::QueueKind::Device)
      device[size_t(event.rank)].push_back(
          {event.start, event.free, instruction, event.queue == 0 && program.instructions[instruction].waits != 0});
    else if (quiet && plan::isCollective(event.operation->kind) && event.end > event.start)
      collectives[size_t(event.rank)].push_back({event.start, event.end, instruction, false});
  };
  simulate::Result result;
  if (Status status = simulate::simulate(variant, options, result); !status.ok())
    return status;
  gaps.clear();
  for (size_t rank = 0; rank != device.size(); ++rank)
    gaps.push_back(gapsOf(device[rank], collectives[rank], variant.programs[rank].instructions.size()));
  return {};
}

} // namespace pipec::jobs
