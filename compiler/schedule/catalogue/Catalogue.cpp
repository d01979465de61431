// The published schedules: finding one by its name or PyTorch's class name, and what they allow.
#include "compiler/schedule/catalogue/Catalogue.h"

#include "compiler/schedule/catalogue/Entries.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>

namespace pipec::schedule {

namespace {

std::string lowered(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

const char *wayOf(const Entry &entry) {
  return entry.copies() == 2 ? "both ways" : entry.placement == "v" ? "in a v" : "in a loop";
}

} // namespace

const std::vector<Entry> &catalogue() {
  static const std::vector<Entry> kEntries = {
      oneFOneB(),  gPipe(),         eagerOneFOneB(), kFkB(),      interleavedOneFOneB(),
      loopedBfs(), interleavedZb(), zbV(),           zbH1(),      zbH2(),
      vMin(),      vHalf(),         vZb(),           oneFOneBV(), gis(),
      gisH(),      slack(),         hanayo(),        seq1f1b(),   chimera(),
      dualPipe(),  dualPipeV()};
  return kEntries;
}

const Entry *find(std::string_view name) {
  const std::string wanted = lowered(name);
  for (const Entry &entry : catalogue()) {
    if (entry.name == wanted)
      return &entry;
    for (std::string_view alias : entry.aliases)
      if (lowered(alias) == wanted)
        return &entry;
  }
  return nullptr;
}

int64_t numberOf(const Parameters &parameters, std::string_view name, int64_t otherwise) {
  const auto given = parameters.find(name);
  return given == parameters.end() ? otherwise : given->second.values.front();
}

std::string checkParameter(const Entry &entry, std::string_view name) {
  std::vector<std::string_view> known;
  for (const Parameter &each : entry.parameters)
    known.push_back(each.name);
  if (std::find(known.begin(), known.end(), name) != known.end())
    return {};
  return fmt::format("schedule '{}' has no parameter '{}'{}", entry.name, name,
                     known.empty() ? "" : fmt::format(", expected {}", fmt::join(known, ", ")));
}

std::string check(const Entry &entry, const Problem &problem, const Parameters &parameters) {
  for (const auto &[name, value] : parameters) {
    if (std::string unknown = checkParameter(entry, name); !unknown.empty())
      return unknown;
    const auto known = std::find_if(entry.parameters.begin(), entry.parameters.end(),
                                    [&name = name](const Parameter &each) { return each.name == name; });
    if (value.list != known->list)
      return fmt::format("schedule '{}' takes {} as {}, found {}", entry.name, name,
                         known->list ? "a list of numbers" : "one number", known->list ? "one number" : "a list");
    for (const int64_t each : value.values)
      if (each < known->least || each > problem.microbatches)
        return fmt::format("schedule '{}' takes {} from {} to the number of microbatches, {}; found {}", entry.name,
                           name, known->least, problem.microbatches, each);
  }
  const bool fused = problem.backward == BackwardMode::Fused;
  if (fused ? !entry.allowsFused : !entry.allowsSplit)
    return fmt::format("schedule '{}' has no {} backward", entry.name, fused ? "fused" : "split");
  const auto stages = size_t(problem.stagesOfCopy());
  if (stages % size_t(problem.ranks) != 0 ||
      (entry.stagesPerRank != 0 && stages != size_t(entry.stagesPerRank) * size_t(problem.ranks)))
    return fmt::format("schedule '{}' has {} on each rank, found {} stages on {} ranks", entry.name,
                       entry.stagesPerRank == 1   ? "one stage"
                       : entry.stagesPerRank == 2 ? "two stages"
                                                  : "equally many stages",
                       stages, problem.ranks);
  if (problem.copies != entry.copies())
    return fmt::format("schedule '{}' has {} of each stage, found {}", entry.name,
                       entry.copies() == 1 ? "one copy" : "two copies", problem.copies);
  if (problem.slices > 1 && !entry.allowsSlices)
    return fmt::format("schedule '{}' has no order for slices, found {} of a microbatch; seq1f1b and gpipe have",
                       entry.name, problem.slices);
  const std::vector<int32_t> rankOf = placementOf(entry, problem.ranks, problem.stagesOfCopy());
  for (size_t s = 0; s < problem.stages.size(); ++s)
    if (problem.rankOf[s] != rankOf[s])
      return fmt::format("schedule '{}' places stages {}, stage {} on rank {}; found it on rank {}", entry.name,
                         wayOf(entry), s, rankOf[s], problem.rankOf[s]);
  return entry.refuses ? entry.refuses(problem, parameters) : std::string();
}

std::vector<int32_t> placementOf(const Entry &entry, int32_t ranks, int32_t stagesOfCopy) {
  return entry.copies() == 2 ? placedBothWays(ranks, stagesOfCopy)
                             : placed(ranks, stagesOfCopy, entry.placement == "v");
}

Words wordsOf(const Entry &entry, const Problem &problem, const Parameters &parameters) {
  return entry.block ? repeat(problem, entry.block(problem)) : entry.words(problem, parameters);
}

} // namespace pipec::schedule
