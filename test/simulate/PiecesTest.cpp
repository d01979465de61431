// Pieces of jobs in the walk, and what they may cost: against pieces placed one by one, against adversaries, against
// all choices of which resumes come late.
#include "runtime/simulate/Pieces.h"
#include "runtime/simulate/Simulate.h"
#include "test/Draws.h"
#include "test/Rounds.h"
#include "test/plan/MakeJobs.h"

#include <gtest/gtest.h>
#include <map>
#include <tuple>

namespace pipec::simulate {
namespace {

using plan::Time;
using plan::Variant;

/// 1F1B without latencies, of ranks all of whose passes that wait have a window as long as `length` says.
Variant withWindows(const plan::test::Make &make, Time piece, Time (*length)(int32_t rank, uint32_t instruction)) {
  Variant variant = plan::test::makePlan(make).variants[0];
  variant.jobs = {{"job", 1, 1, piece, 0, 0, {}}};
  for (plan::Program &program : variant.programs) {
    program.job = 0;
    program.piece = 1;
    for (uint32_t i = 0; i != program.instructions.size(); ++i)
      if (program.instructions[i].queue == 0 && program.instructions[i].waits != 0)
        program.windows.push_back({i, length(program.rank, i)});
  }
  return variant;
}

plan::test::Make small(int32_t ranks, int32_t microbatches) {
  plan::test::Make make;
  make.ranks = ranks;
  make.microbatches = microbatches;
  make.optimizer = false;
  make.rolled = false;
  return make;
}

Time longWindow(int32_t, uint32_t) { return 1'000'000'000'000; }

Time spanOf(const Variant &variant, const Options &options) {
  Time time = 0;
  Result result;
  const Status status = span(variant, time, result, options);
  EXPECT_TRUE(status.ok()) << status.message;
  return time;
}

Time delayOf(const Variant &variant) {
  Time time = 0;
  EXPECT_TRUE(delay(variant, time).ok());
  return time;
}

TEST(Pieces, StandEndToEndFromWhenTheDeviceIsFree) {
  const Resume at{0, 1, 3, /*free=*/100, /*ready=*/350, /*window=*/1000, /*piece=*/100};
  EXPECT_EQ(at.pieces(), 3); // the third begins at 300 and ends at 400
  EXPECT_EQ((Resume{0, 1, 3, 100, 300, 1000, 100}).pieces(), 2);
  EXPECT_EQ((Resume{0, 1, 3, 100, 100, 1000, 100}).pieces(), 0); // it waits for nothing
  EXPECT_EQ((Resume{0, 1, 3, 100, 900, 299, 100}).pieces(), 2);  // its window has room for two
}

TEST(Pieces, NoneIsThereUnlessItIsAskedForNorBeforeTheFirstOfARun) {
  const Variant variant = withWindows(small(3, 4), 1'000'000'000, longWindow);
  Options options;
  options.steps = 3;
  Result without, with;
  ASSERT_TRUE(simulate(variant, options, without).ok());
  std::map<std::pair<int32_t, int64_t>, int64_t> pieces; // by place and step
  options.pieces = true;
  options.observePieces = [&](const Resume &at, int64_t count) {
    EXPECT_TRUE(at.step != 0 || at.index != 0);
    EXPECT_EQ(count, at.pieces());
    pieces[{at.place, at.step}] += count;
  };
  ASSERT_TRUE(simulate(variant, options, with).ok());
  for (int32_t place = 0; place != 3; ++place)
    for (int64_t step = 1; step != 3; ++step)
      EXPECT_GT((pieces[{place, step}]), 0) << place;
  EXPECT_GT(with.makespan, without.makespan); // windows longer than the waits
}

/// Windows as long as the waits are leave the step as it is.
TEST(Pieces, InWindowsNoLongerThanTheWaitsDelayNothing) {
  for (const bool deferred : {false, true}) {
    plan::test::Make make = small(4, 6);
    make.split = make.deferred = deferred;
    Variant variant = withWindows(make, 700'000'000, longWindow);
    Options options;
    options.steps = 6;
    std::map<std::pair<int32_t, int64_t>, Time> least;
    options.resume = [&](const Resume &at) {
      Time &own = least.try_emplace({at.place, at.index}, at.ready - at.free).first->second;
      own = std::min(own, at.ready - at.free);
      return at.ready;
    };
    Result alone, with;
    ASSERT_TRUE(simulate(variant, options, alone).ok());
    for (plan::Program &program : variant.programs)
      for (plan::Window &window : program.windows)
        window.length = least[{program.rank, int64_t(window.instruction)}];
    int64_t pieces = 0;
    options.resume = nullptr;
    options.pieces = true;
    options.observePieces = [&](const Resume &, int64_t count) { pieces += count; };
    ASSERT_TRUE(simulate(variant, options, with).ok());
    EXPECT_GT(pieces, 50);
    for (size_t place = 0; place != alone.places.size(); ++place)
      EXPECT_EQ(alone.places[place].lastEnd, with.places[place].lastEnd) << place;
  }
}

TEST(Delay, OfOneForwardOneBackwardIsThreeTimesTheRanksLessOne) {
  for (int32_t ranks = 2; ranks <= 32; ++ranks) {
    const Time piece = 320'000'000;
    plan::test::Make make = small(ranks, 2 * ranks);
    make.transfer = make.latency = 0;
    make.slots = uint32_t(2 * ranks);
    Variant variant = withWindows(make, piece, longWindow);
    // Only before what waits in the plan's own times is there a window.
    std::map<std::pair<int32_t, int64_t>, Time> least;
    Options options;
    options.steps = 4;
    options.resume = [&](const Resume &at) {
      Time &own = least.try_emplace({at.place, at.index}, at.ready - at.free).first->second;
      own = std::min(own, at.ready - at.free);
      return at.ready;
    };
    Result ignored;
    ASSERT_TRUE(simulate(variant, options, ignored).ok());
    for (plan::Program &program : variant.programs)
      std::erase_if(program.windows, [&](const plan::Window &window) {
        return least[{program.rank, int64_t(window.instruction)}] < piece;
      });
    EXPECT_EQ(delayOf(variant), 3 * (ranks - 1) * piece) << ranks;
    int64_t count = 0;
    ASSERT_TRUE(resumes(variant, 0, count).ok());
    EXPECT_EQ(count, 3'000'000 * (ranks - 1));
  }
}

/// Every resume a piece late, in the plan's own times: no adversary can do more, and where the longest path is the one
/// with most resumes this is the delay itself.
TEST(Delay, IsReachedByAnAdversary) {
  const Time piece = 320'000'000;
  plan::test::Make make = small(8, 16);
  make.transfer = make.latency = 0;
  make.slots = 16;
  const Variant variant = withWindows(make, piece, longWindow);
  Options late;
  late.resume = [](const Resume &at) { return at.ready + at.piece; };
  EXPECT_EQ(spanOf(variant, late) - spanOf(variant, {}), delayOf(variant));
}

struct Random {
  Variant variant;
  explicit Random(uint32_t seed) : draws(seed) {
    plan::test::Make make = small(int32_t(draws.upTo(2, 4)), int32_t(draws.upTo(1, 5)));
    make.optimizer = draws.coin(50);
    make.norm = make.optimizer && draws.coin(50);
    make.split = draws.coin(50);
    make.recompute = !make.split && draws.coin(33);
    make.slots = uint32_t(draws.upTo(1, make.microbatches));
    variant = withWindows(make, draws.upTo(1, 40), longWindow);
    for (plan::Program &program : variant.programs) {
      program.piece = draws.upTo(1, 3);
      std::erase_if(program.windows, [&](const plan::Window &) { return draws.coin(33); });
      for (plan::Window &window : program.windows)
        window.length = draws.upTo(1, 300);
    }
    retime();
  }
  /// Other times for all operations; of both ends of a transfer the same.
  void retime() {
    std::map<std::tuple<int32_t, int32_t, int>, std::pair<Time, Time>> transfers;
    Time norm = draws.upTo(0, 30);
    for (plan::Program &program : variant.programs)
      for (plan::Operation &own : program.operations) {
        if (plan::isCollective(own.kind)) {
          own.cost = norm;
          continue;
        }
        own.cost = draws.upTo(0, 100);
        if (!plan::isTransfer(own.kind))
          continue;
        const bool sends = own.kind == plan::Kind::Send;
        const std::pair drawn(draws.upTo(0, 30), draws.upTo(0, 30));
        std::tie(own.cost, own.latency) =
            transfers
                .try_emplace({sends ? program.rank : own.peer, sends ? own.peer : program.rank, int(own.of)}, drawn)
                .first->second;
      }
  }
  test::Draws draws;
};

/// The mean advance of a long run, which ends with all processes.
Time lastEnd(const Variant &variant, Options options, int64_t steps) {
  options.steps = steps;
  Result result;
  const Status status = simulate(variant, options, result);
  EXPECT_TRUE(status.ok()) << status.message;
  Time last = 0;
  for (const PlaceResult &place : result.places)
    last = std::max(last, place.lastEnd.back());
  return last;
}

/// The same where nothing takes time but resumes.
Time instantEnd(Variant variant, int64_t steps) {
  for (plan::Program &program : variant.programs)
    for (plan::Operation &own : program.operations)
      own.cost = own.latency = 0;
  Options options;
  options.resume = [](const Resume &at) { return at.ready + at.piece; };
  return lastEnd(variant, options, steps);
}

/// In any timing: pieces as the walk has them, in windows of any length, and any lateness up to a piece.
TEST(Delay, IsABoundInAnyTiming) {
  const auto rounds = uint32_t(test::rounds(1'000, 25'000));
  for (uint32_t seed = 0; seed != rounds; ++seed) {
    Random random(seed);
    const Time most = delayOf(random.variant);
    for (int timing = 0; timing != 4; ++timing) {
      random.retime();
      ASSERT_EQ(delayOf(random.variant), most) << "times do not matter to it";
      constexpr int64_t kSteps = 12;
      const Time alone = lastEnd(random.variant, {}, kSteps);
      Options options;
      options.pieces = true;
      const Time bound = alone + instantEnd(random.variant, kSteps); // the resumes of any path over so many steps
      EXPECT_LE(lastEnd(random.variant, options, kSteps), bound) << seed;
      options.pieces = false;
      options.resume = [&](const Resume &at) { return at.ready + random.draws.upTo(0, at.piece); };
      EXPECT_LE(lastEnd(random.variant, options, kSteps), bound) << seed;
      options.resume = [&](const Resume &at) { return at.ready + at.piece; };
      EXPECT_LE(spanOf(random.variant, options), spanOf(random.variant, {}) + most + 1) << seed; // both are rounded up
    }
  }
}

/// Which resumes come late, tried out in full: none of the choices takes more than the bound, and the worst is that of
/// all.
TEST(Delay, IsNotUnderAnyChoiceOfWhatComesLate) {
  int tried = 0;
  for (uint32_t seed = 0; seed != 60; ++seed) {
    Random random(seed);
    std::vector<std::pair<int32_t, int64_t>> all;
    for (const plan::Program &program : random.variant.programs)
      for (const plan::Window &each : program.windows)
        all.emplace_back(program.rank, each.instruction);
    if (all.size() > 8)
      continue;
    ++tried;
    const Time most = delayOf(random.variant), alone = spanOf(random.variant, {});
    for (unsigned late = 0; late != 1U << all.size(); ++late) {
      Options options;
      options.resume = [&](const Resume &at) {
        const auto which = std::ranges::find(all, std::pair(at.place, at.index)) - all.begin();
        return at.ready + ((late >> which & 1U) != 0 ? at.piece : 0);
      };
      EXPECT_LE(spanOf(random.variant, options), alone + most + 1) << seed;
    }
  }
  EXPECT_GT(tried, 10);
}

TEST(Delay, IsProvenWhereNothingChoosesByTime) {
  Variant variant = plan::test::makeJobs().variants[0];
  EXPECT_TRUE(delayHoldsInAnyTiming(variant));
  variant.sharedPort = true;
  EXPECT_FALSE(delayHoldsInAnyTiming(variant));
  plan::test::Make make;
  make.split = make.deferred = true;
  EXPECT_FALSE(delayHoldsInAnyTiming(plan::test::makePlan(make).variants[0]));
}

TEST(Delay, P56TheCertificateSaysIt) {
  plan::Plan plan = plan::test::makeJobs();
  Variant &variant = plan.variants[0];
  Result result;
  EXPECT_TRUE(prove(variant, result).ok()) << prove(variant, result).message;
  --variant.certificate.delay;
  Status status = prove(variant, result);
  EXPECT_EQ(status.code, Code::Check);
  EXPECT_EQ(status.message, "P56: the certificate's delay is 639999999 ps, a step of resumes alone takes 640000000 ps");
  plan::test::Make make;
  make.split = make.deferred = true;
  Variant chooses = plan::test::makePlan(make).variants[0];
  chooses.certificate.delayProven = true;
  EXPECT_EQ(proveDelay(chooses).message,
            "P56: the delay of jobs is said to be proven, and something in the plan chooses by time");
}

} // namespace
} // namespace pipec::simulate
