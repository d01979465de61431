// Networks that change: the passage of a transfer against what can be worked out by hand, and against counting it out
// in small pieces.
#include "runtime/simulate/Scenario.h"

#include "runtime/plan/Limits.h"
#include "runtime/simulate/ScenarioFile.h"
#include "runtime/simulate/Simulate.h"
#include "test/plan/MakePlan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <tuple>

using namespace pipec;
using plan::Bytes;
using plan::Time;
using simulate::kNever;
using simulate::Scenario;
using testing::HasSubstr;

namespace {

constexpr Time kMs = 1'000'000'000;
constexpr int64_t kGB = 1'000'000'000; // bytes a second

plan::Operation sendOf(Bytes bytes, Time cost = 0, Time latency = 0) {
  return {plan::Kind::Send, plan::Payload::Forward, 0, 1, cost, latency, bytes};
}

Scenario read(std::string_view text, int32_t ranks = 4) {
  Scenario scenario;
  simulate::Place place;
  Status status = simulate::parseScenario(text, ranks, scenario, place);
  EXPECT_TRUE(status.ok()) << place.line << ':' << place.column << ": " << status.message;
  return scenario;
}

/// "line:column: message"
std::string refusal(std::string_view text, int32_t ranks = 4) {
  Scenario scenario;
  simulate::Place place;
  Status status = simulate::parseScenario(text, ranks, scenario, place);
  EXPECT_EQ(status.code, Code::Input);
  return std::to_string(place.line) + ":" + std::to_string(place.column) + ": " + status.message;
}

} // namespace

TEST(Scenario, AConstantLinkTakesBytesByBandwidth) {
  Scenario::Link link{{0, kGB, 0}};
  EXPECT_EQ(simulate::wireEnd(link, 1000, 7), 7 + 1'000'000);
  EXPECT_EQ(simulate::wireEnd(link, 0, 7), 7);
  EXPECT_EQ(simulate::wireEnd({{0, 3, 0}}, 1, 0), 333'333'333'333);
  EXPECT_EQ(simulate::wireEnd({{0, 3, 0}}, 2, 0), 666'666'666'667); // half up
}

TEST(Scenario, AChangeInTheMiddleCountsFromThere) {
  Scenario::Link link{{0, kGB, 0}, {10 * kMs, kGB / 10, 0}, {20 * kMs, kGB, 0}};
  EXPECT_EQ(simulate::wireEnd(link, 5'000'000, 0), 5 * kMs);
  EXPECT_EQ(simulate::wireEnd(link, 10'000'000, 0), 10 * kMs);
  EXPECT_EQ(simulate::wireEnd(link, 10'500'000, 0), 15 * kMs);
  EXPECT_EQ(simulate::wireEnd(link, 11'000'000, 0), 20 * kMs);
  EXPECT_EQ(simulate::wireEnd(link, 12'000'000, 0), 21 * kMs);
  EXPECT_EQ(simulate::wireEnd(link, 1'000'000, 12 * kMs), 20 * kMs + kMs / 5);
  EXPECT_EQ(simulate::wireEnd(link, 1'000'000, 30 * kMs), 31 * kMs);
}

TEST(Scenario, AnUnlimitedStretchEndsWhatIsOnItsWay) {
  Scenario::Link link{{0, kGB, 0}, {10 * kMs, 0, 0}, {11 * kMs, kGB, 0}};
  EXPECT_EQ(simulate::wireEnd(link, 50'000'000, 5 * kMs), 10 * kMs);
  EXPECT_EQ(simulate::wireEnd(link, 50'000'000, 10 * kMs), 10 * kMs);
  EXPECT_EQ(simulate::wireEnd(link, 1'000'000, 11 * kMs), 12 * kMs);
}

TEST(Scenario, TheLargestOfEverythingStaysBelowNever) {
  EXPECT_EQ(simulate::wireEnd({{0, 1, 0}}, limits::kBytes, 0), kNever);
  EXPECT_EQ(simulate::wireEnd({{0, 1, 0}}, limits::kBytes, kNever), kNever);
  EXPECT_EQ(simulate::wireEnd({{0, limits::kBytes, 0}}, limits::kBytes, 0), 1'000'000'000'000);
  EXPECT_EQ(simulate::wireEnd({{0, 1, 0}, {limits::kTime, limits::kBytes, 0}}, limits::kBytes, 0),
            limits::kTime + 1'000'000'000'000 - 1); // what passed before saves less than a picosecond, rounded
  Scenario scenario;
  scenario.others = Scenario::Link{{0, 1, limits::kTime}};
  EXPECT_EQ(scenario.transfer(0, 1, sendOf(limits::kBytes), kNever).arrival, kNever + limits::kTime);
  scenario.slow[0] = {{0, kNever, 100'000}};
  EXPECT_EQ(scenario.computeEnd(0, 0, limits::kTime), kNever);
  EXPECT_EQ(scenario.computeEnd(0, 6 * limits::kTime, limits::kTime), kNever);
}

// Counting it out: picosecond after picosecond, in twelfths of a byte's parts.
TEST(Scenario, EndsAreWhatCountingGives) {
  std::mt19937 random(5);
  auto draw = [&](int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random); };
  for (int i = 0; i != 500; ++i) {
    Scenario::Link link{{0, draw(1, 9) * 1'000'000'000'000, 0}};
    while (link.stretches.size() != 5)
      link.stretches.push_back(
          {link.stretches.back().at + draw(1, 40), draw(1, 9) * 1'000'000'000'000, 0}); // 1 to 9 bytes a picosecond
    Time start = draw(0, 100), at = start;
    Bytes bytes = draw(0, 500), left = bytes;
    size_t s = 0;
    while (left > 0) {
      while (s + 1 != link.stretches.size() && link.stretches[s + 1].at <= at)
        ++s;
      int64_t rate = link.stretches[s].bandwidth / 1'000'000'000'000;
      if (left < rate) {
        at += 2 * left >= rate;
        break;
      }
      left -= rate;
      ++at;
    }
    ASSERT_EQ(simulate::wireEnd(link, bytes, start), at) << bytes << " bytes from " << start;
  }
}

// A link whose stretches begin anew is one on which they are written out often enough.
TEST(Scenario, WhatRepeatsIsWhatIsWrittenOut) {
  std::mt19937 random(8);
  auto draw = [&](int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random); };
  for (int i = 0; i != 500; ++i) {
    Scenario::Link link{{0, draw(0, 9) * 1'000'000'000'000, draw(0, 5)}};
    while (link.stretches.size() != 4)
      link.stretches.push_back(
          {link.stretches.back().at + draw(1, 40), draw(draw(0, 3) == 0 ? 0 : 1, 9) * 1'000'000'000'000, draw(0, 5)});
    link.repeat = link.stretches.back().at + draw(1, 20);
    Scenario repeats, written;
    repeats.links.emplace(std::pair(0, 1), link);
    Scenario::Link &all = written.links.emplace(std::pair(0, 1), link).first->second;
    all.repeat = 0;
    for (Time round = 1; round != 60; ++round)
      for (Scenario::Stretch each : link.stretches) {
        each.at += round * link.repeat;
        all.stretches.push_back(each);
      }
    const Time start = draw(0, 20 * link.repeat);
    const plan::Operation send = sendOf(draw(0, 3000));
    const Scenario::Passage one = repeats.transfer(0, 1, send, start), other = written.transfer(0, 1, send, start);
    if (other.end < 59 * link.repeat) {
      ASSERT_EQ(one.end, other.end) << send.bytes << " bytes from " << start;
      ASSERT_EQ(one.arrival, other.arrival);
    }
  }
  // Many rounds take no time to walk: 1 byte in 2 s, for 10^6 s.
  EXPECT_EQ(simulate::wireEnd({{{0, 1, 0}, {kMs, 1, 0}}, 2 * kMs}, 1'000'000, 0), 1'000'000'000'000 * Time(1'000'000));
}

// What starts later never ends earlier: transfers on a link keep their order.
TEST(Scenario, ALaterStartEndsNoEarlier) {
  std::mt19937 random(6);
  auto draw = [&](int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random); };
  for (int i = 0; i != 200; ++i) {
    Scenario::Link link{{0, draw(0, 5), 0}};
    while (link.stretches.size() != 6)
      link.stretches.push_back({link.stretches.back().at + draw(1, 3'000'000'000'000), draw(0, 5), 0});
    Time before = 0;
    for (Time start = 0; start < 9'000'000'000'000; start += draw(1, 100'000'000'000)) {
      Time end = simulate::wireEnd(link, 7, start);
      ASSERT_GE(end, std::max(start, before));
      before = end;
    }
  }
}

TEST(Scenario, LatencyIsThatOfTheMomentWhenTheLastByteLeaves) {
  Scenario scenario;
  scenario.links[{0, 1}] = {{0, kGB, kMs}, {5 * kMs, kGB, 3 * kMs}};
  EXPECT_EQ(scenario.transfer(0, 1, sendOf(4'000'000), 0).arrival, 5 * kMs);
  EXPECT_EQ(scenario.transfer(0, 1, sendOf(5'000'000), 0).arrival, 8 * kMs);
}

TEST(Scenario, LinksNotGivenAreThePlansOrTheDefaults) {
  Scenario scenario;
  Scenario::Passage passage = scenario.transfer(0, 1, sendOf(1000, 30, 5), 10);
  EXPECT_EQ(passage.end, 40);
  EXPECT_EQ(passage.arrival, 45);
  scenario.others = Scenario::Link{{0, kGB, 7}};
  passage = scenario.transfer(0, 1, sendOf(1000, 30, 5), 10);
  EXPECT_EQ(passage.end, 1'000'010);
  EXPECT_EQ(passage.arrival, 1'000'017);
}

TEST(Scenario, ACollectiveOfReplicasTakesTheHopsOfItsRing) {
  plan::Operation sum{plan::Kind::AllReduce, plan::Payload::Gradients, 0, -1, 7 * kMs, 0, 4'000'000};
  Scenario scenario = read(R"({"scenario": 1})");
  EXPECT_EQ(scenario.exchangeEnd(sum, 5 * kMs), 12 * kMs);
  scenario = read(R"({"scenario": 1, "replicas": {"bandwidth": "1GB/s", "latency": "1ms"}})");
  scenario.degree = 4;
  EXPECT_EQ(scenario.exchangeEnd(sum, 5 * kMs), 5 * kMs + 6 * (kMs + kMs));
  sum.kind = plan::Kind::AllGather;
  EXPECT_EQ(scenario.exchangeEnd(sum, 5 * kMs), 5 * kMs + 3 * (kMs + kMs));
}

TEST(Scenario, ACutLosesWhatHasNotArrived) {
  Scenario scenario = read(R"({"scenario": 1, "faults": [{"cut": [2, 1], "at": "1ms"}]})");
  EXPECT_FALSE(scenario.transfer(1, 2, sendOf(0, kMs), 0).lost);
  EXPECT_TRUE(scenario.transfer(2, 1, sendOf(0, kMs, 1), 0).lost);
  EXPECT_FALSE(scenario.transfer(0, 1, sendOf(0, kMs, 1), 0).lost);
}

TEST(Scenario, ASlowRankTakesLongerWhileItIsSlow) {
  Scenario scenario = read(R"({"scenario": 1, "faults": [{"slow": 1, "percent": 150, "at": "1ms", "until": "2ms"}]})");
  EXPECT_EQ(scenario.computeEnd(1, kMs - 1, 10), kMs + 9);
  EXPECT_EQ(scenario.computeEnd(1, kMs, 10), kMs + 15);
  EXPECT_EQ(scenario.computeEnd(1, kMs, 1), kMs + 2); // half up
  EXPECT_EQ(scenario.computeEnd(1, 2 * kMs, 10), 2 * kMs + 10);
  EXPECT_EQ(scenario.computeEnd(0, kMs, 10), kMs + 10);
}

TEST(Scenario, ASlowShardIsSlowInPlaceOfThePlansFactor) {
  Scenario scenario;
  simulate::Place place;
  const std::string text = R"({"scenario": 1, "faults": [{"slow": 1, "shard": 2, "percent": 150, "until": "1ms"},
                                                         {"slow": 1, "percent": 300, "until": "2ms"},
                                                         {"slow": 1, "shard": 2, "percent": 400}]})";
  ASSERT_TRUE(simulate::parseScenario(text, 2, scenario, place, 3).ok());
  constexpr int64_t kOne = plan::Own::kWhole;
  EXPECT_EQ(scenario.ownEnd(1, 2, kOne, 0, 10), 15);
  EXPECT_EQ(scenario.ownEnd(1, 2, 2 * kOne, 0, 10), 8); // half of it, one and a half times as long, half up
  EXPECT_EQ(scenario.ownEnd(1, 0, 2 * kOne, 0, 10), 30);
  EXPECT_EQ(scenario.ownEnd(1, 2, 2 * kOne, kMs, 10), kMs + 30); // the first that fits
  EXPECT_EQ(scenario.ownEnd(1, 2, 2 * kOne, 2 * kMs, 10), 2 * kMs + 20);
  EXPECT_EQ(scenario.ownEnd(1, 2, 3 * kOne, 2 * kMs, limits::kTime), 2 * kMs + 1'333'333'333'333'333'333);
  EXPECT_EQ(scenario.ownEnd(1, 1, 3 * kOne, 2 * kMs, 10), 2 * kMs + 10);
  EXPECT_EQ(scenario.ownEnd(0, 2, 3 * kOne, 0, 10), 10);
  EXPECT_EQ(scenario.ownEnd(1, 2, 1, 0, limits::kTime), kNever);
  for (const auto &[shards, wrong, says] : {std::tuple(3, "3", "there is no shard 3 of rank 1, it has 3"),
                                            std::tuple(3, "-1", "there is no shard -1 of rank 1, it has 3"),
                                            std::tuple(1, "0", "there is no shard 0 of rank 1, it has none"),
                                            std::tuple(3, "\"0\"", "expected an integer, found a string")}) {
    const std::string file =
        fmt::format(R"({{"scenario": 1, "faults": [{{"slow": 1, "shard": {}, "percent": 150}}]}})", wrong);
    const Status status = simulate::parseScenario(file, 2, scenario, place, shards);
    EXPECT_EQ(status.code, Code::Input);
    EXPECT_EQ(status.message.substr(0, std::string_view(says).size()), says);
  }
}

namespace {

/// Every end of a run under a scenario.
std::vector<Time> ends(const plan::Variant &variant, const Scenario *scenario, int64_t steps) {
  std::vector<Time> all;
  simulate::Options options;
  options.steps = steps;
  options.scenario = scenario;
  options.observe = [&](const simulate::Event &event) { all.push_back(event.end); };
  simulate::Result result;
  Status status = simulate::simulate(variant, options, result);
  EXPECT_TRUE(status.ok()) << status.message;
  return all;
}

} // namespace

// 1000 bytes at 1 GB/s: what the plan says in other words.
TEST(ScenarioWalk, AScenarioThatSaysWhatThePlanSaysChangesNothing) {
  for (bool deferred : {false, true}) {
    plan::test::Make make{.ranks = 4, .microbatches = 9, .split = deferred, .deferred = deferred};
    make.transfer = 1'000'000;
    make.latency = 300'000;
    make.boundary = 1000;
    plan::Variant variant = plan::test::makePlan(make).variants.front();
    Scenario scenario;
    EXPECT_EQ(ends(variant, &scenario, 3), ends(variant, nullptr, 3));
    scenario.others = Scenario::Link{{0, kGB, 300'000}};
    EXPECT_EQ(ends(variant, &scenario, 3), ends(variant, nullptr, 3));
    scenario.others = Scenario::Link{{0, kGB / 2, 300'000}};
    EXPECT_NE(ends(variant, &scenario, 3), ends(variant, nullptr, 3));
  }
}

// A link that is slow for a while: steps are slow then, and as before afterwards.
TEST(ScenarioWalk, StepsFeelAChangeWhileItLasts) {
  plan::Variant variant = plan::test::makePlan({.ranks = 2,
                                                .microbatches = 4,
                                                .forward = kMs,
                                                .backwardInput = kMs,
                                                .backwardWeight = kMs,
                                                .optimizerCost = 0,
                                                .transfer = 0,
                                                .latency = 0,
                                                .boundary = 1'000'000})
                              .variants.front();
  simulate::Options options;
  options.steps = 20;
  simulate::Result result;
  ASSERT_TRUE(simulate::simulate(variant, options, result).ok());
  Time step = result.makespan;
  Scenario scenario;
  scenario.links[{0, 1}] = {{0, 0, 0}, {5 * step, kGB / 10, 0}, {10 * step, 0, 0}};
  options.scenario = &scenario;
  ASSERT_TRUE(simulate::simulate(variant, options, result).ok());
  const std::vector<Time> &last = result.places[0].lastEnd;
  EXPECT_EQ(last[3] - last[2], step);
  EXPECT_GE(last[6] - last[5], 3 * 10 * kMs); // of four transfers of 10 ms, all but what the step hides
  EXPECT_EQ(last[19] - last[18], step);
}

TEST(ScenarioWalk, ASlowRankIsBusyLonger) {
  plan::Variant variant = plan::test::makePlan({.ranks = 2, .microbatches = 4}).variants.front();
  simulate::Options options;
  simulate::Result usual, slow;
  ASSERT_TRUE(simulate::simulate(variant, options, usual).ok());
  Scenario scenario;
  scenario.slow[1] = {{0, kNever, 200}};
  options.scenario = &scenario;
  ASSERT_TRUE(simulate::simulate(variant, options, slow).ok());
  EXPECT_EQ(slow.places[0].busy, usual.places[0].busy);
  EXPECT_EQ(slow.places[1].busy, 2 * usual.places[1].busy);
}

TEST(ScenarioWalk, ACutStopsTheRunAndIsNamed) {
  plan::Variant variant = plan::test::makePlan({.ranks = 4, .microbatches = 8}).variants.front();
  simulate::Options options;
  options.steps = 10;
  simulate::Result result;
  ASSERT_TRUE(simulate::simulate(variant, options, result).ok());
  Scenario scenario;
  scenario.cuts[{1, 2}] = 3 * result.makespan;
  options.scenario = &scenario;
  Status status = simulate::simulate(variant, options, result);
  EXPECT_EQ(status.code, Code::Check);
  EXPECT_THAT(status.message, testing::MatchesRegex("the link between ranks [12] and [12] is cut at .*, in step 3"));
}

TEST(ScenarioFile, WhatIsNotGivenIsInherited) {
  Scenario scenario = read(R"({"scenario": 1, "default": {"bandwidth": "1GB/s"}, "links": [
    {"from": 0, "to": 1, "latency": "2us", "changes": [{"at": "1ms", "bandwidth": "8Gbit/s"}, {"at": "2ms", "latency": "0s"}]},
    {"from": 1, "to": 0, "bandwidth": "unlimited"}]})");
  ASSERT_TRUE(scenario.others);
  EXPECT_EQ(scenario.others->stretches.front().bandwidth, kGB);
  const std::vector<Scenario::Stretch> &link = scenario.links.at({0, 1}).stretches;
  ASSERT_EQ(link.size(), 3u);
  EXPECT_EQ(link[0].bandwidth, kGB);
  EXPECT_EQ(link[0].latency, 2'000'000);
  EXPECT_EQ(link[1].at, kMs);
  EXPECT_EQ(link[1].latency, 2'000'000);
  EXPECT_EQ(link[2].bandwidth, kGB);
  EXPECT_EQ(link[2].latency, 0);
  EXPECT_EQ(scenario.links.at({1, 0}).stretches.front().bandwidth, 0);
}

TEST(ScenarioFile, ErrorsSayWhere) {
  EXPECT_EQ(refusal("{\"scenario\": 1,\n \"link\": []}"),
            "2:2: unknown key 'link', expected scenario, default, links, replicas, faults");
  EXPECT_EQ(refusal("{\"scenario\": 2}"), "1:14: expected an integer from 1 to 1, found 2");
  EXPECT_EQ(refusal("{}"), "1:1: key 'scenario' is missing");
  EXPECT_EQ(refusal("[]"), "1:1: expected an object, found a list");
  EXPECT_EQ(refusal("{\"scenario\": 1, \"default\": {\"latency\": 20}}"),
            "1:40: latency: expected a duration with a unit (ps, ns, us, ms, s), found '20'");
  EXPECT_THAT(refusal("{\"scenario\": 1, \"default\": {\"bandwidth\": \"0B/s\"}}"), HasSubstr("1:42: bandwidth: "));
  EXPECT_EQ(refusal("{\"scenario\": 1, \"scenario\": 1}"), "1:17: key 'scenario' is given twice, first in line 1");
  EXPECT_EQ(refusal("{\"scenario\": 1, \"links\": [\n{\"from\": 0, \"to\": 4}]}"),
            "2:19: there is no rank 4, the plan has 4");
  EXPECT_EQ(refusal("{\"scenario\": 1, \"links\": [{\"from\": 1, \"to\": 1}]}"),
            "1:27: from and to are both 1; a link joins two ranks");
  EXPECT_EQ(refusal("{\"scenario\": 1, \"links\": [{\"from\": 0, \"to\": 1},\n\n  {\"to\": 1, \"from\": 0}]}"),
            "3:3: the link from 0 to 1 is given twice");
  EXPECT_EQ(refusal("{\"scenario\": 1, \"default\": {\"changes\": [{\"at\": \"2s\"}, {\"at\": \"1s\"}]}}"),
            "1:62: changes come in order of time, the first after 0s");
  EXPECT_EQ(refusal("{\"scenario\": 1, \"default\": {\"repeat\": \"2s\"}}"),
            "1:39: repeat: there are no changes that could begin anew");
  EXPECT_EQ(refusal("{\"scenario\": 1, \"default\": {\"changes\": [{\"at\": \"2s\"}], \"repeat\": \"2s\"}}"),
            "1:66: repeat: expected a time after the last change");
  EXPECT_EQ(refusal("{\"scenario\": 1, \"faults\": [{\"at\": \"1s\"}]}"), "1:28: expected a fault: 'cut' or 'slow'");
  EXPECT_EQ(refusal("{\"scenario\": 1, \"faults\": [{\"cut\": [1], \"at\": \"1s\"}]}"),
            "1:36: expected two ranks, found 1");
  EXPECT_EQ(refusal("{\"scenario\": 1, \"faults\": [{\"slow\": 1, \"percent\": 0}]}"),
            "1:51: expected an integer from 1 to 100000, found 0");
}

TEST(ScenarioFile, WhatIsNotJsonSaysWhere) {
  EXPECT_THAT(refusal(""), HasSubstr("1:1: syntax error"));
  EXPECT_THAT(refusal("{\"scenario\": 1,\n  oops}"), HasSubstr("2:3: syntax error"));
  EXPECT_THAT(refusal("{\"scenario\": 1} x"), HasSubstr("1:17: syntax error"));
  EXPECT_THAT(refusal("{\"scenario\": 1e999}"), HasSubstr("number overflow"));
  EXPECT_THAT(refusal("\"\xff\""), HasSubstr("invalid"));
  EXPECT_THAT(refusal(std::string(100'000, '[')), HasSubstr("1:17: more than 16 levels"));
}

TEST(ScenarioFile, AFileThatCannotBeReadSaysSo) {
  Scenario scenario;
  simulate::Place place;
  EXPECT_EQ(simulate::readScenario("/nowhere/net.json", 4, scenario, place).code, Code::Input);
  EXPECT_EQ(simulate::readScenario("/", 4, scenario, place).code, Code::Input);
}

TEST(ScenarioFile, TheExamplesAreRight) {
  int count = 0;
  for (const auto &entry : std::filesystem::directory_iterator(PIPEC_SOURCE_DIR "/specs/networks")) {
    if (entry.path().extension() != ".json")
      continue;
    Scenario scenario;
    simulate::Place place;
    Status status = simulate::readScenario(entry.path(), 4, scenario, place);
    EXPECT_TRUE(status.ok()) << entry.path() << ':' << place.line << ':' << place.column << ": " << status.message;
    ++count;
  }
  EXPECT_GE(count, 4);
}
