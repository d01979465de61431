// A model whose layers are saved under one cut into stages and loaded under another trains on bit for bit as if it had
// never been cut: what a run that cuts anew rests on (Stage::saveLayer). The ranks' calls are made here one by one.
#include "runtime/plan/Layers.h"
#include "runtime/plan/Provider.h"
#include "test/conformance/Implementations.h"
#include "test/runtime/Plans.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

using namespace pipec;
using namespace pipec::runtime;
using namespace pipec::test;
using plan::Kind;

namespace {

using Cut = std::vector<int32_t>;
constexpr int64_t kMicrobatches = 3;
constexpr int32_t kLayers = 6;

class RecutConformance : public StageSuite {
protected:
  plan::Plan planOf(const Cut &cut) const {
    Pipeline pipeline;
    pipeline.ranks = int32_t(cut.size());
    pipeline.microbatches = kMicrobatches;
    pipeline.bytes = GetParam().boundary;
    pipeline.forward = pipeline.backward = pipeline.optimizer = 0;
    plan::Plan plan = makePlan(pipeline);
    plan.variants.front().cut = cut;
    EXPECT_TRUE(plan::providerOf(GetParam().provider, plan.provider).ok());
    return plan;
  }
  std::string pathOf(const std::string &state, int32_t layer) const {
    return (folder / (state + "-" + std::to_string(layer))).string();
  }
  std::string bytesOf(const std::string &state) const {
    std::string all;
    for (int32_t layer = 0; layer < kLayers; ++layer) {
      std::ifstream file(pathOf(state, layer), std::ios::binary);
      EXPECT_TRUE(file) << pathOf(state, layer);
      all.append(std::istreambuf_iterator<char>(file), {});
    }
    return all;
  }

  /// All ranks of a cut, a stage each.
  struct Model {
    Model(const StageImplementation &implementation, const plan::Plan &plan) : plan(plan) {
      for (int32_t r = 0; r < plan.ranks(); ++r) {
        ranks.push_back(implementation.make(plan, r));
        auto slot = [&] {
          return Slot{ranks.back()->device().allocate(implementation.boundary), implementation.boundary};
        };
        buffers.push_back({slot(), slot()});
        counts.push_back(0);
      }
    }
    void call(size_t rank, Kind kind, int64_t microbatch, int64_t step) {
      const auto &operations = plan.variants.front().programs[rank].operations;
      const auto op = std::find_if(operations.begin(), operations.end(), [&](const auto &o) { return o.kind == kind; });
      ASSERT_NE(op, operations.end());
      // In the boundary before a stage its input lies, and then what goes back across it.
      const Slot before = rank > 0 ? buffers[rank].in : Slot{};
      const Slot after = rank + 1 < ranks.size() ? buffers[rank].out : Slot{};
      StageSlots slots;
      if (kind == Kind::Forward)
        slots = {before, after};
      if (kind == Kind::Backward)
        slots = {after, before};
      ranks[rank]->stage().issue(0, {&*op, microbatch, step, 0}, slots);
      ranks[rank]->device().issued(0, true);
      ASSERT_TRUE(ranks[rank]->device().synchronize(0, ++counts[rank])) << ranks[rank]->failure().status().message;
      const auto cross = [&](const Slot &from, size_t to, const Slot &slot) {
        ranks[to]->device().write(slot, test::bytesOf(ranks[rank]->device(), from).data());
      };
      if (kind == Kind::Forward && after.data)
        cross(after, rank + 1, buffers[rank + 1].in);
      if (kind == Kind::Backward && before.data)
        cross(before, rank - 1, buffers[rank - 1].out);
    }
    void train(int64_t from, int64_t to) {
      for (int64_t step = from; step < to; ++step) {
        for (int64_t m = 0; m < kMicrobatches; ++m) {
          for (size_t r = 0; r < ranks.size(); ++r)
            call(r, Kind::Forward, m, step);
          for (size_t r = ranks.size(); r-- > 0;)
            call(r, Kind::Backward, m, step);
        }
        for (size_t r = 0; r < ranks.size(); ++r)
          call(r, Kind::Optimizer, 0, step);
      }
    }
    /// Every layer, by the rank that holds it.
    template <typename Use> void eachLayer(Use use) {
      for (size_t r = 0; r < ranks.size(); ++r) {
        const plan::Layers layers = plan::layersOf(plan.variants.front(), int32_t(r));
        for (int32_t layer = layers.first; layer < layers.first + layers.count; ++layer) {
          const Status status = use(ranks[r]->stage(), layer);
          EXPECT_TRUE(status.ok()) << status.message;
        }
      }
    }

    struct Buffers {
      Slot in, out;
    };
    plan::Plan plan;
    std::vector<std::unique_ptr<StageUnderTest>> ranks;
    std::vector<Buffers> buffers;
    std::vector<int64_t> counts;
  };

  void save(Model &model, const std::string &state, int64_t steps) {
    model.eachLayer([&](Stage &stage, int32_t layer) { return stage.saveLayer(layer, pathOf(state, layer), steps); });
  }
  void load(Model &model, const std::string &state, int64_t steps) {
    model.eachLayer([&](Stage &stage, int32_t layer) { return stage.loadLayer(layer, pathOf(state, layer), steps); });
  }
};

TEST_P(RecutConformance, AModelThatIsCutAnewTrainsOnAsIfItHadNotBeen) {
  plan::Plan whole = planOf({kLayers});
  Model uncut(GetParam(), whole);
  ASSERT_TRUE(uncut.ranks.front()->stage().savesLayers());
  save(uncut, "uncut-0", 0);
  uncut.train(0, 2);
  save(uncut, "uncut-2", 2);
  uncut.train(2, 4);
  save(uncut, "uncut-4", 4);
  uncut.train(4, 6);
  save(uncut, "uncut-6", 6);
  if (GetParam().trains) {
    EXPECT_NE(bytesOf("uncut-2"), bytesOf("uncut-4"));
  }

  const std::vector<Cut> cuts = {{1, 2, 3}, {4, 1, 1}, {3, 3}};
  for (size_t i = 0; i < cuts.size(); ++i) {
    const auto from = int64_t(2 * i);
    Model cut(GetParam(), planOf(cuts[i]));
    if (from > 0)
      load(cut, "cut-" + std::to_string(from), from);
    cut.train(from, from + 2);
    const std::string now = std::to_string(from + 2);
    save(cut, "cut-" + now, from + 2);
    EXPECT_EQ(bytesOf("cut-" + now), bytesOf("uncut-" + now)) << "after " << now << " steps";
  }
}

// Where nothing was trained too: the weights that a model begins with do not depend on its cut.
TEST_P(RecutConformance, AModelBeginsTheSameUnderEveryCut) {
  Model one(GetParam(), planOf({kLayers})), other(GetParam(), planOf({1, 4, 1}));
  ASSERT_TRUE(one.ranks.front()->stage().savesLayers());
  save(one, "one", 0);
  save(other, "other", 0);
  EXPECT_EQ(bytesOf("one"), bytesOf("other"));
}

INSTANTIATE_TEST_SUITE_P(All, RecutConformance, testing::ValuesIn(stageImplementations()),
                         [](const auto &info) { return info.param.name; });

} // namespace
