// The exchange of gradients in virtual time, against figures that follow from a few lines of arithmetic: eight ranks,
// 32 microbatches, F = B = W = 10 ms, eight layers a stage, whose all-reduce takes 100 ms (12.5 a layer).
#include "compiler/replicas/Exchanges.h"
#include "compiler/schedule/bounds/Bounds.h"
#include "compiler/schedule/catalogue/Catalogue.h"
#include "compiler/schedule/exchange/BoundsExchange.h"
#include "compiler/schedule/exchange/Bundles.h"
#include "dialects/pipe/Pipe.h"

#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

using namespace pipec;

namespace {

constexpr plan::Time kMs = 1'000'000'000;
constexpr schedule::Bytes kMB = 1'000'000;

class Exchange : public testing::Test {
protected:
  Exchange() {
    context.loadDialect<pipe::PipeDialect>();
    problem.ranks = 8;
    problem.microbatches = 32;
    for (int32_t s = 0; s != 8; ++s) {
      schedule::Stage &stage = problem.stages.emplace_back();
      stage.forward = stage.backwardInput = stage.backwardWeight = 10 * kMs;
      stage.backward = 20 * kMs;
      stage.gradients = 80 * kMB;
      problem.rankOf.push_back(s);
    }
    replicas.degree = 8;
    allReduceIn(100 * kMs);
    schedule::ExchangedLayer layer;
    layer.forward = layer.backwardInput = layer.backwardWeight = 10 * kMs / 8;
    layer.backward = 20 * kMs / 8;
    layer.tensors = {10 * kMB};
    layer.weights = 10 * kMB;
    replicas.layers.assign(8, std::vector<schedule::ExchangedLayer>(8, layer));
  }

  void allReduceIn(plan::Time time) { // of a stage
    const auto bandwidth = int64_t(__int128(80 * kMB) * 1000 * kMs / time);
    replicas.times = {{0, bandwidth, 1, 1}, {0, 2 * bandwidth, 1, 1}, {0, 2 * bandwidth, 1, 1}};
  }

  void schedule(const char *name) {
    const schedule::Entry *entry = schedule::find(name);
    problem.backward = entry->defaultBackward;
    words = schedule::wordsOf(*entry, problem, {});
    exchanges.emplace(problem, words, pipe::Communicator::PerEdge, context);
    stages = problem.stagesByRank();
  }

  /// ZB-H1, but that the last B of each rank, as many as there are ranks behind it and its own, follow each other, and
  /// their W come behind them.
  void scheduleWithLateWeights() {
    schedule("zb-h1");
    for (size_t rank = 0; rank != words.size(); ++rank) {
      schedule::Word &word = words[rank];
      size_t from = word.size();
      for (size_t left = 8 - rank; left != 0; left -= word[from].letter == schedule::Letter::B)
        --from;
      schedule::Word late;
      for (const bool weights : {false, true})
        std::copy_if(word.begin() + ptrdiff_t(from), word.end(), std::back_inserter(late),
                     [&](const schedule::Op &op) { return (op.letter == schedule::Letter::W) == weights; });
      std::copy(late.begin(), late.end(), word.begin() + ptrdiff_t(from));
    }
  }

  plan::Time bare() const {
    schedule::Exchange nothing;
    nothing.updates = schedule::Updates::Stages;
    nothing.queues.resize(8);
    return exchanges->spanOf(replicas, nothing);
  }

  /// By how much a policy makes a step longer.
  plan::Time exposedBy(const char *policy, schedule::PolicyParameters parameters = {}) const {
    const schedule::Ready ready = exchanges->readyOf(replicas);
    return exchanges->spanOf(replicas, schedule::findPolicy(policy)->make({replicas, stages, ready}, parameters)) -
           bare();
  }

  /// Each layer by itself, in order of need, W cut from so many on.
  plan::Time exposedInOrderOfNeed(std::vector<int32_t> tails) const {
    const schedule::Ready ready = exchanges->readyOf(replicas, tails);
    schedule::Exchange exchange = schedule::layerByLayer({replicas, stages, ready}, true);
    exchange.tails = std::move(tails);
    return exchanges->spanOf(replicas, exchange) - bare();
  }

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  schedule::Problem problem;
  schedule::Replicas replicas;
  schedule::Words words;
  std::vector<std::vector<int32_t>> stages;
  std::optional<Exchanges> exchanges;
};

TEST_F(Exchange, OneForwardOneBackward) {
  schedule("1f1b");
  EXPECT_EQ(bare(), 1170 * kMs);
  EXPECT_EQ(exposedBy("none"), 100 * kMs);
  EXPECT_EQ(exposedBy("ddp"), 82'500'000'000);
  schedule::PolicyParameters byLayer;
  byLayer.bundle = 0;
  EXPECT_EQ(exposedBy("dear-queue", byLayer), 73'750'000'000);
  // The first stage's alone is exposed: the others wait anyway.
  allReduceIn(130 * kMs);
  for (size_t layer = 0; layer != 8; ++layer)
    replicas.layers[0][layer].tensors = {10 * kMB * 100 / 130};
  EXPECT_NEAR(double(exposedBy("none")), double(100 * kMs), 1e6); // a microsecond
}

TEST_F(Exchange, WeightsInOrderOfNeed) {
  scheduleWithLateWeights();
  EXPECT_EQ(schedule::verify(problem, words), "");
  EXPECT_EQ(exposedInOrderOfNeed({}), 82'500'000'000);
  EXPECT_LE(exposedInOrderOfNeed(std::vector<int32_t>(8, 7)), 30 * kMs);
  EXPECT_LE(exposedInOrderOfNeed(exchanges->tails()), 22'500'000'000);
  allReduceIn(40 * kMs);
  EXPECT_EQ(exposedInOrderOfNeed(std::vector<int32_t>(8, 4)), 0);
}

/// A pipeline of up to three ranks with layers of their own, and some exchange of its gradients.
class RandomExchange : public Exchange {
protected:
  explicit RandomExchange() {}

  void draw(std::mt19937_64 &random) {
    problem = {};
    problem.ranks = 1 + int32_t(random() % 3);
    problem.microbatches = problem.ranks + int32_t(random() % 3);
    replicas.degree = 2 + int32_t(random() % 6);
    replicas.mayShard = random() % 2 == 0;
    const plan::Time start = plan::Time(random() % 3) * kMs;
    replicas.times = {{2 * start, 1'000'000'000, 1, 1}, {start, 2'000'000'000, 1, 1}, {start, 2'000'000'000, 1, 1}};
    replicas.layers.clear();
    for (int32_t s = 0; s != problem.ranks; ++s) {
      problem.rankOf.push_back(s);
      schedule::Stage &stage = problem.stages.emplace_back();
      std::vector<schedule::ExchangedLayer> &layers = replicas.layers.emplace_back(1 + random() % 5);
      for (schedule::ExchangedLayer &layer : layers) {
        layer.forward = plan::Time(1 + random() % 9) * kMs;
        layer.backwardInput = plan::Time(1 + random() % 9) * kMs;
        layer.backwardWeight = plan::Time(1 + random() % 9) * kMs;
        layer.backward = layer.backwardInput + layer.backwardWeight;
        layer.update = plan::Time(random() % 3) * kMs;
        layer.tensors = {schedule::Bytes(random() % 3) * 5 * kMB, schedule::Bytes(random() % 20) * kMB};
        layer.weights = layer.gradients();
        stage.forward += layer.forward;
        stage.backwardInput += layer.backwardInput;
        stage.backwardWeight += layer.backwardWeight;
        stage.backward += layer.backward;
        stage.optimizer += layer.update;
        stage.gradients += layer.gradients();
      }
    }
    schedule(random() % 2 == 0 ? "1f1b" : "zb-h1");
  }

  schedule::Exchange drawExchange(std::mt19937_64 &random, const schedule::Ready &ready) const {
    const schedule::ExchangeInput input{replicas, stages, ready};
    if (random() % 3 == 0 && !replicas.mayShard) {
      schedule::PolicyParameters parameters;
      parameters.bundle = schedule::Bytes(random() % 30) * kMB;
      return schedule::policies()[random() % schedule::policies().size()].make(input, parameters);
    }
    schedule::Bundling bundling;
    for (const std::vector<schedule::ExchangedLayer> &layers : replicas.layers) {
      schedule::StageBundles &stage = bundling.stages.emplace_back();
      stage.sums = stage.gathers = {0};
      for (int32_t layer = 1; layer < int32_t(layers.size()); ++layer) {
        if (random() % 2 == 0)
          stage.sums.push_back(layer);
        if (random() % 2 == 0)
          stage.gathers.push_back(layer);
      }
      for (size_t i = 0; i != stage.sums.size(); ++i)
        stage.whole.push_back(random() % 3 == 0);
    }
    return schedule::inOrderOfNeed(input, bundling, replicas.mayShard);
  }
};

TEST_F(RandomExchange, NoneBeatsTheBoundAndStepsRepeatAsPredicted) {
  std::mt19937_64 random(7);
  for (int n = 0; n != 400; ++n) {
    draw(random);
    const std::vector<int32_t> tails = random() % 2 == 0 ? exchanges->tails() : std::vector<int32_t>();
    schedule::Exchange exchange = drawExchange(random, exchanges->readyOf(replicas, tails));
    exchange.tails = tails;
    const plan::Time span = exchanges->spanOf(replicas, exchange);
    ASSERT_NE(span, Exchanges::kNever) << n;
    schedule::Problem bare = problem;
    for (schedule::Stage &stage : bare.stages)
      stage.optimizer = 0;
    EXPECT_GE(span, schedule::exchangeBound(problem, replicas, {})) << n;
    EXPECT_GE(span, schedule::lowerBounds(bare).span) << n;
    // Many steps at once, by the ends of backwards: updates of a last step do not wait for a next one.
    const std::optional<plan::Variant> variant = exchanges->programsOf(replicas, exchange);
    constexpr int64_t kSteps = 40;
    std::vector<plan::Time> ends(kSteps);
    simulate::Options options;
    options.steps = kSteps;
    options.observe = [&](const simulate::Event &event) {
      if (event.rank == 0 && event.queue == 0)
        ends[size_t(event.step)] = std::max(ends[size_t(event.step)], event.end);
    };
    simulate::Result result;
    ASSERT_TRUE(simulate::simulate(*variant, options, result).ok()) << n;
    EXPECT_NEAR(double(ends[36] - ends[24]) / 12, double(span), 2) << n; // steps repeat after one, two, three, four …
  }
}

} // namespace
