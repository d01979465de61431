// A checkpoint's files: what is written is read again, what is not whole is not.
#include "runtime/launch/Checkpoint.h"
#include "test/launch/TempFolder.h"
#include "test/plan/MakePlan.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

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
    std::ofstream(statePath(folder, of)) << content;
    StateFile file;
    Status status = finishState(folder, of, file);
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
