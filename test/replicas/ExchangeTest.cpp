// The exchange of gradients in virtual time, against figures that follow from a few lines of arithmetic: eight ranks,
// 32 microbatches, F = B = W = 10 ms, eight layers a stage, whose all-reduce takes 100 ms (12.5 a layer).
#include "compiler/passes/Exchanges.h"
#include "compiler/schedule/bounds/Bounds.h"
#include "compiler/schedule/catalogue/Catalogue.h"
#include "compiler/schedule/exchange/BoundsExchange.h"
#include "compiler/schedule/exchange/Bundles.h"
#include "dialects/pipe/Pipe.h"
#include "runtime/plan/Load.h"

#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>
#include <utility>

using namespace pipec;

namespace {

/// Buffers for all transfers of a step, each free once the step before is over.
void withRings(plan::Program &program) {
  std::map<std::pair<int32_t, plan::Direction>, plan::Ring> rings;
  std::vector<int64_t> issued(program.queues.size());
  std::vector<bool> sends(program.queues.size());
  for (plan::Cursor cursor(program); !cursor.done(); cursor.next()) {
    const plan::Operation &o = *cursor.at().operation;
    ++issued[cursor.at().instruction->queue];
    if (!plan::isTransfer(o.kind))
      continue;
    const plan::Direction direction = o.kind == plan::Kind::Send ? plan::Direction::Send : plan::Direction::Recv;
    if (direction == plan::Direction::Send)
      sends[cursor.at().instruction->queue] = true;
    plan::Ring &ring = rings.try_emplace({o.peer, direction}, plan::Ring{o.peer, direction, 0, 0}).first->second;
    ++ring.size;
    ring.slotBytes = std::max(ring.slotBytes, o.bytes);
  }
  program.rings.clear();
  for (const auto &[end, ring] : rings)
    program.rings.push_back(ring);
  std::vector<plan::Wait> waits;
  for (plan::Instruction &instruction : program.instructions) {
    const auto own = program.waits.begin() + instruction.firstWait;
    const auto first = uint32_t(waits.size());
    waits.insert(waits.end(), own, own + instruction.waits);
    const plan::Kind kind = program.operations[instruction.operation].kind;
    if (kind == plan::Kind::Recv)
      waits.push_back({0, true, issued[0], 0});
    for (uint32_t queue = 0; plan::rowOf(kind).gives != plan::Payload::None && queue != program.queues.size(); ++queue)
      if (sends[queue])
        waits.push_back({queue, true, issued[queue], 0});
    instruction.firstWait = first;
    instruction.waits = uint32_t(waits.size()) - first;
  }
  program.waits = std::move(waits);
}

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

/// What takes a turn on ports, and when it could have: a transfer when its tensor is there, and the one before it
/// between the two ranks has crossed.
struct Holder {
  bool isTransfer = false;
  int32_t from = 0, to = 0; // ranks
  plan::Time ready = 0, start = 0;

  bool meets(const Holder &other) const { return from == other.from || to == other.to; }
};

std::vector<Holder> holdersOf(const plan::Variant &variant) {
  std::vector<simulate::Event> events;
  simulate::Options options;
  options.steps = 3;
  options.observe = [&](const simulate::Event &event) { events.push_back(event); };
  simulate::Result result;
  EXPECT_TRUE(simulate::simulate(variant, options, result).ok());
  std::map<std::tuple<plan::Payload, int32_t, int64_t, int64_t>, plan::Time> made; // what, stage, microbatch, step
  for (const simulate::Event &event : events)
    if (const plan::Operation &o = *event.operation; plan::isCompute(o.kind)) {
      plan::Time &end = made[{plan::rowOf(o.kind).gives, o.stage, event.microbatch, event.step}];
      end = std::max(end, event.end);
    }
  std::map<std::pair<int32_t, int32_t>, plan::Time> crossed;
  std::vector<Holder> holders;
  for (const simulate::Event &event : events) {
    const plan::Operation &o = *event.operation;
    if (plan::isCollective(o.kind))
      holders.push_back({false, event.rank, event.rank, event.start, event.start});
    if (o.kind != plan::Kind::Send)
      continue;
    plan::Time &before = crossed[{event.rank, o.peer}];
    const plan::Time tensor = made[{o.of, o.stage, event.microbatch, event.step}];
    holders.push_back({true, event.rank, o.peer, std::max(before, tensor), event.start});
    before = event.end;
  }
  return holders;
}

TEST_F(Exchange, NoBundleBeginsWhereATransferWaits) {
  constexpr schedule::Bytes kBoundary = 3 * kMB;
  for (schedule::Stage &stage : problem.stages)
    stage.boundary = kBoundary;
  problem.link.bandwidth = 1'000'000'000; // 3 ms each
  replicas.sharesPort = true;
  schedule("1f1b");
  size_t waited = 0;
  for (const char *policy : {"none", "ddp", "dear-queue"}) {
    const schedule::Ready ready = exchanges->readyOf(replicas);
    const std::optional<plan::Variant> variant =
        exchanges->programsOf(replicas, schedule::findPolicy(policy)->make({replicas, stages, ready}, {}));
    ASSERT_TRUE(variant);
    const std::vector<Holder> holders = holdersOf(*variant);
    for (const Holder &transfer : holders)
      for (const Holder &bundle : holders)
        if (transfer.isTransfer && !bundle.isTransfer && transfer.meets(bundle)) {
          EXPECT_FALSE(bundle.start > transfer.ready && bundle.start < transfer.start) << policy;
          waited += transfer.start > transfer.ready;
        }
  }
  EXPECT_GT(waited, 0u) << "the case shows nothing";
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

/// The waits of the exchange: of sums, gathers and updates, and of passes for these.
std::vector<plan::Wait *> exchangeWaits(plan::Program &program) {
  const auto exchanges = [&](const plan::Instruction &instruction) {
    const plan::Operation &o = program.operations[instruction.operation];
    return plan::does(o.kind, plan::kUpdate) || (plan::isCollective(o.kind) && o.of != plan::Payload::Norm);
  };
  std::vector<bool> queues(program.queues.size());
  for (const plan::Instruction &instruction : program.instructions)
    queues[instruction.queue] = queues[instruction.queue] || (instruction.queue != 0 && exchanges(instruction));
  std::vector<plan::Wait *> waits;
  for (const plan::Instruction &instruction : program.instructions)
    for (uint32_t w = instruction.firstWait; w != instruction.firstWait + instruction.waits; ++w)
      if (plan::Wait &wait = program.waits[w]; exchanges(instruction) || (instruction.queue == 0 && queues[wait.queue]))
        waits.push_back(&wait);
  return waits;
}

TEST_F(RandomExchange, PlansKeepTheRules) {
  std::mt19937_64 random(8);
  int checked = 0, waits = 0, needless = 0;
  for (int n = 0; n != 400; ++n) {
    draw(random);
    replicas.norm = n % 4 == 0 ? std::optional(kMs) : std::nullopt;
    for (schedule::Stage &stage : problem.stages) {
      stage.activation = 5 * kMB;
      stage.context = 3 * kMB;
      stage.backwardContext = problem.backward == schedule::BackwardMode::Split ? kMB : 0;
    }
    if (n % 3 == 1)
      exchanges.emplace(problem, words, pipe::Communicator::Shared, context);
    const std::vector<int32_t> tails = random() % 2 == 0 ? exchanges->tails() : std::vector<int32_t>();
    schedule::Exchange exchange = drawExchange(random, exchanges->readyOf(replicas, tails));
    exchange.tails = tails;
    if (exchange.ahead)
      continue;
    std::optional<plan::Variant> variant = exchanges->programsOf(replicas, exchange);
    ASSERT_TRUE(variant) << n;
    for (plan::Program &program : variant->programs)
      withRings(program);
    const Status status = plan::verify(*variant);
    ASSERT_TRUE(status.ok()) << n << ": " << status.message;
    ++checked;
    if (n % 10 != 0 || n % 3 == 1) // one queue orders more than its waits say
      continue;
    for (plan::Program &program : variant->programs)
      for (plan::Wait *wait : exchangeWaits(program)) { // without one of them it is refused
        const plan::Wait before = std::exchange(*wait, plan::Wait{wait->queue, wait->previousStep, 0, 0});
        ++waits;
        needless += plan::verify(*variant).ok();
        *wait = before;
      }
  }
  EXPECT_GT(checked, 300);
  EXPECT_GT(waits, 200);
  EXPECT_LT(needless, waits / 20); // of two waits of a gather for two updates the first is
}

} // namespace
