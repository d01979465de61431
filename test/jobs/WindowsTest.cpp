// Which waits pieces fill, from specs: the figures of schedules whose bubbles are known.
#include "compiler/driver/Compile.h"
#include "compiler/driver/Files.h"
#include "compiler/driver/Plans.h"
#include "compiler/emit/ScheduleReport.h"
#include "runtime/plan/Load.h"
#include "runtime/plan/Unroll.h"
#include "runtime/simulate/Pieces.h"
#include "runtime/simulate/Simulate.h"
#include "test/Draws.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <regex>

namespace pipec {
namespace {

using plan::Time;

struct Made {
  Compiled compiled;
  emit::Report report;
  Failure failure;
  bool ok = false;
  const plan::Variant &variant() const { return compiled.plan.variants.front(); }
  const emit::JobRow &job() const { return report.jobs.rows.front(); }
  int64_t pieces() const {
    int64_t all = 0;
    for (const int64_t each : job().pieces)
      all += each;
    return all;
  }
};

Made make(const std::string &text) {
  Made made;
  keep("jobs.yaml", text);
  made.ok = compile("jobs.yaml", {}, Stage::Plan, made.compiled, made.failure, Said::Nothing);
  emit::PlanReport report;
  if (made.ok && figuresOf(made.compiled, report).ok())
    made.report = report.variants.front();
  return made;
}

std::string spec(int ranks, int microbatches, const std::string &schedule, const std::string &more = "",
                 const std::string &job = "atom: 50us, overhead: 20us") {
  return fmt::format("pipec: 1\npipeline: {{ranks: {}, microbatches: {}}}\ncosts: {{forward: 10ms, backward: 20ms{}}}\n"
                     "schedule: {}\njobs: {{work: [{{name: vgg, samples: 8, atoms: 340, {}}}]}}\n",
                     ranks, microbatches, more, schedule, job);
}

TEST(Windows, OfOneForwardOneBackward) {
  const Made made = make(spec(8, 16, "1f1b"));
  ASSERT_TRUE(made.ok) << made.failure.message;
  EXPECT_EQ(made.variant().certificate.span, 690'000'000'000);
  EXPECT_EQ(made.job().piece, 300'000'000);
  EXPECT_EQ(made.job().resumes, 21);
  EXPECT_EQ(made.variant().certificate.delay, 6'720'000'000);
  EXPECT_TRUE(made.variant().certificate.delayProven);
  EXPECT_GE(made.job().useful, 0.935);
  EXPECT_NEAR(made.report.jobs.alone, 0.6957, 0.0001);
  EXPECT_NEAR(made.report.jobs.useful, 0.980, 0.0005);
  EXPECT_NEAR(made.job().samplesPerSecond, double(made.pieces()) * 6 / 340 * 8 / 0.69, 1e-6);
  // The predicted step stays, to the picosecond.
  simulate::Options options;
  options.steps = 5;
  simulate::Result alone, with;
  ASSERT_TRUE(simulate::simulate(made.variant(), options, alone).ok());
  int64_t pieces = 0;
  options.pieces = true;
  options.observePieces = [&](const simulate::Resume &at, int64_t count) { pieces += at.step == 4 ? count : 0; };
  ASSERT_TRUE(simulate::simulate(made.variant(), options, with).ok());
  for (size_t place = 0; place != alone.places.size(); ++place)
    EXPECT_EQ(alone.places[place].lastEnd, with.places[place].lastEnd);
  EXPECT_EQ(pieces, made.pieces());
  plan::Plan read;
  EXPECT_TRUE(plan::decode(made.compiled.bytes, read).ok());
  EXPECT_EQ(read, made.compiled.plan);
}

TEST(Windows, FillAsMuchAsStated) {
  struct Case {
    int microbatches;
    const char *more;
    double useful;
  };
  for (const Case &each :
       {Case{8, "", 0.875}, {10, "", 0.905}, {16, "", 0.93}, {32, "", 0.955}, {16, ", link: {latency: 100us}", 0.92}}) {
    const Made made = make(spec(8, each.microbatches, "1f1b", each.more));
    ASSERT_TRUE(made.ok) << made.failure.message;
    EXPECT_GE(made.job().useful, each.useful) << each.microbatches << each.more;
    EXPECT_LE(double(made.variant().certificate.delay), 0.01 * double(made.variant().certificate.span));
  }
}

TEST(Windows, ResumesOfBothOldSchedulesAreKnown) {
  for (int ranks = 2; ranks <= 32; ranks = ranks < 8 ? ranks + 1 : ranks * 2) {
    for (const auto &[schedule, each] : {std::pair("1f1b", 3), std::pair("gpipe", 2)}) {
      // Short pieces, of which any number pays, so that every wait is a window.
      std::string text = spec(ranks, 2 * ranks, schedule, "", "atom: 50us, overhead: 20us, piece: 50us");
      text.replace(text.find("jobs: {"), 7, "jobs: {slow_down: 100%, ");
      const Made made = make(text);
      ASSERT_TRUE(made.ok) << made.failure.message;
      EXPECT_EQ(made.job().resumes, each * (ranks - 1)) << schedule << " on " << ranks;
    }
  }
}

TEST(Windows, KeepThePromiseUnderAnySchedule) {
  for (const char *schedule :
       {"v-half", "v-min", "zb-h1", "interleaved-1f1b", "gpipe", "{name: kfkb, k: 2}", "zb-v", "auto"}) {
    std::string text = spec(4, 8, schedule);
    const bool split = std::string(schedule).find_first_of("vza") == 0;
    if (split)
      text.replace(text.find("backward: 20ms"), 14, "backward_input: 11ms, backward_weight: 9ms");
    for (const char *more : {"", "weights: fill\n"}) {
      if (*more != 0 && !split)
        continue;
      const Made made = make(text + more);
      if (!made.ok && made.failure.message.find("fill") != std::string::npos)
        continue;
      ASSERT_TRUE(made.ok) << schedule << ": " << made.failure.message;
      const plan::Certificate &own = made.variant().certificate;
      EXPECT_LE(double(own.delay), 0.01 * double(own.span)) << schedule;
      EXPECT_EQ(own.delayProven, *more == 0) << schedule << more;
      EXPECT_TRUE(simulate::proveDelay(made.variant()).ok());
      simulate::Options options;
      Time alone = 0, with = 0;
      simulate::Result result;
      ASSERT_TRUE(simulate::span(made.variant(), alone, result, options).ok());
      options.pieces = true;
      ASSERT_TRUE(simulate::span(made.variant(), with, result, options).ok());
      EXPECT_EQ(alone, with) << schedule << more;
    }
  }
}

/// The variant with an operation of its own for each pass, which takes up to 5 % more or less.
plan::Variant scattered(const plan::Variant &variant, test::Draws &draws) {
  plan::Variant made = variant;
  for (plan::Program &program : made.programs) {
    program = plan::unrolled(program);
    for (plan::Instruction &each : program.instructions) {
      plan::Operation own = program.operations[each.operation];
      if (!plan::isBusy(own.kind))
        continue;
      own.cost = own.cost * draws.upTo(950, 1050) / 1000;
      each.operation = uint32_t(program.operations.size());
      program.operations.push_back(own);
    }
  }
  return made;
}

TEST(Windows, CostLittleWherePassesScatter) {
  const Made made = make(spec(8, 16, "1f1b"));
  ASSERT_TRUE(made.ok) << made.failure.message;
  const plan::Job &job = made.variant().jobs.front();
  test::Draws draws(1);
  double alone = 0, beside = 0, useful = 0, idle = 0;
  constexpr int64_t kSteps = 20;
  for (int round = 0; round != 20; ++round) {
    const plan::Variant variant = scattered(made.variant(), draws);
    simulate::Options options;
    options.steps = kSteps;
    const auto last = [&](const simulate::Result &result) {
      Time end = 0;
      for (const simulate::PlaceResult &place : result.places)
        end = std::max(end, place.lastEnd.back());
      return double(end);
    };
    simulate::Result result;
    ASSERT_TRUE(simulate::simulate(variant, options, result).ok());
    alone += last(result);
    options.pieces = true;
    options.observePieces = [&](const simulate::Resume &at, int64_t count) {
      useful += double(count * variant.programs[size_t(at.place)].piece * job.atom);
    };
    ASSERT_TRUE(simulate::simulate(variant, options, result).ok());
    beside += last(result);
    for (const simulate::PlaceResult &place : result.places)
      idle += last(result) - double(kSteps * place.busy);
  }
  EXPECT_LE(beside, 1.0025 * alone);
  EXPECT_GE(useful, 0.85 * idle);
  RecordProperty("slower", std::to_string(beside / alone - 1));
  RecordProperty("useful", std::to_string(useful / idle));
}

/// By program: its windows in the order of its instructions.
using Listed = std::vector<std::vector<std::pair<Time, Time>>>;

/// Those that the text of programs has.
Listed windowsOf(const std::string &text) {
  static const std::regex kFound("pipe\\.program @|window ([0-9]+)(?: from ([0-9]+))?");
  Listed listed;
  for (std::sregex_iterator each(text.begin(), text.end(), kFound), end; each != end; ++each)
    if (!(*each)[1].matched)
      listed.emplace_back();
    else
      listed.back().emplace_back(std::stoll((*each)[1]), (*each)[2].matched ? std::stoll((*each)[2]) : 0);
  return listed;
}

TEST(Windows, AreInProgramsAsInPlans) {
  const std::string variants = spec(4, 8, "1f1b") + "variants: [{schedule: 1f1b}, {schedule: gpipe}]\n";
  const std::string replicas =
      "pipec: 1\npipeline: {ranks: 2, microbatches: 4}\ntensors: {gradients: 64MiB}\nschedule: 1f1b\n"
      "costs: {forward: 10ms, backward: 20ms, optimizer: 5ms}\n"
      "data_parallel: {degree: 2, link: {latency: 20us, bandwidth: 5GB/s}}\n"
      "jobs: {work: [{name: vgg, samples: 8, atoms: 340, atom: 50us}]}\n";
  const std::string burst = "pipec: 1\npipeline: {ranks: 2, batch: 4}\ncosts: {link: {latency: 1ms}}\nlayers:\n"
                            "- {forward: {samples: {2: 4ms}}, backward: {samples: {2: 6ms}}}\n"
                            "- {forward: {samples: {4: 10ms}}, backward: {samples: {4: 20ms}}}\n"
                            "schedule: {name: burst, widths: [2, 1]}\n"
                            "jobs: {slow_down: 10%, work: [{name: vgg, samples: 1, atoms: 10, atom: 1ms}]}\n";
  std::string pairs = spec(4, 8, "dualpipe");
  pairs.replace(pairs.find("backward: 20ms"), 14, "backward_input: 11ms, backward_weight: 9ms, overlapped: 25ms");
  for (const std::string &text : {variants, replicas, burst, pairs}) {
    const Made made = make(text);
    ASSERT_TRUE(made.ok) << made.failure.message;
    Listed wanted;
    for (const plan::Variant &variant : made.compiled.plan.variants)
      for (const plan::Program &program : variant.programs) {
        std::vector<std::pair<Time, Time>> &own = wanted.emplace_back();
        for (const plan::Window &window : plan::unrolled(program).windows)
          own.emplace_back(window.length, window.from);
      }
    Compiled programs;
    Failure failure;
    ASSERT_TRUE(compile("jobs.yaml", {}, Stage::Programs, programs, failure, Said::Nothing)) << failure.message;
    EXPECT_EQ(windowsOf(programs.text), wanted) << text;
    EXPECT_NE(programs.text.find(" window "), std::string::npos) << text;
  }
}

TEST(Windows, OfPiecesOfAGivenLength) {
  const Made made = make(spec(8, 16, "1f1b", "", "atom: 50us, overhead: 20us, piece: 100us"));
  ASSERT_TRUE(made.ok) << made.failure.message;
  EXPECT_EQ(made.job().piece, 100'000'000);
  EXPECT_LT(made.variant().certificate.delay, 6'900'000'000);
}

TEST(Windows, JobsRunWhereTheirMemoryFits) {
  const std::string text = "pipec: 1\npipeline: {ranks: 4, microbatches: 8}\ncosts: {forward: 10ms, backward: 20ms}\n"
                           "tensors: {activation: 1GiB}\nmemory: {limit: 4608MiB}\nschedule: 1f1b\njobs:\n  work:\n"
                           "    - {name: large, samples: 1, atoms: 10, atom: 50us, memory: 3GiB}\n"
                           "    - {name: small, samples: 1, atoms: 10, atom: 60us, memory: 1GiB}\n";
  const Made made = make(text);
  ASSERT_TRUE(made.ok) << made.failure.message;
  std::vector<int32_t> jobs;
  for (const plan::Program &program : made.variant().programs)
    jobs.push_back(program.job);
  EXPECT_EQ(jobs, (std::vector<int32_t>{-1, 1, 1, 0})); // 4, 3, 2, 1 GiB of activations
}

/// Rank 1 hands its part on, then waits while rank 0 alone does the layers behind.
TEST(Windows, BeginWhereTheCollectiveIsOver) {
  const Made made = make("pipec: 1\npipeline: {ranks: 2, batch: 4}\ncosts: {link: {latency: 1ms}}\nlayers:\n"
                         "- {forward: {samples: {2: 4ms}}, backward: {samples: {2: 6ms}}}\n"
                         "- {forward: {samples: {4: 10ms}}, backward: {samples: {4: 20ms}}}\n"
                         "schedule: {name: burst, widths: [2, 1]}\n"
                         "jobs: {slow_down: 10%, work: [{name: vgg, samples: 1, atoms: 10, atom: 1ms, ranks: [1]}]}\n");
  ASSERT_TRUE(made.ok) << made.failure.message;
  EXPECT_EQ(made.variant().certificate.span, 42'000'000'000);
  const plan::Program &program = made.variant().programs[1];
  ASSERT_EQ(program.windows.size(), 1u);
  EXPECT_EQ(program.windows[0].from, 1'000'000'000);
  EXPECT_EQ(program.windows[0].length, 30'000'000'000);
  EXPECT_EQ(made.pieces() * program.piece, 30); // of 1 ms
  simulate::Options options;
  options.steps = 2;
  options.pieces = true;
  options.observePieces = [&](const simulate::Resume &at, int64_t count) {
    EXPECT_EQ(at.free, at.step * 42'000'000'000 + 5'000'000'000);
    EXPECT_EQ(at.free + count * at.piece, at.ready - 1'000'000'000); // its gradient comes back for so long
  };
  simulate::Result with;
  ASSERT_TRUE(simulate::simulate(made.variant(), options, with).ok());
  EXPECT_EQ(with.places[0].lastEnd.back(), 84'000'000'000);
  plan::Plan read;
  EXPECT_TRUE(plan::decode(made.compiled.bytes, read).ok());
  EXPECT_EQ(read, made.compiled.plan);
}

TEST(Windows, NoneStandBesideACollective) {
  const std::string norm = ", optimizer: {time: 5ms, global_norm: true}, link: {latency: 1ms}";
  const Made quiet = make(spec(4, 4, "1f1b", norm));
  std::string text = spec(4, 4, "1f1b", norm);
  text.replace(text.find("jobs: {"), 7, "jobs: {collectives: fill, ");
  const Made fill = make(text);
  ASSERT_TRUE(quiet.ok) << quiet.failure.message;
  ASSERT_TRUE(fill.ok) << fill.failure.message;
  EXPECT_LT(quiet.pieces(), fill.pieces());
  simulate::Options options;
  options.steps = 3;
  options.pieces = true;
  std::vector<std::vector<std::pair<Time, Time>>> sums(4), pieces(4);
  options.observe = [&](const simulate::Event &event) {
    if (plan::isCollective(event.operation->kind))
      sums[size_t(event.rank)].emplace_back(event.start, event.end);
  };
  options.observePieces = [&](const simulate::Resume &at, int64_t count) {
    pieces[size_t(at.place)].emplace_back(at.free, at.free + count * at.piece);
  };
  simulate::Result result;
  ASSERT_TRUE(simulate::simulate(quiet.variant(), options, result).ok());
  for (size_t rank = 0; rank != 4; ++rank)
    for (const auto &[from, to] : pieces[rank])
      for (const auto &[begin, end] : sums[rank])
        EXPECT_TRUE(to <= begin || end <= from) << rank;
}

} // namespace
} // namespace pipec
