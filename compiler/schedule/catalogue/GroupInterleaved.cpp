// GIS and GIS-H (Wan et al., PipeOffload, arXiv 2503.01328, section 4; sail-sg's group_interleaved_1f1b.py):
// interleaved 1F1B with a split backward, whose earlier B lets rank r begin with p - r forwards beyond a group through
// all chunks but one, instead of 2(p - r) - 1. GIS-H halves the groups: less memory for some more bubble.
#include "compiler/schedule/catalogue/Entries.h"

#include <algorithm>

namespace pipec::schedule {

namespace {

/// All of a group go through one chunk before the next. What the last group would lack joins the first.
Words grouped(const Problem &problem, int32_t group) {
  const auto chunks = static_cast<int32_t>(problem.stages.size()) / problem.ranks;
  const int32_t m = problem.microbatches;
  const int32_t first = m < group ? m : group + m % group;
  std::vector<int32_t> order; // the local chunk of each of a rank's forwards; backwards take the chunks in reverse
  for (int32_t done = 0, size = first; done < m; done += size, size = group)
    for (int32_t chunk = 0; chunk < chunks; ++chunk)
      order.insert(order.end(), size_t(done == 0 ? first : group), chunk);
  Words words(static_cast<size_t>(problem.ranks));
  for (int32_t rank = 0; rank < problem.ranks; ++rank) {
    Word &word = words[size_t(rank)];
    size_t forwards = 0;
    const auto forward = [&] {
      if (forwards < order.size())
        word.push_back({order[forwards++] * problem.ranks + rank, Letter::F});
    };
    for (int32_t i = 0; i < first * (chunks - 1) + problem.ranks - rank; ++i)
      forward();
    for (const int32_t chunk : order) {
      appendBackward(problem, word, (chunks - 1 - chunk) * problem.ranks + rank);
      forward();
    }
  }
  return words;
}

Entry entry(std::string_view name, std::string_view bubble, std::string_view memory,
            Words (*words)(const Problem &, const Parameters &)) {
  return {.name = name,
          .aliases = {},
          .defaultBackward = BackwardMode::Split,
          .allowsFused = false,
          .allowsSplit = true,
          .stagesPerRank = 0,
          .placement = "loop",
          .source = "PipeOffload, arXiv 2503.01328, section 4",
          .bubble = bubble,
          .memory = memory,
          .words = words};
}

} // namespace

Entry gis() {
  return entry("gis", "(p-1)(F+B) + transfers, equal stages, F, B of a chunk, m a multiple of p",
               "pv - r chunks on rank r, p microbatches on the first",
               [](const Problem &problem, const Parameters &) { return grouped(problem, problem.ranks); });
}

Entry gisH() {
  return entry(
      "gis-h",
      "(p-1)(F+B) + (v-1)(p-g)(F+B-W) + transfers, g = p/2 rounded up, equal stages, F = B = W of a chunk, m a "
      "multiple of g",
      "g(v-1) + p - r chunks on rank r, g = p/2 rounded up, m a multiple of g, m >= p",
      [](const Problem &problem, const Parameters &) { return grouped(problem, (problem.ranks + 1) / 2); });
}

} // namespace pipec::schedule
