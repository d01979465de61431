#include "runtime/simulate/Pieces.h"

#include "runtime/simulate/Simulate.h"

#include <algorithm>
#include <fmt/format.h>

namespace pipec::simulate {

namespace {

bool hasWindows(const plan::Variant &variant) {
  return std::ranges::any_of(variant.programs, [](const plan::Program &each) { return !each.windows.empty(); });
}

} // namespace

Status delay(const plan::Variant &variant, plan::Time &delay) {
  delay = 0;
  if (!hasWindows(variant))
    return {};
  plan::Variant instant = variant;
  for (plan::Program &program : instant.programs)
    for (plan::Operation &operation : program.operations)
      operation.cost = operation.latency = 0;
  Options options;
  options.resume = [](const Resume &at) { return at.ready + at.piece; };
  Result ignored;
  return span(instant, delay, ignored, options);
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
  plan::Time found = 0;
  Status status = delay(variant, found);
  if (status.ok() && found != certificate.delay)
    return Status::check(fmt::format("P56: the certificate's delay is {} ps, a step of resumes alone takes {} ps",
                                     certificate.delay, found));
  return status;
}

} // namespace pipec::simulate
