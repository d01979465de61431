// Every way to cut so many layers into so many stages, one or more each: what cuts are judged by in tests.
#pragma once

#include <cstdint>
#include <vector>

namespace pipec::test {

inline void addCuts(int64_t layers, size_t stages, std::vector<int64_t> &cut, std::vector<std::vector<int64_t>> &all) {
  if (stages == 1) {
    all.push_back(cut);
    all.back().push_back(layers);
    return;
  }
  for (int64_t own = 1; own + int64_t(stages) - 1 <= layers; ++own) {
    cut.push_back(own);
    addCuts(layers - own, stages - 1, cut, all);
    cut.pop_back();
  }
}

inline std::vector<std::vector<int64_t>> allCuts(int64_t layers, size_t stages) {
  std::vector<std::vector<int64_t>> all;
  std::vector<int64_t> cut;
  addCuts(layers, stages, cut, all);
  return all;
}

} // namespace pipec::test
