#include "compiler/jobs/Gaps.h"

#include "runtime/simulate/Simulate.h"

#include <algorithm>
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

/// The gaps of one rank: `device` is all that its device queues do, `collectives` what pieces must not stand beside.
std::vector<Gap> gapsOf(std::vector<Busy> &device, std::vector<Busy> &collectives, size_t instructions) {
  // Events come queue by queue. What takes no time goes before what starts with it.
  const auto sooner = [](const Busy &one, const Busy &other) {
    return std::tie(one.start, one.end, one.instruction) < std::tie(other.start, other.end, other.instruction);
  };
  std::sort(device.begin(), device.end(), sooner);
  std::sort(collectives.begin(), collectives.end(), sooner);
  constexpr Time kUnseen = -1;
  std::vector<Time> least(instructions, kUnseen);
  Time free = 0, quietFrom = 0; // when the device is free; when the collectives are over that have begun by then
  size_t next = 0;              // of the collectives
  for (size_t i = 0; i != device.size(); ++i) {
    const Busy &each = device[i];
    if (each.resumes && i != 0) {
      for (; next != collectives.size() && collectives[next].start <= free; ++next)
        quietFrom = std::max(quietFrom, collectives[next].end);
      Time end = each.start;
      if (quietFrom > free)
        end = free;
      else if (next != collectives.size())
        end = std::min(end, collectives[next].start);
      Time &known = least[each.instruction];
      const Time length = std::max<Time>(end - free, 0);
      known = known == kUnseen ? length : std::min(known, length);
    }
    free = std::max(free, each.end);
  }
  std::vector<Gap> gaps;
  for (uint32_t i = 0; i != instructions; ++i)
    if (least[i] > 0)
      gaps.push_back({i, least[i]});
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
