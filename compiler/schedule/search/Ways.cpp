#include "compiler/schedule/search/Ways.h"

#include "compiler/schedule/catalogue/Catalogue.h"

#include <fmt/format.h>

namespace pipec::schedule {

namespace {

using First = Policy::First;

// The order in each table is that of what each row adds to those before it on the grid of test/bench/catalogue.csv.

const Policy kSingle[] = {{.first = First::Alternate, .patience = 100, .weightPatience = 50, .base = 100, .slope = 200},
                          {.first = First::Forward, .patience = 100, .weightPatience = 0, .base = 100, .slope = 150},
                          {.first = First::Alternate, .patience = 50, .weightPatience = 0, .base = 200, .slope = 100},
                          {.first = First::Forward, .patience = 100, .weightPatience = 0, .base = 100, .slope = 200}};

const Policy kSeveral[] = {{.first = First::Alternate, .deepest = false, .patience = 50, .weightPatience = 50},
                           {.first = First::Alternate, .deepest = false, .patience = 25, .weightPatience = 100},
                           {.first = First::Alternate, .patience = 100, .weightPatience = 100}};

constexpr WeaveOptions kWeaves[] = {{.pace = 25, .equal = true, .fromEnd = true, .pitch = 100},
                                    {.pace = 25, .equal = true},
                                    {.pace = 70, .equal = true},
                                    {.pace = 0, .room = true, .fromEnd = true, .pitch = 100},
                                    {.pace = 0, .equal = true, .pitch = 75},
                                    {.pace = 50, .equal = true, .fromEnd = true, .pitch = 100}};

/// Rounds whose beats have room for a W, for half of one, or only for a pass down and one up.
constexpr RoundOptions kRounds[] = {{.most = 32, .room = 100}, {.most = 32, .room = 50}, {.most = 16, .room = 0}};

} // namespace

std::span<const Policy> listWays(bool single) {
  return single ? std::span<const Policy>(kSingle) : std::span<const Policy>(kSeveral);
}

std::string nameOf(const Policy &way) {
  const char *first = way.first == First::Backward  ? "backward first"
                      : way.first == First::Forward ? "forward first"
                                                    : "by turns";
  return fmt::format("list: {}{}, patience {}, with W {}{}", first, way.deepest ? "" : ", oldest", way.patience,
                     way.weightPatience,
                     way.base == 0 && way.slope == 0 ? "" : fmt::format(", in flight {} + {}", way.base, way.slope));
}

std::span<const WeaveOptions> weaveWays() { return kWeaves; }

std::string nameOf(const WeaveOptions &way) {
  return fmt::format("woven: pace {}{}{}{}{}", way.pace, way.room ? ", room for W" : "", way.equal ? ", equal" : "",
                     way.fromEnd ? ", from the end" : "", way.pitch == 0 ? "" : fmt::format(", pitch {}", way.pitch));
}

std::span<const RoundOptions> roundWays() { return kRounds; }

std::string nameOf(const RoundOptions &way) { return fmt::format("rounds: up to {}, room {}", way.most, way.room); }

std::string publishedWay(std::string_view entry) { return fmt::format("published: {}", entry); }

std::vector<std::string> allWays() {
  std::vector<std::string> names;
  for (const Entry &entry : catalogue())
    if (!entry.mixesBackwards)
      names.push_back(publishedWay(entry.name));
  for (const bool single : {true, false})
    for (const Policy &way : listWays(single))
      names.push_back(nameOf(way));
  for (const WeaveOptions &way : weaveWays())
    names.push_back(nameOf(way));
  for (const RoundOptions &way : roundWays())
    names.push_back(nameOf(way));
  for (const std::string_view way :
       {kSlackWay, kBlockWay, kBeamWay, kShareBeamWay, kMoreBeamWay, kFillWay, kDeferWay, kAnnealWay, kFewWay})
    names.emplace_back(way);
  return names;
}

} // namespace pipec::schedule
