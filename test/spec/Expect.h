// Reading as a compiler does: all variants, then the number of stages.
#pragma once

#include "compiler/spec/Reader.h"
#include "compiler/spec/Stages.h"

#include <gtest/gtest.h>

namespace pipec::spec::test {

/// The variants of a text, each of `stages` stages (0: as many as hold by default), and all that is wrong, a line each.
inline std::string read(std::string_view text, std::vector<Spec> &variants, const std::vector<std::string> &set = {},
                        int32_t stages = 0) {
  std::vector<Diagnostic> diagnostics;
  bool right = readSpecsText(text, "folder/spec.yaml", set, variants, diagnostics);
  EXPECT_EQ(right, diagnostics.empty());
  for (size_t i = 0; right && i < variants.size(); ++i)
    setStages(variants[i], stages ? stages : variants[i].stages, diagnostics);
  std::string all;
  for (const Diagnostic &diagnostic : diagnostics)
    all.append(all.empty() ? "" : "\n").append(toString(diagnostic));
  for (size_t at; (at = all.find("folder/spec.yaml:")) != all.npos;)
    all.erase(at, sizeof "folder/spec.yaml:" - 1);
  return all;
}

inline std::string wrong(std::string_view text, const std::vector<std::string> &set = {}, int32_t stages = 0) {
  std::vector<Spec> variants;
  return read(text, variants, set, stages);
}

inline std::vector<Spec> right(std::string_view text, const std::vector<std::string> &set = {}, int32_t stages = 0) {
  std::vector<Spec> variants;
  EXPECT_EQ(read(text, variants, set, stages), "") << text;
  return variants;
}

} // namespace pipec::spec::test
