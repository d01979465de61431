// What policies make of tensors: the rules of each, and what holds of all.
#include "compiler/schedule/exchange/BoundsExchange.h"
#include "compiler/schedule/exchange/Bundles.h"
#include "compiler/schedule/exchange/ChooseExchange.h"
#include "compiler/schedule/exchange/Coordinators.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>

using namespace pipec::schedule;
using pipec::plan::Kind;

namespace {

constexpr Time kMs = 1'000'000'000;
constexpr Bytes kMiB = 1 << 20;

/// One rank with one stage; the gradients of each layer are ready 10 ms after those of the layer behind it.
struct Model {
  explicit Model(std::vector<std::vector<Bytes>> tensors) {
    replicas.degree = 4;
    replicas.times = {{2 * kMs, 1'000'000'000, 1, 1}, {kMs, 2'000'000'000, 1, 1}, {kMs, 2'000'000'000, 1, 1}};
    replicas.round = kMs;
    replicas.layers.resize(1);
    ready.resize(1);
    for (size_t layer = 0; layer != tensors.size(); ++layer) {
      ExchangedLayer made;
      made.forward = 5 * kMs;
      made.backward = 10 * kMs;
      made.tensors = tensors[layer];
      made.weights = made.gradients();
      replicas.layers[0].push_back(made);
      ready[0].push_back(10 * kMs * Time(tensors.size() - layer));
    }
  }
  ExchangeInput input() const { return {replicas, stages, ready}; }
  Exchange make(const char *policy, PolicyParameters parameters = {}) const {
    return findPolicy(policy)->make(input(), parameters);
  }

  Replicas replicas;
  std::vector<std::vector<int32_t>> stages{{0}};
  Ready ready;
};

/// "all_reduce 2+1" of each, by layers.
std::string text(const std::vector<Collective> &queue) {
  std::string all;
  for (const Collective &each : queue)
    all += (all.empty() ? "" : ", ") +
           std::string(each.kind == Kind::AllReduce       ? "AR "
                       : each.kind == Kind::ReduceScatter ? "RS "
                                                          : "AG ") +
           std::to_string(each.firstLayer) + "+" + std::to_string(each.layers);
  return all;
}

TEST(ChosenExchanges, EndWhereThereIsNextToNothingToChoose) {
  for (const std::vector<std::vector<Bytes>> &tensors :
       {std::vector<std::vector<Bytes>>{{kMiB}}, {{0}, {kMiB}, {0}}, {{0}, {0}}, {{kMiB}, {kMiB}}}) {
    const Model model(tensors);
    for (const bool mayReduce : {true, false})
      for (const bool mayDecouple : {true, false}) {
        if (!mayReduce && !mayDecouple)
          continue;
        ExchangeChoice choice;
        choice.mayReduce = mayReduce;
        choice.mayDecouple = mayDecouple;
        const ChosenExchange chosen = chooseExchange(model.input(), choice, [](const Exchange &) { return kMs; });
        EXPECT_EQ(chosen.time, kMs);
        EXPECT_LE(chosen.judged, choice.most);
      }
  }
}

TEST(Collectives, TakeWhatARingTakes) {
  const CollectiveTimes ring = ringOf(8, {20'000'000, 12'500'000'000}); // 20 us, 12.5 GB/s
  // 7 hops, each of the latency and an eighth of the bytes.
  EXPECT_EQ(ring.reduceScatter.of(100'000'000), 7 * Time(20'000'000 + 1'000'000'000));
  EXPECT_EQ(ring.allReduce.of(100'000'000), 2 * ring.allGather.of(100'000'000));
  EXPECT_EQ(ringOf(2, {}).allReduce.of(1 << 30), 0);
  const CollectiveTime measured{2 * kMs, 1'000'000'000, 1, 1};
  EXPECT_EQ(measured.of(1'000'000), 3 * kMs);
  EXPECT_EQ(measured.half().of(1'000'000) * 2, 3 * kMs);
  EXPECT_EQ((CollectiveTime{INT64_MAX / 2, 1, 3, 1}.of(1)), kLongest);
  EXPECT_EQ((CollectiveTime{0, INT64_MAX, 1, 1}.half().of(1)), 0);
}

TEST(Policies, AreFoundByName) {
  EXPECT_EQ(policies().size(), 8u);
  for (const Policy &each : policies())
    EXPECT_EQ(findPolicy(each.name), &each);
  EXPECT_EQ(findPolicy("auto"), nullptr);
}

TEST(Policies, BundleAsTheirSystemsDo) {
  const Model model({{kMiB, kMiB}, {}, {20 * kMiB}, {8 * kMiB, 2 * kMiB}, {16 * kMiB}});
  EXPECT_EQ(text(model.make("none").queues[0]), "AR 0+5");
  EXPECT_TRUE(model.make("none").atEnd);
  EXPECT_EQ(text(model.make("wfbp").queues[0]), "AR 4+1, AR 3+1, AR 3+1, AR 2+1, AR 0+1, AR 0+1");
  // The first bucket closes at 1 MiB, the next at 25 MiB: 2 + 8 + 20, then what is left.
  EXPECT_EQ(text(model.make("ddp").queues[0]), "AR 4+1, AR 2+2, AR 0+1");
  // Of each 10 ms all that is ready.
  EXPECT_EQ(text(model.make("horovod").queues[0]), "AR 4+1, AR 3+1, AR 2+1, AR 0+1");
  PolicyParameters parameters;
  parameters.bundle = 9 * kMiB;
  EXPECT_EQ(text(model.make("horovod", parameters).queues[0]), "AR 4+1, AR 3+1, AR 3+1, AR 2+1, AR 0+1");
  parameters.bundle = 25 * kMiB;
  EXPECT_EQ(text(model.make("dear", parameters).queues[0]), "RS 4+1, RS 3+1, RS 0+3, AG 0+3, AG 3+1, AG 4+1");
  EXPECT_TRUE(model.make("dear").ahead);
  parameters.bundle = 0;
  EXPECT_EQ(text(model.make("dear-queue", parameters).queues[0]),
            "RS 4+1, RS 3+1, RS 2+1, RS 0+2, AG 0+2, AG 2+1, AG 3+1, AG 4+1");
  EXPECT_TRUE(model.make("dear-queue").barrier);
}

TEST(Policies, MgWfbpMergesWhatCouldNotBeginSooner) {
  // All-reducing 16 MiB takes 18.8 ms, so the next two layers' cannot begin before the third's gradients are ready.
  EXPECT_EQ(text(Model({{kMiB}, {kMiB}, {kMiB}, {16 * kMiB}}).make("mg-wfbp").queues[0]), "AR 3+1, AR 1+2, AR 0+1");
  // What is small goes with what comes next.
  EXPECT_EQ(text(Model({{kMiB}, {kMiB}, {1024}}).make("mg-wfbp").queues[0]), "AR 1+2, AR 0+1");
}

TEST(Policies, ByteSchedulerSendsFirstWhatIsNeededFirst) {
  PolicyParameters parameters;
  parameters.piece = 10 * kMiB;
  parameters.credit = 10 * kMiB; // one piece at a time
  const Model model({{kMiB}, {25 * kMiB}, {25 * kMiB}});
  // A piece takes 13.5 ms with its round: two of the last layer have gone when the first layer's are there.
  const std::vector<Collective> queue = byteSchedulerQueue(model.input(), parameters, 0);
  EXPECT_EQ(text(queue), "AR 2+1, AR 1+1, AR 0+1, AR 1+1, AR 1+1, AR 2+1, AR 2+1");
  for (const Collective &each : queue) {
    EXPECT_LE(each.end - each.begin, parameters.piece);
    EXPECT_EQ(each.rounds, kMs);
  }
}

/// Layers with tensors of any size, some without.
Model randomModel(std::mt19937_64 &random) {
  std::vector<std::vector<Bytes>> tensors(1 + random() % 12);
  for (std::vector<Bytes> &layer : tensors)
    for (size_t n = random() % 4; n != 0; --n)
      layer.push_back(Bytes(random() % (8 * kMiB)));
  return Model(tensors);
}

/// How often each byte of the stage is in a collective of these kinds.
bool coversOnce(const Exchange &exchange, const Model &model, bool gathers) {
  const Bytes all = offsetsOf(model.replicas.layers[0]).back();
  std::map<Bytes, int> changes{{0, 0}, {all, 0}};
  for (const Collective &each : exchange.queues[0])
    if (gathers ? each.kind != Kind::ReduceScatter : each.isSum()) {
      ++changes[each.begin];
      --changes[each.end];
    }
  int depth = 0;
  for (const auto &[at, change] : changes)
    if ((depth += change) != (at == all ? 0 : 1))
      return false;
  return all > 0 || exchange.queues[0].empty();
}

TEST(Policies, SumEachByteOnceAndGatherWhatIsNotSummedWhole) {
  std::mt19937_64 random(22);
  for (int n = 0; n != 500; ++n) {
    const Model model = randomModel(random);
    PolicyParameters parameters;
    parameters.bundle = Bytes(random() % (16 * kMiB));
    for (const Policy &policy : policies()) {
      const Exchange exchange = policy.make(model.input(), parameters);
      EXPECT_TRUE(coversOnce(exchange, model, false)) << policy.name << ": " << text(exchange.queues[0]);
      EXPECT_TRUE(coversOnce(exchange, model, true)) << policy.name << ": " << text(exchange.queues[0]);
    }
  }
}

TEST(InOrderOfNeed, SumsEachByteOnceAndGathersItBehindThat) {
  std::mt19937_64 random(23);
  for (int n = 0; n != 500; ++n) {
    const Model model = randomModel(random);
    Bundling bundling;
    StageBundles &stage = bundling.stages.emplace_back();
    stage.sums = stage.gathers = {0};
    for (int32_t layer = 1; layer < int32_t(model.replicas.layers[0].size()); ++layer) {
      if (random() % 2 == 0)
        stage.sums.push_back(layer);
      if (random() % 2 == 0)
        stage.gathers.push_back(layer);
    }
    for (size_t i = 0; i != stage.sums.size(); ++i)
      stage.whole.push_back(random() % 3 == 0);
    bundling.patience = int32_t(random() % 101);
    const Exchange exchange = inOrderOfNeed(model.input(), bundling, random() % 2 == 0);
    EXPECT_TRUE(coversOnce(exchange, model, false));
    EXPECT_TRUE(coversOnce(exchange, model, true));
    std::vector<bool> summed(model.replicas.layers[0].size());
    for (const Collective &each : exchange.queues[0])
      for (int32_t layer = each.firstLayer; layer <= each.lastLayer(); ++layer) {
        if (each.isSum())
          summed[size_t(layer)] = true;
        else
          EXPECT_TRUE(summed[size_t(layer)] || model.replicas.layers[0][size_t(layer)].gradients() == 0);
      }
  }
}

TEST(InOrderOfNeed, GivesWayToWhatIsNeededSooner) {
  const Model model({{kMiB}, {40 * kMiB}});
  Bundling bundling{{{{0, 1}, {0, 1}, {false, false}}}, 0};
  // The gather of 40 MiB takes 22 ms, and the first layer's sum would be ready before it ends.
  Model late = model;
  late.ready[0] = {50 * kMs, 10 * kMs};
  EXPECT_EQ(text(inOrderOfNeed(late.input(), bundling, false).queues[0]), "RS 1+1, AG 1+1, RS 0+1, AG 0+1");
  bundling.patience = 100;
  EXPECT_EQ(text(inOrderOfNeed(late.input(), bundling, false).queues[0]), "RS 1+1, RS 0+1, AG 0+1, AG 1+1");
}

} // namespace
