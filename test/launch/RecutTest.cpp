// What the controller and its processes say to each other where the layers of the model are cut anew.
#include "runtime/plan/Write.h"
#include "runtime/simulate/Simulate.h"
#include "test/launch/Played.h"
#include "test/launch/TempFolder.h"

#include <filesystem>
#include <fmt/format.h>

using namespace pipec;
using namespace pipec::runtime;
using pipec::test::kLong;
using pipec::test::kShort;
using pipec::test::Played;

namespace {

class Recutting : public test::TempFolder {
protected:
  /// A plan of two ranks with this cut, in a file.
  std::string planOf(const std::vector<int32_t> &cut) {
    plan::test::Make make;
    make.ranks = 2;
    plan::Plan plan = plan::test::makePlan(make);
    plan::Variant &variant = plan.variants.front();
    variant.cut = cut;
    simulate::Result result;
    EXPECT_TRUE(simulate::simulate(variant, {}, result).ok());
    variant.certificate.makespan = result.makespan;
    std::string path = folder + "/new.pipe";
    EXPECT_TRUE(plan::writeFile(path, plan::encode(plan)).ok());
    return path;
  }
  static auto into(Played::Answer &answer) {
    return [&answer](Status status, std::optional<Epoch> epoch) { answer = {true, std::move(status), epoch}; };
  }
  /// Asks for a new cut, and plays the processes up to the permit under it.
  void cutAnew(Played &p, const std::vector<int32_t> &cut, Played::Answer &answer) {
    p.controller->swaps().recut(planOf(cut), "new", into(answer));
    ASSERT_TRUE(p.hears(0, "prepare"));
    p.allSay(p.prepared(p.last(0, "prepare").at("program")));
    const int64_t needed = p.last(0, "permit").at("until");
    p.say(0, {{"type", "progress"}, {"step", needed - 1}, {"needs", needed}});
    ASSERT_TRUE(p.until([&] { return answer.came; })) << answer.status.message;
  }
  Message saved(int64_t step, const std::vector<int32_t> &layers) {
    std::vector<std::pair<int32_t, StateFile>> states;
    for (const int32_t layer : layers)
      states.push_back({layer, {fmt::format("step-{}-layer-{}.state", step, layer), 3, "abc"}});
    return {{"type", "saved"}, {"step", step}, {"states", states}, {"layers", true}, {"recuts", true}};
  }
};

TEST_F(Recutting, LayersGoWhereTheirNewRankCanLoadThem) {
  Played p(2, kLong, 1'000'000, folder);
  p.meet();
  Played::Answer answer;
  cutAnew(p, {3, 5}, answer);
  ASSERT_TRUE(answer.status.ok()) << answer.status.message;
  ASSERT_TRUE(answer.epoch);
  const int64_t step = answer.epoch->from;
  EXPECT_EQ(p.controller->status().at("cut"), (std::vector<int32_t>{3, 5}));
  p.say(0, saved(step, {0, 1, 2, 3}));
  p.say(1, saved(step, {4, 5, 6, 7}));
  ASSERT_TRUE(p.hears(0, "layers"));
  ASSERT_TRUE(p.hears(1, "layers"));
  const Message all = p.last(1, "layers").at("checkpoint");
  EXPECT_EQ(all.at("step"), step);
  EXPECT_TRUE(all.at("stages").empty());
  ASSERT_EQ(all.at("files").size(), 8u);
  EXPECT_EQ(all.at("files").at(5).at("name"), fmt::format("step-{}-layer-5.state", step));
  Manifest manifest;
  ASSERT_TRUE(readManifest(folder, *p.controller->plan(), manifest).ok());
  EXPECT_TRUE(manifest.ofLayers());
  EXPECT_EQ(p.controller->result().checkpoint, step);

  // What the run began with needs the stages that are gone; the same cut again moves nothing.
  Played::Answer back;
  p.swap("second", back);
  ASSERT_TRUE(p.until([&] { return back.came; }));
  EXPECT_EQ(back.status.message, "the plan cuts the layers 4-4, the one that runs 3-5: weights do not move");
  EXPECT_EQ(p.controller->swaps().recuts().size(), 1u);
}

TEST_F(Recutting, ARankThatDoesNotSaveItsLayersIsNamed) {
  Played p(2, kShort, 1'000'000, folder);
  p.meet();
  Played::Answer answer;
  cutAnew(p, {5, 3}, answer);
  ASSERT_TRUE(answer.epoch);
  p.say(0, saved(answer.epoch->from, {0, 1, 2, 3}));
  ASSERT_TRUE(p.until([&] { return p.controller->failing(); }));
  EXPECT_EQ(
      p.controller->outcome().message,
      "rank 1 did not save its layers within 1 s: rank 1 does not answer: its process stands still, or its machine "
      "does");
  EXPECT_FALSE(hasManifest(folder));
}

TEST_F(Recutting, APlanOfOtherLayersOrOfNoneIsRefused) {
  Played p(2, kLong, 1'000'000, folder);
  p.meet();
  for (const auto &[cut, why] : std::vector<std::pair<std::vector<int32_t>, std::string>>{
           {{4, 5}, "the plan is of 9 layers, the one that runs of 8"},
           {{}, "the plan does not say which layers its stages hold: its spec has no layers"}}) {
    Played::Answer answer;
    p.controller->swaps().recut(planOf(cut), "new", into(answer));
    ASSERT_TRUE(p.until([&] { return answer.came; }));
    EXPECT_EQ(answer.status.message, why);
  }
  Played::Answer loaded;
  p.controller->swaps().load(planOf({3, 5}), into(loaded));
  ASSERT_TRUE(p.until([&] { return loaded.came; }));
  EXPECT_EQ(loaded.status.message, "the plan cuts the layers 3-5, the one that runs 4-4: weights do not move");
  EXPECT_TRUE(p.last(0, "prepare").is_null()); // no process was asked
}

} // namespace
