#include "runtime/simulate/Pieces.h"

#include "runtime/simulate/Simulate.h"

#include <algorithm>
#include <fmt/format.h>

namespace pipec::simulate {

using plan::Time;

namespace {

bool hasWindows(const plan::Variant &variant) {
  return std::ranges::any_of(variant.programs, [](const plan::Program &each) { return !each.windows.empty(); });
}

} // namespace

Status spanOfResumes(const plan::Variant &variant, const std::function<Time(const Resume &)> &cost, Time &time) {
  plan::Variant instant = variant;
  for (plan::Program &program : instant.programs)
    for (plan::Operation &operation : program.operations)
      operation.cost = operation.latency = 0;
  Options options;
  options.resume = [&](const Resume &at) { return at.ready + cost(at); };
  Result ignored;
  return span(instant, time, ignored, options);
}

Status delay(const plan::Variant &variant, Time &delay) {
  delay = 0;
  return hasWindows(variant) ? spanOfResumes(variant, [](const Resume &at) { return at.piece; }, delay) : Status();
}

Status resumes(const plan::Variant &variant, int32_t job, int64_t &millionths) {
  constexpr Time kOne = 1'000'000;
  const auto one = [&](const Resume &at) { return variant.programs[size_t(at.place)].job == job ? kOne : 0; };
  return spanOfResumes(variant, one, millionths);
}

bool delayHoldsInAnyTiming(const plan::Variant &variant) {
  const auto alone = [](const plan::Program &program) {
    return std::ranges::count(program.queues, plan::QueueKind::Device, &plan::Queue::kind) <= 1;
  };
  return !variant.sharedPort && std::ranges::all_of(variant.programs, alone);
}

Status proveDelay(const plan::Variant &variant) {
  const plan::Certificate &certificate = variant.certificate;
  if (certificate.delayProven && !delayHoldsInAnyTiming(variant))
    return Status::check("P56: the delay of jobs is said to be proven, and something in the plan chooses by time");
  Time found = 0;
  Status status = delay(variant, found);
  if (status.ok() && found != certificate.delay)
    return Status::check(fmt::format("P56: the certificate's delay is {} ps, a step of resumes alone takes {} ps",
                                     certificate.delay, found));
  return status;
}

} // namespace pipec::simulate
