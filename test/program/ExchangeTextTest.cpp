// Programs that exchange gradients with replicas, written as text and read again: the same instructions in the same
// order, on the same queues, that wait for the same ones of this step and of the one before.
#include "compiler/program/BuildPrograms.h"
#include "compiler/program/Dependences.h"
#include "compiler/program/ExchangeAttrs.h"
#include "compiler/program/ExchangeGradients.h"
#include "compiler/program/ProgramText.h"
#include "compiler/schedule/catalogue/Catalogue.h"
#include "compiler/schedule/exchange/Bundles.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>
#include <random>

using namespace pipec;

namespace {

class ExchangeText : public testing::Test {
protected:
  ExchangeText() { context.loadDialect<pipe::PipeDialect>(); }

  int64_t upTo(int64_t most) { return int64_t(random() % uint64_t(most + 1)); }

  void addStage(int32_t rank) {
    problem.rankOf.push_back(rank);
    schedule::Stage &stage = problem.stages.emplace_back();
    stage.boundary = upTo(9);
    stage.activation = upTo(2) * 4;
    stage.context = upTo(2) * 2;
    stage.backwardContext = upTo(1);
    std::vector<schedule::ExchangedLayer> &layers = replicas.layers.emplace_back(1 + upTo(4));
    for (schedule::ExchangedLayer &layer : layers) {
      layer.forward = 1 + upTo(8);
      layer.backwardInput = 1 + upTo(8);
      layer.backwardWeight = 1 + upTo(8);
      layer.backward = layer.backwardInput + layer.backwardWeight;
      layer.update = upTo(2);
      layer.tensors = {upTo(2) * 5, upTo(20)};
      layer.weights = layer.gradients();
      stage.forward += layer.forward;
      stage.backwardInput += layer.backwardInput;
      stage.backwardWeight += layer.backwardWeight;
      stage.backward += layer.backward;
    }
    if (again) {
      stage.input = upTo(9);
      stage.recompute = stage.forward;
      stage.backwardInput += stage.recompute;
      stage.backward += stage.recompute;
    }
  }

  void draw() {
    problem = {};
    replicas = {};
    problem.ranks = 1 + int32_t(upTo(2));
    problem.microbatches = problem.ranks + int32_t(upTo(2));
    if (upTo(1) == 0)
      problem.globalNorm = 7;
    replicas.degree = 2 + int32_t(upTo(5));
    replicas.mayShard = upTo(1) == 0;
    replicas.times = {{upTo(3), 1'000'000'000'000, 1, 1}, {upTo(3), 0, 1, 1}, {upTo(3), 0, 1, 1}};
    const bool folded = upTo(1) == 0;
    again = upTo(2) == 0;
    for (int32_t rank = 0; rank != problem.ranks; ++rank)
      addStage(rank);
    for (int32_t rank = problem.ranks; folded && rank-- > 0;)
      addStage(rank);
    const char *name = folded ? "zb-v" : upTo(1) == 0 ? "1f1b" : "zb-h1";
    const schedule::Entry *entry = schedule::find(name);
    problem.backward = entry->defaultBackward;
    words = schedule::wordsOf(*entry, problem, {});
    stages = problem.stagesByRank();
  }

  /// One of a policy, or bundles at random.
  schedule::Exchange drawExchange() {
    schedule::Ready ready;
    for (const auto &layers : replicas.layers)
      for (std::vector<schedule::Time> &own = ready.emplace_back(); own.size() != layers.size();)
        own.push_back(upTo(99));
    const schedule::ExchangeInput input{replicas, stages, ready};
    if (upTo(2) == 0) {
      replicas.mayShard = false;
      schedule::PolicyParameters parameters;
      parameters.bundle = upTo(30);
      parameters.piece = 1 + upTo(7); // which cut layers
      return schedule::policies()[random() % schedule::policies().size()].make(input, parameters);
    }
    schedule::Bundling bundling;
    for (const std::vector<schedule::ExchangedLayer> &layers : replicas.layers) {
      schedule::StageBundles &stage = bundling.stages.emplace_back();
      stage.sums = stage.gathers = {0};
      for (int32_t layer = 1; layer < int32_t(layers.size()); ++layer)
        for (std::vector<int32_t> *each : {&stage.sums, &stage.gathers})
          if (upTo(1) == 0)
            each->push_back(layer);
      for (size_t i = 0; i != stage.sums.size(); ++i)
        stage.whole.push_back(upTo(2) == 0);
    }
    schedule::Exchange exchange = schedule::inOrderOfNeed(input, bundling, replicas.mayShard);
    if (problem.backward == schedule::BackwardMode::Split && upTo(1) == 0)
      exchange.tails.assign(size_t(problem.ranks), int32_t(1 + upTo(1)));
    return exchange;
  }

  ProgramSet drawPrograms() {
    draw();
    const schedule::Exchange exchange = drawExchange();
    ProgramSet set = buildPrograms(problem, words, PassPlaces(mlir::UnknownLoc::get(&context), problem), {});
    exchangeGradients(set, replicas, exchange);
    if (upTo(1) == 0) {
      EXPECT_TRUE(mlir::succeeded(addTransfers(problem, set)));
      Ordered ordered(set);
      EXPECT_TRUE(ordered.sorted);
      ordered.dependences.arrange(set, ordered.order);
    }
    return set;
  }

  std::string textOf(const ProgramSet &set) {
    mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
    writePrograms(set, *module);
    EXPECT_TRUE(mlir::succeeded(mlir::verify(*module)));
    std::string text;
    llvm::raw_string_ostream stream(text);
    module->print(stream);
    return text;
  }

  ProgramSet read(const std::string &text) {
    const auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    mlir::FailureOr<ProgramSet> set = readPrograms(*module);
    EXPECT_TRUE(mlir::succeeded(set) && mlir::succeeded(matchTransfers(*set)));
    EXPECT_EQ(set->check(), "");
    return std::move(*set);
  }

  /// The queue that an instruction is on, whatever its number.
  static QueueKey queueOf(const Program &program, const Instruction &own) {
    QueueKey key = program.queues[own.queue];
    if (plan::isCollective(program.kind(own)))
      key.ends.first = 0; // a group, whose members are compared
    return key;
  }

  static std::vector<int32_t> membersOf(const ProgramSet &set, const plan::Operation &operation) {
    return operation.group < 0 ? std::vector<int32_t>() : set.groups[size_t(operation.group)].members;
  }
  static plan::Operation withoutGroup(plan::Operation operation) {
    operation.group = -1;
    return operation;
  }

  static void expectSame(const ProgramSet &set, const ProgramSet &other) {
    ASSERT_EQ(set.ranks(), other.ranks());
    for (size_t rank = 0; rank != set.ranks(); ++rank) {
      const Program &one = set.programs[rank], &two = other.programs[rank];
      ASSERT_EQ(one.instructions.size(), two.instructions.size());
      for (uint32_t i = 0; i != one.instructions.size(); ++i) {
        const Instruction &first = one.instructions[i], &second = two.instructions[i];
        const plan::Operation &its = one.of(first), &others = two.of(second);
        ASSERT_EQ(withoutGroup(its), withoutGroup(others)) << one.nameOf(i);
        ASSERT_EQ(membersOf(set, its), membersOf(other, others)) << one.nameOf(i);
        ASSERT_EQ(first.microbatch, second.microbatch);
        ASSERT_EQ(one.yieldOf(i), two.yieldOf(i)) << one.nameOf(i);
        ASSERT_EQ(queueOf(one, first), queueOf(two, second)) << one.nameOf(i);
        if (!plan::isTransfer(its.kind)) { // whose ends are numbered in another order
          ASSERT_EQ(std::pair(first.in, first.out), std::pair(second.in, second.out)) << one.nameOf(i);
        }
      }
      ASSERT_EQ(one.uses, two.uses);
      ASSERT_EQ(one.carried, two.carried);
    }
  }

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  std::mt19937_64 random{7};
  bool again = false; // whether stages run their forwards again
  schedule::Problem problem;
  schedule::Replicas replicas;
  schedule::Words words;
  std::vector<std::vector<int32_t>> stages;
};

TEST_F(ExchangeText, WhatIsWrittenReadsBackTheSame) {
  size_t carried = 0, parts = 0;
  for (int n = 0; n != 500; ++n) {
    const ProgramSet set = drawPrograms();
    const std::string text = textOf(set);
    const ProgramSet again = read(text);
    ASSERT_NO_FATAL_FAILURE(expectSame(set, again)) << n << "\n" << text;
    ASSERT_EQ(textOf(again), text) << n;
    for (const Program &program : set.programs) {
      carried += program.carried.size();
      for (const Instruction &own : program.instructions)
        parts += plan::isCompute(program.kind(own)) && program.of(own).layers != 0;
    }
  }
  EXPECT_GT(carried, 500u);
  EXPECT_GT(parts, 500u);
}

/// A pass in parts is one letter of its word.
TEST_F(ExchangeText, PartsAreOnePass) {
  for (int n = 0; n != 100; ++n) {
    draw();
    schedule::Exchange exchange = drawExchange();
    exchange.tails.clear();
    ProgramSet set = buildPrograms(problem, words, PassPlaces(mlir::UnknownLoc::get(&context), problem), {});
    exchangeGradients(set, replicas, exchange);
    ASSERT_EQ(wordsOf(set), words) << n;
  }
}

/// What a pipeline says of replicas and their exchange reads back the same.
TEST_F(ExchangeText, ReplicasAndExchangesAreAttributes) {
  for (int n = 0; n != 100; ++n) {
    draw();
    replicas.sharesPort = upTo(1) == 0;
    replicas.round = upTo(9);
    const schedule::Exchange exchange = drawExchange();
    std::string text;
    llvm::raw_string_ostream stream(text);
    stream << "pipe.pipeline @p problem <placement = [";
    llvm::interleaveComma(problem.rankOf, stream);
    stream << "], microbatches = 1> replicas " << attributeOf(replicas, context) << " exchange "
           << attributeOf(exchange, context) << " { pipe.block {} }";
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    ASSERT_TRUE(module) << text;
    pipe::PipelineOp pipeline = *module->getOps<pipe::PipelineOp>().begin();
    EXPECT_EQ(exchangeOf(pipeline), exchange) << text;
    EXPECT_EQ(replicasOf(pipeline)->layers.size(), replicas.layers.size());
    EXPECT_EQ(replicasOf(pipeline)->degree, replicas.degree);
    EXPECT_EQ(attributeOf(*replicasOf(pipeline), context), attributeOf(replicas, context));
  }
}

} // namespace
