// A checkpoint's files: what is written is read again, what is not whole is not.
#include "runtime/checkpoint/Checkpoint.h"
#include "test/launch/TempFolder.h"
#include "test/plan/MakePlan.h"
#include "test/plan/MakeShards.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <sstream>
#include <sys/stat.h>

using namespace pipec;
using namespace pipec::runtime;
namespace fs = std::filesystem;

namespace {

class Checkpoint : public test::TempFolder {
protected:
  StateFile save(int64_t step, int32_t rank, const std::string &content) {
    return save({step, StateOf::Whose::Process, rank}, content);
  }
  StateFile save(const StateOf &of, const std::string &content) {
    std::string path;
    StateFile file;
    Status status = beginState(folder, of, path);
    std::ofstream(path) << content;
    if (status.ok())
      status = finishState(folder, of, file);
    EXPECT_TRUE(status.ok()) << status.message;
    return file;
  }
  Manifest write(int64_t step) {
    Manifest manifest{step, stagesOf(plan), {}};
    for (int32_t rank = 0; rank < plan.ranks(); ++rank)
      manifest.files.push_back(save(step, rank, "state of " + std::to_string(rank)));
    EXPECT_TRUE(writeManifest(folder, manifest).ok());
    return manifest;
  }

  std::string path(const std::string &name) const { return folder + "/" + name; }
  /// Reading the folder's manifest is an error of input that says so.
  void refused(const std::string &what) {
    Manifest read;
    const Status status = readManifest(folder, plan, read);
    EXPECT_EQ(status.code, Code::Input);
    EXPECT_NE(status.message.find(what), std::string::npos) << status.message;
  }
  /// The manifest's text with one change.
  void rewrite(const std::string &from, const std::string &to) {
    std::stringstream text;
    text << std::ifstream(path("manifest.json")).rdbuf();
    std::string changed = text.str();
    const size_t at = changed.find(from);
    ASSERT_NE(at, std::string::npos) << from << " in " << changed;
    std::ofstream(path("manifest.json")) << changed.replace(at, from.size(), to);
  }

  plan::Plan plan = plan::test::makePlan({});
};

TEST_F(Checkpoint, IsReadAsItWasWritten) {
  EXPECT_FALSE(hasManifest(folder));
  Manifest written = write(7), read;
  ASSERT_TRUE(readManifest(folder, plan, read).ok());
  EXPECT_EQ(read.step, 7);
  ASSERT_EQ(read.files.size(), 4u);
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(read.files[rank].hash, written.files[rank].hash);
    EXPECT_TRUE(checkState(folder, read.files[rank]).ok());
  }
}

TEST_F(Checkpoint, OfLayersDoesNotDependOnTheCut) {
  write(7); // of ranks
  Manifest written{9, {}, {}}, read;
  for (int32_t layer = 0; layer < 12; ++layer)
    written.files.push_back(save({9, StateOf::Whose::Layer, layer}, "layer " + std::to_string(layer)));
  ASSERT_TRUE(writeManifest(folder, written).ok());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 13);
  for (const std::vector<int32_t> &cut : {std::vector<int32_t>{3, 3, 3, 3}, {1, 2, 3, 6}, {7, 5}}) {
    plan.variants.front().cut = cut;
    ASSERT_TRUE(readManifest(folder, plan, read).ok());
    EXPECT_TRUE(read.ofLayers());
    EXPECT_EQ(read.step, 9);
    ASSERT_EQ(read.files.size(), 12u);
    EXPECT_EQ(read.files[11].name, "step-9-layer-11.state");
    EXPECT_TRUE(checkState(folder, read.files[11]).ok());
  }
  plan.variants.front().cut = {3, 3, 3, 2};
  EXPECT_NE(readManifest(folder, plan, read).message.find("is of 12 layers, the plan has 11"), std::string::npos);
  plan.variants.front().cut.clear();
  EXPECT_NE(readManifest(folder, plan, read).message.find("the plan does not say which layers its stages hold"),
            std::string::npos);
  save({11, StateOf::Whose::Layer, 0}, "of a checkpoint that was never finished");
  write(13); // of ranks again
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 5);
}

TEST_F(Checkpoint, OnlyTheLastOneStays) {
  write(7);
  save(9, 2, "of a checkpoint that was never finished");
  write(11);
  size_t files = 0;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder))
    files += entry.path().filename() == "manifest.json" || entry.path().filename().string().starts_with("step-11-")
                 ? 1
                 : 100;
  EXPECT_EQ(files, 5u);
}

// A process that is ahead has saved its next state before the manifest of the last one is written.
TEST_F(Checkpoint, LaterStatesStay) {
  StateFile ahead = save(14, 1, "of the next checkpoint");
  write(7);
  EXPECT_TRUE(checkState(folder, ahead).ok());
}

TEST_F(Checkpoint, AClearedFolderHasNothingToResumeFrom) {
  write(7);
  save(9, 2, "of a checkpoint that was never finished");
  std::ofstream(fs::path(folder) / "notes") << "not ours";
  ASSERT_TRUE(clearFolder(folder).ok());
  EXPECT_FALSE(hasManifest(folder));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
  EXPECT_TRUE(clearFolder(folder).ok()); // as it was
}

TEST_F(Checkpoint, AFolderIsOneRunsAtATime) {
  {
    FolderHold one, other;
    ASSERT_TRUE(one.take(folder).ok());
    Status status = other.take(folder);
    EXPECT_EQ(status.code, Code::Run);
    EXPECT_NE(status.message.find("another run has its checkpoints in " + folder), std::string::npos);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 0);
  FolderHold later;
  EXPECT_TRUE(later.take(folder).ok());
}

TEST_F(Checkpoint, AFolderIsNoManifest) {
  fs::create_directory(fs::path(folder) / "manifest.json");
  Manifest read;
  const Status status = readManifest(folder, plan, read);
  EXPECT_EQ(status.code, Code::Input);
  EXPECT_NE(status.message.find("there is no checkpoint to resume from"), std::string::npos) << status.message;
}

// What others may put in place of a manifest or a state: none of it is waited for, followed or written through.
TEST_F(Checkpoint, WhatIsNoRegularFileIsRefused) {
  const Manifest manifest = write(7);
  const std::string state = path(manifest.files[1].name);
  for (const auto &[name, what] :
       {std::pair{path("manifest.json"), "there is no checkpoint to resume from: "},
        std::pair{state, "the checkpoint's manifest names this file, which cannot be read: "}}) {
    const auto says = [&, what = std::string(what)](const char *kind) {
      if (name == path("manifest.json"))
        return refused(what + kind);
      const std::string message = checkState(folder, manifest.files[1]).message;
      EXPECT_NE(message.find(what + kind), std::string::npos) << message;
    };
    fs::rename(name, path("elsewhere"));
    says("No such file or directory");
    fs::create_symlink(path("elsewhere"), name);
    says("is a link, expected a file");
    EXPECT_TRUE(hasManifest(folder));
    fs::remove(name);
    ASSERT_EQ(mkfifo(name.c_str(), 0600), 0);
    says("is a FIFO, expected a file");
    fs::remove(name);
    fs::create_directory(name);
    says("is a directory, expected a file");
    fs::remove(name);
    fs::rename(path("elsewhere"), name);
  }
  EXPECT_TRUE(checkState(folder, manifest.files[1]).ok());
  fs::remove(path("manifest.json"));
  fs::create_symlink("/dev/zero", path("manifest.json"));
  refused("is a link, expected a file");
}

TEST_F(Checkpoint, LinksAreReplacedNotWritten) {
  std::ofstream(path("victim")) << "as it was";
  fs::create_symlink(path("victim"), path("step-7-rank-0.state.partial"));
  fs::create_symlink(path("victim"), path("step-7-rank-1.state"));
  fs::create_symlink(path("victim"), path("manifest.json"));
  fs::create_symlink(path("victim"), path("manifest.json.partial"));
  const Manifest manifest = write(7);
  for (const StateFile &file : manifest.files)
    EXPECT_TRUE(checkState(folder, file).ok());
  Manifest read;
  EXPECT_TRUE(readManifest(folder, plan, read).ok());
  std::string content;
  std::getline(std::ifstream(path("victim")), content);
  EXPECT_EQ(content, "as it was");
  // What takes the place of a state while it is written is not saved.
  std::string partial;
  StateFile file;
  ASSERT_TRUE(beginState(folder, {.step = 9}, partial).ok());
  fs::remove(partial);
  fs::create_symlink(path("victim"), partial);
  EXPECT_NE(finishState(folder, {.step = 9}, file).message.find("is a link, expected a file"), std::string::npos);
}

TEST_F(Checkpoint, WhatKilledRunsBeganGoes) {
  for (const char *name : {"manifest.json.4711-0", "manifest.json.partial", "step-5-rank-1.state.partial"})
    std::ofstream(path(name)) << "begun";
  write(7);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 5);
}

TEST_F(Checkpoint, NumbersAreTakenAsTheyStand) {
  for (const auto &[from, to] :
       std::vector<std::pair<std::string, std::string>>{{"\"step\": 7", "\"step\": 12.7"},
                                                        {"\"step\": 7", "\"step\": 1e300"},
                                                        {"\"step\": 7", "\"step\": true"},
                                                        {"\"step\": 7", "\"step\": -1"},
                                                        {"\"step\": 7", "\"step\": 9223372036854775807"},
                                                        {"\"step\": 7", "\"step\": 7, \"replicas\": 4294967297"},
                                                        {"\"step\": 7", "\"step\": 7, \"shards\": 0"},
                                                        {"\"bytes\": 10", "\"bytes\": 18446744073709551615"},
                                                        {"\"bytes\": 10", "\"bytes\": 10.5"},
                                                        {"step-7-rank-0.state", "../step-7-rank-0.state"},
                                                        {"step-7-rank-0.state", "step-7-\\u001b[31m.state"},
                                                        {"step-7-rank-0.state", ".."},
                                                        {"{", "[{"}}) {
    SCOPED_TRACE(to);
    write(7);
    rewrite(from, to);
    refused("is damaged");
  }
  // As many files as ranks, replicas and shards, were the product not cut to 64 bits.
  write(7);
  rewrite("\"step\": 7", "\"step\": 7, \"replicas\": 2147483647, \"shards\": 2147483647");
  refused("is damaged");
}

TEST_F(Checkpoint, AManifestIsNoLargerThanThePlanAllows) {
  write(7);
  std::ofstream(path("manifest.json")) << std::string(100'000, '[');
  refused("is damaged");
  std::ofstream(path("manifest.json"));
  fs::resize_file(path("manifest.json"), uintmax_t(1) << 32); // takes no space
  refused("is longer than");
}

TEST_F(Checkpoint, SumsOfLayersAndUnitsAreWithinBounds) {
  plan::test::Sharded how;
  how.make.ranks = 2;
  plan = plan::test::makeShards(how);
  Manifest manifest{7, stagesOf(plan), {}};
  manifest.shards = plan.shards();
  for (int32_t process = 0; process < plan.world(); ++process) {
    manifest.files.push_back(save({7, StateOf::Whose::Process, process, plan::gridOf(plan)}, "state"));
    std::vector<OwnedUnits> &own = manifest.owned.emplace_back();
    const plan::Place place = plan::placeOf(process, plan);
    for (const plan::Portion &portion : plan.variants.front().portions)
      if (portion.stage == place.rank && portion.shard == place.shard)
        own.push_back({portion.stage,
                       portion.firstLayer,
                       portion.layers,
                       portion.split,
                       portion.units,
                       {{portion.owned.front().first, portion.owned.front().count}}});
  }
  ASSERT_TRUE(writeManifest(folder, manifest).ok());
  Manifest read;
  const Status status = readManifest(folder, plan, read);
  ASSERT_TRUE(status.ok()) << status.message;
  const auto damaged = [&](const std::function<void(OwnedUnits &)> &change) {
    Manifest changed = manifest;
    change(changed.owned.at(1).at(0));
    ASSERT_TRUE(writeManifest(folder, changed).ok());
    refused("is damaged");
  };
  damaged([](OwnedUnits &own) { own.first_layer = own.layers = INT32_MAX; });
  damaged([](OwnedUnits &own) { own.layers = INT32_MAX; });
  damaged([](OwnedUnits &own) { own.layers = 0; });
  damaged([](OwnedUnits &own) { own.first_layer = -1; });
  damaged([](OwnedUnits &own) { own.stage = -1; });
  damaged([](OwnedUnits &own) { own.owned = {{1, INT64_MAX}}; });
  damaged([](OwnedUnits &own) { own.owned = {{2, 1}, {1, 1}}; });
  // Nothing is made for each layer that a manifest names: a thousand splits of a million layers each.
  Manifest changed = manifest;
  for (int i = 0; i < 1000; ++i)
    changed.owned[0].push_back({0, 0, 1 << 20, "split " + std::to_string(i), 4, {}});
  ASSERT_TRUE(writeManifest(folder, changed).ok());
  refused("splits the layers of its stages in another way");
}

TEST_F(Checkpoint, StatesWithoutAManifestAreNone) {
  save(3, 0, "x");
  Manifest read;
  EXPECT_NE(readManifest(folder, plan, read).message.find("there is no checkpoint to resume from"), std::string::npos);
}

TEST_F(Checkpoint, AStateThatChangedIsNoticed) {
  Manifest manifest = write(2);
  std::ofstream(fs::path(folder) / manifest.files[1].name) << "state of 9";
  Status status = checkState(folder, manifest.files[1]);
  EXPECT_EQ(status.code, Code::Input);
  EXPECT_NE(status.message.find("is not what was saved: it has 10 bytes"), std::string::npos) << status.message;
}

TEST_F(Checkpoint, OtherStagesOnTheRanksAreRefused) {
  write(2);
  Manifest read;
  plan::test::Make make;
  make.stagesPerRank = 2;
  EXPECT_NE(readManifest(folder, plan::test::makePlan(make), read).message.find("in another way"), std::string::npos);
}

} // namespace
