// An empty folder, gone with the test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>

namespace pipec::test {

class TempFolder : public testing::Test {
protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "pipec-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string folder;
};

} // namespace pipec::test
