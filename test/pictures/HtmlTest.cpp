// What of a page the command line cannot bring about: names that only a plan from a stranger has, runs that ended early
// or changed their variant.
#include "compiler/pictures/Html.h"
#include "compiler/pictures/Overlay.h"
#include "test/plan/MakeShards.h"

#include "runtime/simulate/Simulate.h"

#include <gtest/gtest.h>

namespace pipec::emit {
namespace {

/// Certificates are the compiler's; a page needs the times alone.
plan::Plan certifiedPlan(plan::Plan plan) {
  for (plan::Variant &variant : plan.variants) {
    simulate::Result result;
    EXPECT_TRUE(simulate::span(variant, variant.certificate.span, result).ok());
    variant.certificate.makespan = result.makespan;
  }
  return plan;
}

plan::Plan certified(const plan::test::Make &make) { return certifiedPlan(plan::test::makePlan(make)); }

std::string pageOf(const plan::Plan &plan, const trace::Run &run = {}) {
  PlanReport figures;
  EXPECT_TRUE(report(plan, figures).ok());
  std::string text, note;
  const Status status = html(plan, figures, run, text, note);
  EXPECT_TRUE(status.ok()) << status.message;
  return text;
}

/// What a run would have recorded that ran as predicted.
trace::Run runOf(const plan::Variant &variant, int64_t steps, int64_t firstStep = 0) {
  trace::Run run;
  simulate::Options options;
  options.steps = steps;
  options.observe = [&](const simulate::Event &e) {
    run.events.push_back({e.place, e.queue, e.operation->kind, e.operation->of, e.operation->stage, e.operation->peer,
                          e.microbatch, firstStep + e.step, 0, e.start, e.end});
  };
  simulate::Result result;
  EXPECT_TRUE(simulate::simulate(variant, options, result).ok());
  return run;
}

size_t count(const std::string &text, const std::string &part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++found;
  return found;
}

// Rows are of processes, each with what is its own.
TEST(Html, ShardsHaveRows) {
  plan::test::Sharded how;
  how.make.ranks = 2;
  how.factors = {plan::Own::kWhole, 3 * plan::Own::kWhole, 2 * plan::Own::kWhole, plan::Own::kWhole};
  plan::Plan plan = certifiedPlan(makeShards(how));
  plan.variants[0].own[1].staticBytes = 123'456'789;
  const std::string page = pageOf(plan);
  EXPECT_EQ(count(page, "\"shards\":2"), 1u);
  EXPECT_EQ(count(page, "\"base\":"), 4u);
  EXPECT_EQ(count(page, "\"static\":123456789"), 1u);
  EXPECT_EQ(count(page, "\"shards\":1"), 0u);
  const trace::Run run = runOf(plan.variants[0], 2);
  std::vector<RunStep> steps;
  ASSERT_EQ(overlay(plan, run, steps).message, "");
  ASSERT_EQ(steps.size(), 2u);
  trace::Run other = run;
  other.events.back().rank = 4;
  EXPECT_EQ(overlay(plan, other, steps).message,
            "the trace is of another plan: it has a process 4, the plan has 4 processes");
  EXPECT_EQ(count(pageOf(plan, run), "\"run\":{\"step\":"), 2u);
}

TEST(Html, NamesAreTextWhateverTheyHold) {
  plan::Plan plan = certified({});
  plan.variants.front().name = "</script><script>alert(1)</script><!-- {{script}} \xff &amp;";
  plan.variants.front().schedule = "</title><script>alert(2)</script>{{data}}";
  const std::string page = pageOf(plan);
  EXPECT_EQ(count(page, "<script"), 2u);
  EXPECT_EQ(count(page, "</script>"), 2u);
  EXPECT_EQ(count(page, "<!--"), 0u);
  EXPECT_EQ(count(page, "\xff"), 0u);
  EXPECT_EQ(count(page, "<title>&lt;/title&gt;&lt;script&gt;alert(2)&lt;/script&gt;{{data}} · pipec</title>"), 1u);
  EXPECT_EQ(count(page, "\"use strict\""), 1u);
}

TEST(Html, TheSamePlanIsTheSamePage) { EXPECT_EQ(pageOf(certified({})), pageOf(certified({}))); }

TEST(Html, EveryStepOfARunIsInItsPage) {
  const plan::Plan plan = certified({.ranks = 3, .microbatches = 4});
  const std::string page = pageOf(plan, runOf(plan.variants.front(), 5));
  EXPECT_EQ(count(page, "\"run\":{\"step\":"), 5u);
}

TEST(Html, ARunThatWentOnFromALateStepIsShown) {
  const plan::Plan plan = certified({.ranks = 3, .microbatches = 4});
  const std::string page = pageOf(plan, runOf(plan.variants.front(), 2, int64_t(1) << 40));
  EXPECT_EQ(count(page, "\"run\":{\"step\":1099511627776,"), 1u);
}

TEST(Html, DecisionsStandWithTheirSteps) {
  const plan::Plan plan = certified({.ranks = 3, .microbatches = 4});
  trace::Run run = runOf(plan.variants.front(), 3);
  EXPECT_EQ(count(pageOf(plan, run), "\"decisions\":"), 0u);
  const plan::Time second =
      std::find_if(run.events.begin(), run.events.end(), [](const trace::Event &e) { return e.step == 2; })->start;
  run.decisions = {{second + 5, 3, "</script>", "k=2", "now", "<b>"}};
  const std::string page = pageOf(plan, run);
  EXPECT_EQ(count(page, "\"decisions\":["), 1u);
  EXPECT_EQ(
      count(page, "\"step\":3,\"from\":\"\\u003c/script>\",\"to\":\"k=2\",\"policy\":\"now\",\"why\":\"\\u003cb>\"}"),
      1u);
}

TEST(Overlay, FindsTheVariantOfEachStep) {
  plan::Plan plan = certified({.microbatches = 4});
  plan.variants.push_back(certified({.microbatches = 4, .split = true}).variants.front());
  trace::Run run = runOf(plan.variants[0], 2);
  for (const trace::Event &event : runOf(plan.variants[1], 3, 2).events)
    run.events.push_back(event);
  std::vector<RunStep> steps;
  ASSERT_TRUE(overlay(plan, run, steps).ok());
  ASSERT_EQ(steps.size(), 5u);
  for (size_t s = 0; s != 5; ++s) {
    EXPECT_EQ(steps[s].step, int64_t(s));
    EXPECT_EQ(steps[s].variant, s < 2 ? 0u : 1u);
  }
  const plan::Operation &first = plan.variants[0].programs[0].operations.front();
  ASSERT_NE(steps[0].find(0, first, 0), nullptr);
  EXPECT_EQ(steps[0].find(0, first, 0)->start, 0);
  EXPECT_EQ(steps[0].find(0, first, 4), nullptr);
}

TEST(Overlay, TakesAStepThatEndedEarly) {
  const plan::Plan plan = certified({});
  trace::Run run = runOf(plan.variants.front(), 1), begun;
  for (const trace::Event &event : run.events)
    if (event.end < 60'000'000'000)
      begun.events.push_back(event);
  ASSERT_LT(begun.events.size(), run.events.size());
  std::vector<RunStep> steps;
  ASSERT_TRUE(overlay(plan, begun, steps).ok());
  pageOf(plan, begun);
}

TEST(Overlay, RefusesAnotherOrder) {
  const plan::Plan plan = certified({});
  trace::Run run = runOf(plan.variants.front(), 1);
  for (trace::Event &event : run.events)
    if (event.rank == 1 && event.kind == plan::Kind::Forward)
      event.microbatch = 7 - event.microbatch;
  std::vector<RunStep> steps;
  const Status status = overlay(plan, run, steps);
  EXPECT_EQ(status.code, Code::Input);
  EXPECT_EQ(status.message,
            "the trace is of another plan: in step 0 rank 1: F stage 1 microbatch 7 is not what the plan "
            "runs there");
}

} // namespace
} // namespace pipec::emit
