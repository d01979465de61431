// A right plan with a background job, for tests.
#pragma once

#include "test/plan/Refused.h"

namespace pipec::plan::test {

/// Two ranks of 1F1B with two jobs; the second rank runs the first of them in pieces of six atoms, in windows of its
/// first two passes that wait.
inline Plan makeJobs() {
  Make make;
  make.ranks = 2;
  make.microbatches = 4;
  make.memoryLimit = Bytes(40) << 30;
  make.rolled = false;
  Plan plan = makePlan(make);
  Variant &variant = plan.variants[0];
  variant.jobs = {{"vgg", 8, 340, 50'000'000, 20'000'000, Bytes(1) << 30, {1, 4, 1}}, {"other", 1, 1, 1, 0, 0, {}}};
  variant.slowDown = 10'000;
  // Times as the walk finds them (P37, P56); the bounds are only under them.
  variant.certificate = {154'080'000'000,
                         154'080'000'000,
                         LeastTime::proven(120'000'000'000),
                         LeastTime::proven(100'000'000'000),
                         Bound::WarmUp,
                         Bound::Work,
                         640'000'000,
                         true};
  Program &program = variant.programs[1];
  program.job = 0;
  program.piece = 6;
  for (uint32_t i = 0; i != program.instructions.size() && program.windows.size() != 2; ++i)
    if (program.instructions[i].queue == 0 && program.instructions[i].waits != 0)
      program.windows.push_back({i, 3'000'000'000 + Time(i)});
  return plan;
}

} // namespace pipec::plan::test
