// Which decisions of a run a picture of a step shows, where their labels stand, and what is drawn of them.
#include "compiler/pictures/Decisions.h"
#include "compiler/pictures/Svg.h"
#include "compiler/pictures/TextTimeline.h"

#include <gtest/gtest.h>

namespace pipec::emit {
namespace {

using plan::Time;
using trace::Decision;

Decision decided(Time at, int64_t step = 1) { return {at, step, "k=1", "k=2", "now", "80 us a step"}; }

trace::Event ran(int64_t step, Time start, Time end, int32_t attempt = 0) {
  trace::Event event;
  event.step = step;
  event.start = start;
  event.end = end;
  event.attempt = attempt;
  return event;
}

std::vector<Time> timesOf(const StepDecisions &decisions, int64_t step, Time begin) {
  std::vector<Time> times;
  for (const Decision &each : decisions.of(step, begin))
    times.push_back(each.at);
  return times;
}

TEST(Decisions, AStepHasThoseOfItsTime) {
  // Steps 1 and 2 overlap, as they do where ranks do not wait for each other; 3 begins after a pause.
  const trace::Run run{{ran(1, 100, 180), ran(1, 110, 200), ran(2, 190, 300), ran(3, 400, 500)},
                       {decided(600), decided(50), decided(195), decided(300), decided(350), decided(400)}};
  const StepDecisions decisions(run);
  EXPECT_EQ(timesOf(decisions, 1, 100), (std::vector<Time>{-50, 95}));
  EXPECT_EQ(timesOf(decisions, 2, 190), (std::vector<Time>{5, 110, 160}));
  EXPECT_EQ(timesOf(decisions, 3, 400), (std::vector<Time>{0, 200}));
  EXPECT_TRUE(timesOf(decisions, 4, 0).empty());
}

TEST(Decisions, OfAStepThatRanAgainTheLastCounts) {
  const StepDecisions decisions(
      {{ran(0, 0, 10), ran(1, 10, 20), ran(1, 100, 110, 1), ran(2, 110, 120, 1)}, {decided(15), decided(105)}});
  EXPECT_EQ(timesOf(decisions, 0, 0), (std::vector<Time>{15}));
  EXPECT_EQ(timesOf(decisions, 1, 100), (std::vector<Time>{5}));
}

/// As on a line of so many characters, a picosecond each.
std::vector<DecisionMark> marksOf(const std::vector<Decision> &decisions, int64_t columns) {
  return decisionMarks(decisions, {[](Time at) { return at; },
                                   [](std::string_view text) { return int64_t(text.size()); }, 0, columns, 1, 1});
}

TEST(Decisions, ALabelSaysWhatThereIsRoomFor) {
  EXPECT_EQ(marksOf({decided(0)}, 80)[0].label, "step 1: k=1 -> k=2 (now): 80 us a step");
  EXPECT_EQ(marksOf({decided(0)}, 30)[0].label, "step 1: k=1 -> k=2 (now)");
  EXPECT_EQ(marksOf({decided(0)}, 12)[0].label, "k=1 -> k=2");
  EXPECT_EQ(marksOf({decided(0)}, 5)[0].label, "k=2");
  EXPECT_EQ(marksOf({decided(0)}, 3)[0].label, "");
  const std::vector<DecisionMark> left = marksOf({decided(29)}, 30);
  EXPECT_EQ(left[0].label, "step 1: k=1 -> k=2 (now)");
  EXPECT_EQ(left[0].from, 4);
}

TEST(Decisions, LabelsAndMarksNeverOverlap) {
  for (const int64_t columns : {10, 40, 100, 400})
    for (const int64_t apart : {1, 3, 5, 8, 13, 29, 60}) {
      std::vector<Decision> decisions;
      for (Time at = 0; at < columns; at += apart)
        decisions.push_back(decided(at));
      std::vector<bool> taken(size_t(columns), false);
      const auto take = [&](int64_t from, int64_t to) {
        ASSERT_GE(from, 0);
        ASSERT_LE(to, columns);
        for (int64_t c = from; c != to; ++c) {
          EXPECT_FALSE(taken[size_t(c)]) << columns << " " << apart << " " << c;
          taken[size_t(c)] = true;
        }
      };
      for (const DecisionMark &mark : marksOf(decisions, columns)) {
        take(mark.at, mark.at + 1);
        take(mark.from, mark.from + int64_t(mark.label.size()));
      }
    }
}

TEST(Decisions, ThoseInOnePlaceAreOneMark) {
  const std::vector<DecisionMark> marks = marksOf({decided(5, 1), decided(5, 2), decided(5, 3), decided(30, 4)}, 80);
  ASSERT_EQ(marks.size(), 2u);
  EXPECT_EQ(marks[0].label, "3 decisions");
  ASSERT_EQ(marks[0].texts.size(), 3u);
  EXPECT_EQ(marks[0].texts[2], "step 3: k=1 -> k=2 (now): 80 us a step");
}

/// A rank that runs from 0 to 100 and idles until 200.
Section sectionOf(const std::vector<Decision> &decisions) {
  Section section;
  section.title = "plan";
  section.figures = "figures";
  section.lanes.push_back({});
  section.lanes.back().boxes.push_back({plan::Kind::Forward, 0, 3, 0, 100, Box::Part::Whole});
  section.length = 200;
  section.decisions = decisions;
  return section;
}

TEST(Decisions, ATerminalsLineGoesBehindLettersAndNumbers) {
  EXPECT_EQ(timeline({{sectionOf({decided(0), decided(50), decided(150)})}}, {47, false}),
            "plan: figures\n"
            "  |k=2       |k=1 -> k=2           |k=1 -> k=2\n"
            "0 F3         |           ..........|...........\n"
            "  0                                      200 ps\n"
            "  F forward  . idle | decision\n"
            "| step 1: k=1 -> k=2 (now): 80 us a step\n"
            "| step 1: k=1 -> k=2 (now): 80 us a step\n"
            "| step 1: k=1 -> k=2 (now): 80 us a step\n");
}

TEST(Decisions, ATerminalListsTheFirstFew) {
  std::vector<Decision> many;
  for (Time at = 0; at != 25; ++at)
    many.push_back(decided(8 * at, at));
  const std::string text = timeline({{sectionOf(many)}}, {100, false});
  EXPECT_NE(text.find("\n| step 9: k=1 -> k=2 (now): 80 us a step\n| 15 more decisions\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("step 10:"), std::string::npos);
}

TEST(Decisions, AFigureSaysAllOfEach) {
  Decision strange = decided(90);
  strange.why = "<&\n";
  const std::string figure = svg({{sectionOf({decided(-5), strange, decided(500)})}}, {});
  EXPECT_NE(figure.find("<title>step 1: k=1 -&gt; k=2 (now): 80 us a step</title>"), std::string::npos) << figure;
  EXPECT_NE(figure.find("<title>step 1: k=1 -&gt; k=2 (now): &lt;&amp;\\x0a</title>"), std::string::npos);
  EXPECT_NE(figure.find(">decision</text>"), std::string::npos);
  const std::string without = svg({{sectionOf({})}}, {});
  EXPECT_EQ(without.find("decision"), std::string::npos);
}

} // namespace
} // namespace pipec::emit
