// Checkpoints that a host makes: which one a run resumes from, and what is removed.
#include "runtime/checkpoint/StepFolders.h"
#include "test/launch/TempFolder.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <memory>
#include <set>

using namespace pipec;
using namespace pipec::runtime;
namespace fs = std::filesystem;

namespace {

class StepFolders : public test::TempFolder {
protected:
  void make(const std::string &name) {
    fs::create_directory(fs::path(folder) / name);
    std::ofstream(fs::path(folder) / name / "manifest.json") << "{}";
  }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const fs::directory_entry &entry : fs::directory_iterator(folder))
      found.insert(entry.path().filename().string());
    return found;
  }
  Status open(const FolderUse &use, std::optional<int64_t> &resume) {
    hold = std::make_unique<FolderHold>();
    return openStepFolders(folder, use, *hold, resume);
  }

  std::unique_ptr<FolderHold> hold;
};

TEST_F(StepFolders, TheHighestStepIsResumed) {
  for (const char *name : {"step-00000009", "step-00000010", "step-00000011.partial", "step-12x", "step-", "other"})
    make(name);
  std::ofstream(fs::path(folder) / "step-00000013") << "no folder";
  fs::create_directory_symlink(fs::path(folder) / "other", fs::path(folder) / "step-00000014");
  std::optional<int64_t> resume;
  ASSERT_TRUE(open({.resumes = true}, resume).ok());
  EXPECT_EQ(resume, 10);
  EXPECT_EQ(fs::path(stepFolder(folder, 10)).filename(), "step-00000010");
  EXPECT_EQ(names().count("step-00000011.partial"), 0u); // of a run that died
  EXPECT_EQ(names().count("step-12x"), 1u);
}

TEST_F(StepFolders, WithoutOneTheRunBegins) {
  std::optional<int64_t> resume;
  EXPECT_TRUE(open({.resumes = true}, resume).ok());
  EXPECT_FALSE(resume);
  EXPECT_TRUE(open({}, resume).ok());
}

TEST_F(StepFolders, OneOfWhichNothingWasSaidStays) {
  make("step-00000009");
  std::optional<int64_t> resume;
  const Status status = open({}, resume);
  EXPECT_EQ(status.code, Code::Usage);
  EXPECT_NE(status.message.find("has a checkpoint: go on from it with --resume"), std::string::npos) << status.message;
  EXPECT_EQ(names().count("step-00000009"), 1u);
  ASSERT_TRUE(open({.overwrites = true}, resume).ok());
  EXPECT_FALSE(resume);
  make("step-00000010");
  ASSERT_TRUE(clearStepFolders(folder).ok());
  EXPECT_EQ(names(), std::set<std::string>{"lock"});
}

TEST_F(StepFolders, StatesOfProcessesAreRefused) {
  std::ofstream(fs::path(folder) / "manifest.json") << "{}";
  std::optional<int64_t> resume;
  const Status status = open({.resumes = true}, resume);
  EXPECT_EQ(status.code, Code::Input);
  EXPECT_NE(status.message.find("a state of each process"), std::string::npos) << status.message;
  EXPECT_EQ(open({}, resume).code, Code::Usage);
  ASSERT_TRUE(clearStepFolders(folder).ok());
  EXPECT_EQ(names(), std::set<std::string>{"lock"});
}

} // namespace
