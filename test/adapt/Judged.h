// A run by the decision maker beside each candidate alone and the oracle, and plans to judge it by.
#pragma once

#include "compiler/driver/Compile.h"
#include "compiler/driver/Files.h"
#include "runtime/adapt/VirtualRun.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <string>

namespace pipec::test {

using plan::Time;

inline plan::Plan planOf(const std::string &name, const std::string &text) {
  keep(name, text);
  Compiled compiled;
  Failure failure;
  EXPECT_TRUE(compile(name, {}, Stage::Plan, compiled, failure)) << failure.message;
  return compiled.plan;
}

/// Three variants of equal memory: kFkB with k = 1, 2 and 4 groups of 4, 2 and 1 samples. The first is the best where
/// nothing loads the links, since a microbatch has costs of its own; the others where transfers take long.
inline const plan::Plan &threeVariants() {
  static const plan::Plan plan =
      planOf("three variants.yaml",
             "pipec: 1\n"
             "pipeline: {ranks: 4, batch: 96, microbatch_size: 4}\n"
             "costs: {forward: {fixed: 8ms, per_sample: 7.2ms}, backward: {fixed: 16ms, per_sample: 14.4ms}, "
             "link: {latency: 60us, bandwidth: 11GB/s}}\n"
             "tensors: {boundary: {per_sample: 4190kB}, activation: {per_sample: 490MB}}\n"
             "schedule: 1f1b\n"
             "variants:\n"
             "  - {schedule: {name: kfkb, k: 1}}\n"
             "  - {schedule: {name: kfkb, k: 2}, pipeline: {microbatch_size: 2}}\n"
             "  - {schedule: {name: kfkb, k: 4}, pipeline: {microbatch_size: 1}}\n");
  return plan;
}

inline std::vector<const plan::Variant *> candidatesOf(const plan::Plan &plan) {
  std::vector<const plan::Variant *> candidates;
  for (const plan::Variant &each : plan.variants)
    candidates.push_back(&each);
  return candidates;
}

struct Judged {
  adapt::Course own, best;
  std::vector<adapt::Decision> decisions;
  Time fixed = 0; // the least of the candidates'

  double regret() const { return double(own.total) / double(best.total) - 1; }
  double behindFixed() const { return double(own.total) / double(fixed) - 1; }
};

inline Judged judge(const plan::Plan &plan, const simulate::Scenario &network, int64_t steps) {
  const std::vector<const plan::Variant *> candidates = candidatesOf(plan);
  Judged judged;
  EXPECT_TRUE(adapt::adaptive(candidates, network, steps, judged.own, judged.decisions).ok());
  EXPECT_TRUE(adapt::oracle(candidates, network, steps, judged.best).ok());
  for (const plan::Variant *each : candidates) {
    adapt::Course course;
    EXPECT_TRUE(adapt::fixed(*each, network, steps, course).ok());
    judged.fixed = judged.fixed == 0 ? course.total : std::min(judged.fixed, course.total);
  }
  EXPECT_EQ(judged.own.ran.size(), size_t(steps));
  EXPECT_EQ(judged.decisions.size(), size_t(steps));
  return judged;
}

} // namespace pipec::test
