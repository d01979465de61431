// The published schema is the table of keys, and every example spec can be read.
#include "compiler/spec/Schema.h"
#include "compiler/spec/Keys.h"
#include "compiler/spec/Reader.h"
#include "compiler/spec/Stages.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <set>
#include <sstream>

using namespace pipec::spec;

namespace {

const std::filesystem::path kSpecs = std::filesystem::path(PIPEC_SOURCE_DIR) / "specs";

TEST(Schema, publishedFileIsTheTable) {
  std::ostringstream text;
  text << std::ifstream(kSpecs / "pipec.schema.json", std::ios::binary).rdbuf();
  EXPECT_EQ(text.str(), jsonSchema()) << "run: cmake --build <folder> --target update-schema";
}

TEST(Schema, everyKeyHasItsMapAndADescription) {
  std::set<std::string_view> seen;
  for (const Key &key : keys()) {
    EXPECT_TRUE(seen.insert(key.path).second) << key.path << " stands twice";
    EXPECT_FALSE(key.description.empty()) << key.path;
    // An optimizer's time goes where it does without a map.
    EXPECT_EQ(key.perStage && key.name() != "time", key.figure.has_value()) << key.path;
    std::string_view parent = key.parent();
    if (parent.ends_with("[]"))
      parent.remove_suffix(2);
    EXPECT_TRUE(parent.empty() || findKey(parent)) << key.path;
  }
}

TEST(Schema, parametersThatAreOfNoSchedulesInTheCatalogueStandInIt) {
  std::set<std::string_view> found;
  for (const Key *key : keysOf("schedule"))
    found.insert(key->name());
  EXPECT_EQ(found, (std::set<std::string_view>{"name", "objective", "file", "interval", "forward", "backward_input",
                                               "backward_weight", "backward", "foreground", "amplification", "widths",
                                               "sync", "choices"}));
}

TEST(Schema, exampleSpecsAreRead) {
  int count = 0;
  for (const auto &entry : std::filesystem::directory_iterator(kSpecs)) {
    if (entry.path().extension() != ".yaml")
      continue;
    ++count;
    std::vector<Spec> variants;
    std::vector<Diagnostic> diagnostics;
    EXPECT_TRUE(readSpecs(entry.path().string(), {}, variants, diagnostics));
    for (Spec &spec : variants)
      EXPECT_TRUE(setStages(spec, spec.stages, diagnostics));
    for (const Diagnostic &diagnostic : diagnostics)
      ADD_FAILURE() << toString(diagnostic);
    std::ifstream file(entry.path());
    std::string line;
    std::getline(file, line);
    EXPECT_EQ(line, "# yaml-language-server: $schema=pipec.schema.json") << entry.path();
  }
  EXPECT_GE(count, 10);
}

} // namespace
