// Interleaved 1F1B (Narayanan et al., arXiv 2104.04473, section 2.2), in the order of PyTorch's ScheduleInterleaved1F1B
// and Megatron-Core. Microbatches go through a rank's v chunks in groups: all of a group through one chunk before the
// next chunk. Rank r runs (v - 1)g + 2(p - 1 - r) forwards, then one forward and one backward in turn, then the
// backwards left. The last group may be ragged. A split W stands directly after its B.
#include "compiler/schedule/catalogue/Entries.h"

#include <algorithm>
#include <fmt/format.h>

namespace pipec::schedule {

namespace {

/// How many microbatches each group has. A remainder smaller than the ranks would make the ranks wait for each other (a
/// group must reach around the loop before its first microbatch comes back to the next chunk): it joins the group
/// before.
std::vector<int64_t> groupSizes(int64_t microbatches, int64_t group, int64_t ranks) {
  std::vector<int64_t> sizes(static_cast<size_t>(microbatches / group), group);
  const int64_t remainder = microbatches % group;
  if (remainder >= ranks || sizes.empty())
    sizes.push_back(remainder);
  else
    sizes.front() += remainder;
  return sizes;
}

/// Which local chunk each of a rank's forwards is of: group by group, chunk by chunk.
std::vector<int32_t> chunkOrder(const std::vector<int64_t> &groups, int32_t chunks) {
  std::vector<int32_t> order;
  for (const int64_t size : groups)
    for (int32_t chunk = 0; chunk < chunks; ++chunk)
      order.insert(order.end(), static_cast<size_t>(size), chunk);
  return order;
}

/// PyTorch's: as many rounds as whole sets of p microbatches, of equal size.
int64_t defaultGroup(const Problem &problem) {
  return problem.microbatches / std::max(1, problem.microbatches / problem.ranks);
}

Words interleavedWords(const Problem &problem, const Parameters &parameters) {
  return oneByOne(problem, interleavingOf(problem, parameters), 0);
}

std::string interleavedRefuses(const Problem &problem, const Parameters &parameters) {
  return refusesGroup("interleaved-1f1b", problem, parameters);
}

} // namespace

Words oneByOne(const Problem &problem, const Interleaving &interleaving, int64_t later) {
  const auto &[chunks, firstGroup, order] = interleaving;
  Words words(static_cast<size_t>(problem.ranks));
  for (int32_t rank = 0; rank < problem.ranks; ++rank) {
    Word &word = words[static_cast<size_t>(rank)];
    size_t forwards = 0;
    const auto forward = [&] { word.push_back({order[forwards++] * problem.ranks + rank, Letter::F}); };
    const size_t warmUp =
        std::min<size_t>(size_t((chunks - 1) * firstGroup + 2 * (problem.ranks - 1 - rank) + later), order.size());
    while (forwards < warmUp)
      forward();
    // Backwards go through the chunks the other way round.
    for (const int32_t chunk : order) {
      if (forwards < order.size())
        forward();
      appendBackward(problem, word, (chunks - 1 - chunk) * problem.ranks + rank);
    }
  }
  return words;
}

Interleaving interleavingOf(const Problem &problem, const Parameters &parameters) {
  const int64_t group = numberOf(parameters, "group", defaultGroup(problem));
  const auto chunks = static_cast<int32_t>(problem.stages.size()) / problem.ranks;
  const std::vector<int64_t> groups = groupSizes(problem.microbatches, group, problem.ranks);
  return {chunks, groups.front(), chunkOrder(groups, chunks)};
}

std::string refusesGroup(std::string_view name, const Problem &problem, const Parameters &parameters) {
  const int32_t least = std::min(problem.ranks, problem.microbatches);
  const int64_t group = numberOf(parameters, "group", least);
  if (group >= least || problem.stages.size() == size_t(problem.ranks))
    return {};
  return fmt::format("schedule '{}' takes groups of at least {} microbatches on {} ranks, or the ranks wait for each "
                     "other; found {}",
                     name, least, problem.ranks, group);
}

Entry interleavedOneFOneB() {
  return {.name = "interleaved-1f1b",
          .aliases = {"Interleaved1F1B", "ScheduleInterleaved1F1B"},
          .defaultBackward = BackwardMode::Fused,
          .allowsFused = true,
          .allowsSplit = true,
          .stagesPerRank = 0,
          .placement = "loop",
          .source = "arXiv 2104.04473, section 2.2; PyTorch's ScheduleInterleaved1F1B",
          .bubble = "(p-1)(F+B+W) + transfers, equal stages, F, B, W of one chunk, m >= p",
          .memory = "min(mv, (v-1)g + 2(p-1-r) + 1) chunks on rank r, m a multiple of g",
          .parameters = {{"group", 1, "microbatches in a group (default: m / max(1, m / p), both rounded down)"}},
          .words = interleavedWords,
          .refuses = interleavedRefuses};
}

} // namespace pipec::schedule
