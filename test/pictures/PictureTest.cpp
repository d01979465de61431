// Pictures of plans: what they hold, and what is drawn of it as SVG and in a terminal.
#include "compiler/driver/Compile.h"
#include "compiler/pictures/Palette.h"
#include "compiler/pictures/Svg.h"
#include "compiler/pictures/TextTimeline.h"
#include "runtime/simulate/Simulate.h"
#include "test/plan/MakeShards.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <regex>

namespace pipec::emit {
namespace {

plan::Variant variantOf(const std::string &schedule, const std::vector<std::string> &set = {}) {
  Compiled compiled;
  Failure failure;
  std::vector<std::string> all = set;
  all.push_back("memory.limit=1TiB");
  EXPECT_TRUE(
      compile(PIPEC_SOURCE_DIR "/specs/" + schedule + ".yaml", all, Stage::Plan, compiled, failure, Said::Nothing))
      << failure.message;
  return compiled.plan.variants.front();
}

Section sectionOf(const plan::Variant &variant) {
  Section section;
  const Status status = predicted(variant, 0, section);
  EXPECT_TRUE(status.ok()) << status.message;
  return section;
}

std::string figureOf(const std::string &schedule, const std::vector<std::string> &set = {}) {
  return svg({{sectionOf(variantOf(schedule, set))}}, {});
}

/// The events of so many steps, as a run would trace them, `late` after the prediction.
trace::Run runOf(const plan::Variant &variant, int64_t steps, plan::Time late = 0) {
  trace::Run run;
  simulate::Options options;
  options.steps = steps;
  options.observe = [&](const simulate::Event &e) {
    run.events.push_back({e.place, e.queue, e.operation->kind, e.operation->of, e.operation->stage, e.operation->peer,
                          e.microbatch, e.step, 0, e.start, e.end + late});
  };
  simulate::Result result;
  EXPECT_TRUE(simulate::simulate(variant, options, result).ok());
  return run;
}

size_t count(const std::string &text, const std::string &pattern) {
  const std::regex regex(pattern);
  return size_t(std::distance(std::sregex_iterator(text.begin(), text.end(), regex), std::sregex_iterator()));
}

TEST(Picture, HoldsEveryOperationOnce) {
  const Section section = sectionOf(variantOf("1f1b"));
  ASSERT_EQ(section.lanes.size(), 4u);
  for (const Lane &lane : section.lanes) {
    ASSERT_EQ(lane.boxes.size(), 16u);
    for (size_t i = 1; i != lane.boxes.size(); ++i)
      EXPECT_LE(lane.boxes[i - 1].end, lane.boxes[i].start);
  }
  EXPECT_EQ(section.length, 66'000'000'000);
  EXPECT_EQ(section.title, "1f1b: 4 ranks, 8 microbatches");
  EXPECT_EQ(section.figures, "makespan 66 ms, bubble 27.27 %, gap 0.00 %, activations 1.25 GiB");
}

// A lane a process; what waits in a sum is two boxes.
TEST(Picture, ShardsHaveLanes) {
  plan::test::Sharded how;
  how.make.ranks = how.make.microbatches = 2;
  how.factors = {plan::Own::kWhole, 3 * plan::Own::kWhole};
  const plan::Variant variant = makeShards(how).variants.front();
  Section section;
  ASSERT_TRUE(predicted(variant, 0, section).ok());
  EXPECT_EQ(section.title, "shards: 2 ranks of 2 shards, 2 microbatches");
  ASSERT_EQ(section.lanes.size(), 4u);
  EXPECT_EQ(placeName(section, section.lanes[2]), "rank 1 shard 0");
  const std::vector<Box> &fast = section.lanes[0].boxes, &slow = section.lanes[1].boxes;
  ASSERT_EQ(slow.size(), 5u); // two F, two BW, the optimizer
  ASSERT_EQ(fast.size(), 9u); // each pass in two
  EXPECT_EQ(fast[0].end, 5'000'000'000);
  EXPECT_EQ(fast[1].start, 15'000'000'000);
  EXPECT_EQ(fast[1].microbatch, fast[0].microbatch);
  Picture picture{{section}};
  const std::string text = timeline(picture, {.columns = 100, .colour = false});
  EXPECT_NE(text.find("\nrank 0 shard 1 "), std::string::npos) << text;
  EXPECT_NE(svg(picture, {}).find(">rank 1 shard 1<"), std::string::npos);
  EXPECT_NE(timeline(picture, {.columns = 40, .colour = false}).find("\n0.1 "), std::string::npos);
  Section run;
  ASSERT_EQ(compared(variant, runOf(variant, 1), 0, run).message, "");
  EXPECT_NE(run.figures.find("ends 0 ps off, at most 0 ps"), std::string::npos) << run.figures;
}

/// The lighter boxes of the other direction have the higher numbers, each number once a stage and kind.
TEST(Picture, CountsMicrobatchesOverBothDirections) {
  const plan::Variant variant = variantOf("chimera");
  ASSERT_EQ(variant.copies, 2);
  const Section section = sectionOf(variant);
  Section run = sectionOf(variant);
  ASSERT_TRUE(compared(variant, runOf(variant, 1), 0, run).ok());
  for (const Section *each : {&section, static_cast<const Section *>(&run)})
    for (const Lane &lane : each->lanes) {
      std::vector<int64_t> forwards;
      for (const Box &box : lane.boxes)
        if (box.kind == plan::Kind::Forward) {
          forwards.push_back(box.microbatch);
          // The second chunk of a rank is the other direction's stage.
          EXPECT_EQ(box.chunk, box.microbatch < variant.microbatches ? 0 : 1);
        }
      std::sort(forwards.begin(), forwards.end());
      ASSERT_EQ(int64_t(forwards.size()), variant.wholeMicrobatches());
      for (size_t i = 0; i != forwards.size(); ++i)
        EXPECT_EQ(forwards[i], int64_t(i));
    }
}

TEST(Picture, ARunThatIsAsPredictedIsNotOff) {
  const plan::Variant variant = variantOf("v-half");
  for (int64_t step : {-1, 0, 2}) {
    Section section;
    const Status status = compared(variant, runOf(variant, 4), step, section);
    ASSERT_TRUE(status.ok()) << status.message;
    EXPECT_NE(section.figures.find("(+0.00 %)"), std::string::npos) << section.figures;
    EXPECT_NE(section.figures.find("ends 0 ps off, at most 0 ps"), std::string::npos) << section.figures;
    ASSERT_EQ(section.lanes.size(), 16u);
    EXPECT_EQ(section.lanes[6].kind, LaneKind::Plan);
    EXPECT_EQ(section.lanes[7].kind, LaneKind::Run);
    EXPECT_EQ(section.lanes[7].place, 3);
  }
}

TEST(Picture, ALateRunIsOffByThat) {
  const plan::Variant variant = variantOf("1f1b");
  Section section;
  ASSERT_TRUE(compared(variant, runOf(variant, 2, 1'000'000), 0, section).ok());
  EXPECT_NE(section.figures.find("an operation ends 1 us off, at most 1 us"), std::string::npos) << section.figures;
}

TEST(Picture, AnotherPlansTraceIsRefused) {
  const plan::Variant variant = variantOf("1f1b");
  trace::Run run = runOf(variant, 2);
  Section section;
  EXPECT_EQ(compared(variantOf("gpipe", {"pipeline.microbatches=9"}), run, -1, section).code, Code::Input);
  EXPECT_EQ(compared(variant, run, 2, section).message, "the trace has no step 2, but 0 to 1");
  // A step cut short is passed over for the one before it.
  run.events.pop_back();
  ASSERT_TRUE(compared(variant, run, -1, section).ok());
  EXPECT_EQ(section.figures.substr(0, 7), "step 0:");
  run.events.push_back(run.events.front());
  run.events.back().step = 1;
  run.events.back().microbatch = 100;
  EXPECT_NE(compared(variant, run, 1, section).message.find("expected a trace of this plan"), std::string::npos);
}

TEST(Svg, ABoxAndANumberForEachOperation) {
  const std::string figure = figureOf("1f1b");
  EXPECT_EQ(count(figure, "M[0-9.]+ 0h[0-9.]+v[0-9.]+h-[0-9.]+z"), 4u * 16);
  for (int microbatch = 0; microbatch != 8; ++microbatch)
    EXPECT_EQ(count(figure, "<text x=\"[0-9.]+\" y=\"[0-9.]+\">" + std::to_string(microbatch) + "</text>"), 8u);
  EXPECT_EQ(count(figure, ">rank [0-3]</text>"), 4u);
  EXPECT_EQ(count(figure, ">(forward|backward|idle)</text>"), 3u);
  EXPECT_NE(figure.find("bubble 27.27 %"), std::string::npos);
  EXPECT_NE(figure.find(">60 ms</text>"), std::string::npos);
  EXPECT_NE(figure.find("prefers-color-scheme:dark"), std::string::npos);
}

TEST(Svg, BoxesStandWhereTheirTimesAre) {
  // Rank 1's first forward is from 2 to 4 of 66 ms.
  const std::string figure = figureOf("1f1b");
  std::smatch idle, lane;
  ASSERT_TRUE(std::regex_search(figure, idle, std::regex("<rect class=\"idle\"[^>]* width=\"([0-9.]+)\"")));
  const double width = std::stod(idle[1]);
  const size_t second = figure.find("<g transform", figure.find("<g transform") + 1);
  const std::string rest = figure.substr(second);
  ASSERT_TRUE(std::regex_search(rest, lane, std::regex("d=\"M([0-9.]+) 0h([0-9.]+)v")));
  EXPECT_NEAR(std::stod(lane[1]), width * 2 / 66, 0.02);
  EXPECT_NEAR(std::stod(lane[2]) + 0.7, width * 2 / 66, 0.02);
}

TEST(Svg, StaysSmall) {
  struct Case {
    const char *schedule, *ranks, *microbatches;
    size_t most;
  };
  for (const Case &each :
       {Case{"1f1b", "4", "8", 12'000}, Case{"v-half", "8", "24", 48'000}, Case{"1f1b", "64", "1024", 60'000},
        Case{"zb-v", "64", "256", 120'000}, Case{"1f1b", "512", "64", 120'000}}) {
    const std::vector<std::string> set{std::string("pipeline.ranks=") + each.ranks,
                                       std::string("pipeline.microbatches=") + each.microbatches};
    const std::string figure = figureOf(each.schedule, set);
    EXPECT_LT(figure.size(), each.most) << each.schedule << " " << each.ranks << " " << each.microbatches;
    EXPECT_EQ(figure.substr(figure.size() - 7), "</svg>\n");
  }
}

TEST(Svg, SharesAreWhatIsRun) {
  // In the long middle of a rank a third of the time is forward, two thirds backward.
  const std::string figure = figureOf("1f1b", {"pipeline.ranks=2", "pipeline.microbatches=2048"});
  EXPECT_NE(figure.find("height: share of the time"), std::string::npos);
  std::smatch lane;
  double widest = 0, height = 0;
  std::string rest = figure.substr(figure.find("<path fill=\"" + hex(kLooks[0].fill)));
  rest.resize(rest.find("/>"));
  while (std::regex_search(rest, lane, std::regex("M[0-9.]+ [0-9.]+h([0-9.]+)v([0-9.]+)h"))) {
    if (std::stod(lane[1]) > widest) {
      widest = std::stod(lane[1]);
      height = std::stod(lane[2]);
    }
    rest = lane.suffix();
  }
  EXPECT_GT(widest, 700);
  EXPECT_NEAR(height, 21.0 / 3, 0.15);
}

TEST(Svg, NamesAreEscaped) {
  Section section = sectionOf(variantOf("1f1b"));
  section.title = "<a href=\"x\">&\n\xff";
  const std::string figure = svg({{section}}, {});
  EXPECT_NE(figure.find("&lt;a href=&quot;x&quot;&gt;&amp;??"), std::string::npos);
}

TEST(Svg, DrawsAPlanWithoutAnything) {
  Section section;
  section.lanes.resize(2);
  EXPECT_NE(svg({{section}}, {}).find("</svg>"), std::string::npos);
  EXPECT_NE(timeline({{section}}, {}).find("rank 0 \nrank 0 "), std::string::npos);
}

TEST(Timeline, NoLineIsWiderThanAsked) {
  const plan::Variant variant = variantOf("v-half");
  Section run;
  ASSERT_TRUE(compared(variant, runOf(variant, 1), 0, run).ok());
  const Picture picture{{sectionOf(variant), run, sectionOf(variantOf("1f1b"))}};
  for (int columns : {20, 21, 33, 49, 50, 80, 200, 1000}) {
    const std::string text = timeline(picture, {columns, false});
    for (size_t from = 0; from < text.size();) {
      const size_t to = text.find('\n', from);
      // Words alone may be longer than very few columns.
      EXPECT_LE(to - from, size_t(std::max(columns, 33))) << text.substr(from, to - from);
      from = to + 1;
    }
  }
}

TEST(Timeline, ColourChangesNoText) {
  const Picture picture{{sectionOf(variantOf("zb-v"))}};
  const std::string coloured = timeline(picture, {200, true}), plain = timeline(picture, {200, false});
  EXPECT_NE(coloured.find("\x1b[38;5;231;48;5;25mF0"), std::string::npos);
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
  const std::string stripped = std::regex_replace(coloured, std::regex("\x1b\\[[0-9;]*m"), "");
  EXPECT_EQ(stripped.substr(0, stripped.rfind('\n', stripped.find(" F  forward"))),
            plain.substr(0, plain.rfind('\n', plain.find("F forward"))));
}

} // namespace
} // namespace pipec::emit
