// Which schedule an unknown name was probably meant to be: by what it means, by its spelling, or as a part of a name.
#include "compiler/schedule/catalogue/Catalogue.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace pipec::schedule {

namespace {

/// What papers and frameworks call a schedule, or what it does, in small letters with dashes → its name here.
struct Synonym {
  std::string_view said, name;
};
constexpr Synonym kSynonyms[] = {
    {"all-forward-all-backward", "gpipe"},
    {"afab", "gpipe"},
    {"fill-drain", "gpipe"},
    {"terapipe", "gpipe"},
    {"one-forward-one-backward", "1f1b"},
    {"pipedream", "1f1b"},
    {"pipedream-flush", "1f1b"},
    {"dapple", "1f1b"},
    {"megatron", "interleaved-1f1b"},
    {"interleaved", "interleaved-1f1b"},
    {"virtual-pipeline", "interleaved-1f1b"},
    {"vpp", "interleaved-1f1b"},
    {"depth-first", "interleaved-1f1b"},
    {"breadth-first", "looped-bfs"},
    {"bfs", "looped-bfs"},
    {"ada-grouper", "kfkb"},
    {"grouped", "kfkb"},
    {"zero-bubble", "zb-h1"},
    {"zb", "zb-h1"},
    {"controllable-memory", "v-half"},
    {"wave", "hanayo"},
    {"bidirectional", "chimera"},
    {"deepseek", "dualpipe"},
    {"automatic", "auto"},
    {"best", "auto"},
    {"optimal", "auto"},
    {"search", "auto"},
    {"custom", "block"},
    {"csv", "order"},
    {"file", "order"},
};

/// In small letters, words joined by dashes.
std::string normal(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return c == '_' || c == ' ' ? '-' : std::tolower(c); });
  return result;
}

/// Levenshtein's: insertions, deletions and replacements, each one.
size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t(0));
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

} // namespace

std::string_view nearest(std::string_view name, std::span<const std::string_view> others) {
  constexpr size_t kLongestName = 64; // a longer one is near nothing
  constexpr size_t kShortestPart = 3; // a shorter one is part of too many
  if (name.size() > kLongestName)
    return {};
  const std::string wanted = normal(name);
  std::vector<std::pair<std::string_view, std::string_view>> known; // a name, and how it is spelled
  for (const Entry &entry : catalogue()) {
    known.emplace_back(entry.name, entry.name);
    for (std::string_view alias : entry.aliases)
      known.emplace_back(entry.name, alias);
  }
  for (std::string_view other : others)
    known.emplace_back(other, other);
  for (const Synonym &synonym : kSynonyms)
    if (synonym.said == wanted)
      for (const auto &[own, spelled] : known)
        if (own == synonym.name)
          return own;
  std::string_view best;
  size_t bestDistance = std::max<size_t>(1, wanted.size() / 3) + 1;
  for (const auto &[own, spelled] : known)
    if (const size_t distance = editDistance(wanted, normal(spelled)); distance < bestDistance) {
      best = own;
      bestDistance = distance;
    }
  if (!best.empty() || wanted.size() < kShortestPart)
    return best;
  for (const bool atBeginning : {true, false})
    for (const auto &[own, spelled] : known)
      if (const size_t at = normal(spelled).find(wanted); atBeginning ? at == 0 : at != std::string::npos)
        return own;
  return {};
}

} // namespace pipec::schedule
