// What every transport promises of the collectives of layers, between the replicas of one rank.
#include "test/conformance/Implementations.h"

#include <cstring>
#include <deque>

using namespace pipec;
using namespace pipec::runtime;
using namespace pipec::test;

namespace {

constexpr QueueId kQueue = 1;

/// Layers whose numbers fill no share evenly, one of which has fewer than there are replicas.
struct OfLayer {
  int64_t elements;
  Number type;
};
constexpr OfLayer kLayers[] = {{1003, Number::Float32}, {2, Number::Float64}, {300'001, Number::Float32}};
constexpr plan::Bytes kBytes = 1003 * 4 + 2 * 8 + 300'001 * 4;

class ReplicasConformance : public Conformance<TransportImplementation> {
protected:
  void SetUp() override {
    Conformance::SetUp();
    if (!IsSkipped() && !GetParam().exchanges)
      GTEST_SKIP() << GetParam().name << " has no collectives of layers";
  }

  /// `count` replicas of one rank. Replica r's gradient e is (e + 1) mod 13 + r, its weight e + 1000 r.
  void make(int32_t count, plan::Time deadline = 0) {
    replicas.clear();
    plan = {};
    plan::Variant &variant = plan.variants.emplace_back();
    variant.stages = variant.microbatches = 1;
    plan::Program &program = variant.programs.emplace_back();
    program.stages = {0};
    program.queues = {{}, {plan::QueueKind::Communicator, plan::Priority::Compute}};
    plan.groups.resize(1);
    for (int32_t r = 0; r < count; ++r) {
      plan.groups[0].members.push_back(r);
      plan.processes.push_back({0, r, 0});
    }
    for (const plan::Kind kind : {plan::Kind::AllReduce, plan::Kind::ReduceScatter, plan::Kind::AllGather}) {
      program.instructions.push_back({uint32_t(program.operations.size()), kQueue});
      program.operations.push_back(of(kind, 0, 3));
    }
    program.step = {{0, 3, 1}};
    replicas = GetParam().make(plan, deadline);
    issued.assign(replicas.size(), {});
    layers.clear();
    summands.clear();
    for (int32_t r = 0; r < count; ++r) {
      layers.push_back(layersOf(r));
      summands.push_back(&replicas[size_t(r)]->layers(layers.back()));
    }
  }
  std::vector<LayerMemory> layersOf(int32_t replica) {
    Device &device = replicas[size_t(replica)]->device();
    std::vector<LayerMemory> made;
    for (const auto &[elements, type] : kLayers) {
      const plan::Bytes bytes = elements * sizeOf(type);
      made.push_back({device.allocate(bytes), device.allocate(bytes), elements, type, {0, bytes, bytes, false}});
      write(replica, made.back(), made.back().gradients, [&](int64_t e) { return double((e + 1) % 13 + replica); });
      write(replica, made.back(), made.back().weights, [&](int64_t e) { return double(e + 1000 * replica); });
    }
    return made;
  }
  template <typename Value> void write(int32_t replica, const LayerMemory &layer, std::byte *to, Value value) {
    std::vector<std::byte> bytes(size_t(layer.elements * sizeOf(layer.type)));
    for (int64_t e = 0; e < layer.elements; ++e)
      if (layer.type == Number::Float64) {
        const double number = value(e);
        std::memcpy(bytes.data() + 8 * e, &number, 8);
      } else {
        const float number = float(value(e));
        std::memcpy(bytes.data() + 4 * e, &number, 4);
      }
    replicas[size_t(replica)]->device().write({to, plan::Bytes(bytes.size())}, bytes.data());
  }
  std::vector<double> read(int32_t replica, const LayerMemory &layer, std::byte *from) {
    const std::vector<std::byte> bytes =
        bytesOf(replicas[size_t(replica)]->device(), {from, layer.elements * sizeOf(layer.type)});
    std::vector<double> numbers;
    for (int64_t e = 0; e < layer.elements; ++e) {
      float small = 0;
      double number = 0;
      std::memcpy(&small, bytes.data() + 4 * e, 4);
      if (layer.type == Number::Float64)
        std::memcpy(&number, bytes.data() + 8 * e, 8);
      numbers.push_back(layer.type == Number::Float64 ? number : double(small));
    }
    return numbers;
  }

  static plan::Operation of(plan::Kind kind, int32_t first, int32_t count,
                            plan::Payload what = plan::Payload::Gradients) {
    plan::Operation operation{kind, what};
    operation.group = 0;
    operation.firstLayer = first;
    operation.layers = count;
    for (int32_t l = 0; l < first + count; ++l) {
      const plan::Bytes bytes = kLayers[l].elements * sizeOf(kLayers[l].type);
      (l < first ? operation.begin : operation.end) += bytes;
    }
    operation.end += operation.begin;
    return operation;
  }
  static plan::Operation piece(plan::Bytes begin, plan::Bytes end) {
    plan::Operation operation = of(plan::Kind::AllReduce, 0, 3);
    operation.begin = begin;
    operation.end = end;
    return operation;
  }
  void issue(int32_t replica, const plan::Operation &operation, int64_t step = 0) {
    RankUnderTest &process = *replicas[size_t(replica)];
    const plan::Operation &own = operations.emplace_back(operation);
    process.transport().exchange(kQueue, {&own, 0, step, 0}, *summands[size_t(replica)]);
    issued[size_t(replica)].add(process.device(), kQueue);
  }
  void all(std::initializer_list<const plan::Operation *> several) {
    for (size_t r = 0; r < replicas.size(); ++r)
      for (const plan::Operation *operation : several)
        issue(int32_t(r), *operation);
    for (size_t r = 0; r < replicas.size(); ++r)
      ASSERT_TRUE(done(int32_t(r), int64_t(several.size()))) << replicas[r]->failure().status().message;
  }
  bool done(int32_t replica, int64_t count) {
    return issued[size_t(replica)].synchronize(replicas[size_t(replica)]->device(), kQueue, count);
  }
  int64_t count() const { return int64_t(replicas.size()); }
  /// Of the gradients; of all elements, or of each replica's share.
  void expectSums(bool ofShares) {
    for (int32_t r = 0; r < count(); ++r)
      for (const LayerMemory &layer : layers[size_t(r)]) {
        const std::vector<double> found = read(r, layer, layer.gradients);
        const int64_t first = ofShares ? layer.elements * r / count() : 0;
        const int64_t last = ofShares ? layer.elements * (r + 1) / count() : layer.elements;
        for (int64_t e = first; e < last; ++e)
          ASSERT_EQ(found[size_t(e)], double(count() * ((e + 1) % 13) + count() * (count() - 1) / 2))
              << "element " << e << " of " << layer.elements << " at replica " << r;
      }
  }

  plan::Plan plan;
  std::deque<plan::Operation> operations; // a device may look at what was issued until it is gone
  std::vector<std::unique_ptr<RankUnderTest>> replicas;
  std::vector<Issued> issued;
  std::vector<std::vector<LayerMemory>> layers; // by replica
  std::vector<Summand *> summands;              // likewise
};

TEST_P(ReplicasConformance, AnAllReduceLeavesAllSumsEverywhere) {
  const plan::Operation whole = of(plan::Kind::AllReduce, 0, 3);
  for (const int32_t replicas : {2, 3, 4}) {
    make(replicas);
    all({&whole});
    expectSums(false);
  }
}

TEST_P(ReplicasConformance, AReduceScatterLeavesEachItsShareAndAGatherTheRest) {
  const plan::Operation scatter = of(plan::Kind::ReduceScatter, 0, 3), gather = of(plan::Kind::AllGather, 0, 3);
  for (const int32_t replicas : {2, 3, 4}) {
    make(replicas);
    all({&scatter});
    expectSums(true);
    make(replicas);
    all({&scatter, &gather});
    expectSums(false);
  }
}

TEST_P(ReplicasConformance, WeightsAreGatheredFromTheirShares) {
  const plan::Operation gather = of(plan::Kind::AllGather, 1, 2, plan::Payload::Weights);
  make(3);
  all({&gather});
  for (int32_t r = 0; r < 3; ++r)
    for (size_t l = 0; l < 3; ++l) {
      const LayerMemory &layer = layers[size_t(r)][l];
      const std::vector<double> found = read(r, layer, layer.weights);
      for (int64_t e = 0, owner = 0; e < layer.elements; ++e) {
        while (e >= layer.elements * (owner + 1) / 3)
          ++owner;
        ASSERT_EQ(found[size_t(e)], double(e + 1000 * (l == 0 ? r : owner))) << "element " << e << " of layer " << l;
      }
    }
}

TEST_P(ReplicasConformance, PiecesAndLayersComeTogetherToTheWhole) {
  const plan::Operation one = piece(0, 4001), two = piece(4001, 700'003), three = piece(700'003, kBytes);
  make(3);
  all({&one, &two, &three});
  expectSums(false);
  const plan::Operation last = of(plan::Kind::ReduceScatter, 2, 1), first = of(plan::Kind::AllReduce, 0, 2),
                        back = of(plan::Kind::AllGather, 2, 1);
  make(4);
  all({&last, &first, &back});
  expectSums(false);
}

/// Sums that round: what is summed first shows in the last bit.
TEST_P(ReplicasConformance, BitsDoNotDependOnBundlesNorOnTheKind) {
  const plan::Operation whole = of(plan::Kind::AllReduce, 0, 3);
  const plan::Operation scatter = of(plan::Kind::ReduceScatter, 0, 2), gather = of(plan::Kind::AllGather, 0, 2),
                        other = of(plan::Kind::AllReduce, 2, 1);
  std::vector<std::vector<double>> found;
  for (const bool together : {true, false}) {
    make(4);
    for (int32_t r = 0; r < 4; ++r)
      for (const LayerMemory &layer : layers[size_t(r)])
        write(r, layer, layer.gradients, [&](int64_t e) { return 1.0 / double(3 + e + 7 * r); });
    if (together)
      all({&whole});
    else
      all({&scatter, &other, &gather});
    for (int32_t r = 0; r < 4; ++r)
      for (const LayerMemory &layer : layers[size_t(r)])
        found.push_back(read(r, layer, layer.gradients));
  }
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(found[i], found[i % 3]);
}

TEST_P(ReplicasConformance, AReplicaThatIsLostEndsAll) {
  if (!GetParam().noticesLoss)
    GTEST_SKIP() << GetParam().name << " has no connection to lose";
  const plan::Operation whole = of(plan::Kind::AllReduce, 0, 3);
  make(4);
  for (const int32_t r : {0, 1, 3})
    issue(r, whole);
  replicas[2]->vanish();
  for (const int32_t r : {1, 3}) // its neighbours
    EXPECT_FALSE(done(r, 1));
  const std::string message = replicas[3]->failure().status().message;
  EXPECT_NE(
      message.find("rank 0 replica 3: all_reduce gradients stage 0 layers 0 to 2 bytes 0 to 1204031 group 0: lost "
                   "rank 0 replica 2"),
      std::string::npos)
      << message;
}

TEST_P(ReplicasConformance, AReplicaThatDoesNotComeIsNamedAtTheDeadline) {
  if (!GetParam().knowsAbsent)
    GTEST_SKIP() << GetParam().name << " does not know who is absent";
  const plan::Operation whole = of(plan::Kind::ReduceScatter, 1, 1);
  std::string message;
  for (const plan::Time deadline : {1, 10, 100}) { // seconds: one may be too short for the others to say that they came
    make(4, deadline * 1'000'000'000'000);
    for (const int32_t r : {0, 1, 3})
      issue(r, whole);
    for (const int32_t r : {0, 1, 3})
      EXPECT_FALSE(done(r, 1));
    message = replicas[3]->failure().status().message;
    if (message.find("layer 1 group 0: rank 0 replica 2 did not come to it within") != std::string::npos)
      break;
  }
  EXPECT_NE(message.find("layer 1 group 0: rank 0 replica 2 did not come to it within"), std::string::npos) << message;
}

TEST_P(ReplicasConformance, AReplicaAtAnotherCollectiveEndsAll) {
  if (!GetParam().comparesTags)
    GTEST_SKIP() << GetParam().name << " has no tags";
  const plan::Operation first = of(plan::Kind::AllReduce, 0, 1), last = of(plan::Kind::AllReduce, 2, 1);
  make(2);
  issue(0, first);
  issue(1, last);
  for (const int32_t r : {0, 1})
    EXPECT_FALSE(done(r, 1));
  const std::string message = replicas[0]->failure().status().message + replicas[1]->failure().status().message;
  EXPECT_NE(message.find("is at the all_reduce of gradients of stage 0 from byte"), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(All, ReplicasConformance, testing::ValuesIn(transportImplementations()),
                         [](const auto &info) { return info.param.name; });

} // namespace
