#include "compiler/schedule/search/Ways.h"

#include "compiler/schedule/catalogue/Catalogue.h"

#include <fmt/format.h>

namespace pipec::schedule {

namespace {

using First = Policy::First;
using Room = WeaveOptions::Room;

// The order in each table is that of what each row adds to those before it on the grid of test/bench/catalogue.csv.

const int32_t kAnyWeights = Policy().mostWeights;

const ListWay kSingle[] = {
    {.policy = {.first = First::Alternate, .patience = 100, .weightPatience = 50, .base = 100, .slope = 200}},
    {.policy = {.first = First::Forward, .patience = 100, .weightPatience = 0, .base = 100, .slope = 150}},
    {.policy = {.first = First::Forward, .patience = 100, .weightPatience = 50, .base = 100, .slope = 200}},
    {.policy = {.first = First::Backward, .patience = 100, .weightPatience = 50, .base = 100, .slope = 100}},
    {.policy = {.first = First::Backward, .patience = 0, .weightPatience = 0, .base = 100, .slope = 100}},
    {.policy = {.first = First::Alternate, .patience = 100, .weightPatience = 0}},
    {.policy = {.first = First::Forward, .patience = 100, .weightPatience = 100, .base = 100, .slope = 200}},
    {.policy = {.first = First::Alternate, .patience = 50, .weightPatience = 0, .base = 200, .slope = 100}},
    {.policy = {.first = First::Forward, .patience = 100, .weightPatience = 0, .base = 100, .slope = 200}},
    {.policy = {.first = First::Backward, .patience = 75, .weightPatience = 0, .base = 100, .slope = 100}},
    {.policy = {.first = First::Forward, .patience = 0, .weightPatience = 0, .base = 100, .slope = 200}},
    {.policy = {.first = First::Backward, .patience = 100, .weightPatience = 0, .base = 100, .slope = 150}},
    {.policy =
         {.first = First::Forward, .patience = 0, .weightPatience = 0, .base = 100, .slope = 100, .mostWeights = 1}},
    {.policy = {.first = First::Backward, .patience = 50, .weightPatience = 0, .base = 100, .slope = 150}},
    {.policy = {.first = First::Backward, .patience = 25, .weightPatience = 0, .base = 100, .slope = 150}},
    {.policy = {.first = First::Alternate, .patience = 75, .weightPatience = 50}}};

const ListWay kSeveral[] = {
    {.policy = {.first = First::Forward, .deepest = false, .patience = 100, .weightPatience = 50}, .inShares = true},
    {.policy = {.first = First::Alternate, .deepest = false, .patience = 50, .weightPatience = 50}},
    {.policy = {.first = First::Forward, .patience = 0, .weightPatience = 100}, .inShares = true},
    {.policy = {.first = First::Alternate, .deepest = false, .patience = 100, .weightPatience = 50}, .inShares = true},
    {.policy = {.first = First::Forward, .deepest = false, .patience = 75, .weightPatience = 0}, .inShares = true},
    {.policy = {.first = First::Alternate, .deepest = false, .patience = 25, .weightPatience = 100}},
    {.policy = {.first = First::Forward, .deepest = false, .patience = 100, .weightPatience = 100, .mostWeights = 1},
     .inShares = true},
    {.policy = {.first = First::Forward, .patience = 100, .weightPatience = 0}},
    {.policy = {.first = First::Forward, .patience = 75, .weightPatience = 50}, .inShares = true},
    {.policy = {.first = First::Forward, .deepest = false, .patience = 25, .weightPatience = 100}, .inShares = true},
    {.policy = {.first = First::Alternate, .patience = 100, .weightPatience = 100}},
    {.policy = {.first = First::Forward, .deepest = false, .patience = 75, .weightPatience = 50}, .inShares = true},
    {.policy = {.first = First::Backward, .patience = 0, .weightPatience = 0}},
    {.policy = {.first = First::Forward, .deepest = false, .patience = 50, .weightPatience = 0}, .inShares = true},
    {.policy = {.first = First::Forward, .patience = 100, .weightPatience = 0}, .inShares = true},
    {.policy = {.first = First::Forward, .deepest = false, .patience = 25, .weightPatience = 0}, .inShares = true},
    {.policy = {.first = First::Forward, .deepest = false, .patience = 50, .weightPatience = 50}},
    {.policy = {.first = First::Forward, .patience = 25, .weightPatience = 0, .mostWeights = 1}, .inShares = true},
    {.policy = {.first = First::Forward, .patience = 100, .weightPatience = 100}, .inShares = true},
    {.policy = {.first = First::Backward, .patience = 75, .weightPatience = 0}, .inShares = true},
    {.policy = {.first = First::Backward, .deepest = false, .patience = 100, .weightPatience = 50}},
    {.policy = {.first = First::Alternate, .patience = 50, .weightPatience = 100}},
    {.policy = {.first = First::Backward, .patience = 100, .weightPatience = 50}},
    {.policy = {.first = First::Alternate, .patience = 100, .weightPatience = 100}, .inShares = true}};

constexpr WeaveOptions kWeaves[] = {
    {.pace = 25, .equal = true, .fromEnd = true, .pitch = 100},
    {.pace = 25, .equal = true},
    {.pace = 90, .room = Room::Forward, .equal = true, .fromEnd = true, .pitch = 100, .even = true},
    {.pace = 70, .equal = true},
    {.pace = 50, .room = Room::Backward, .equal = true, .pitch = 75},
    {.pace = 0, .room = Room::Forward, .fromEnd = true, .pitch = 100},
    {.pace = 0, .equal = true, .pitch = 75},
    {.pace = 90, .room = Room::Forward, .fromEnd = true, .pitch = 100, .even = true},
    {.pace = 0, .room = Room::Forward, .equal = true, .fromEnd = true},
    {.pace = 50, .equal = true, .fromEnd = true, .pitch = 100},
    {.pace = 0, .room = Room::Backward},
    {.pace = 50, .fromEnd = true},
    {.pace = 0, .equal = true},
    {.pace = 90, .room = Room::Backward, .pitch = 100, .even = true},
    {.pace = 0, .fromEnd = true},
    {.pace = 90, .room = Room::Backward, .pitch = 75, .even = true},
    {.pace = 100, .fromEnd = true, .pitch = 100, .even = true},
    {.pace = 100, .room = Room::Backward, .fromEnd = true, .even = true},
    {.pace = 0, .room = Room::Backward, .fromEnd = true, .pitch = 100},
    {.pace = 70, .room = Room::Forward, .fromEnd = true, .pitch = 100},
    {.pace = 0},
    {.pace = 80, .room = Room::Forward, .equal = true}};

/// Rounds whose beats have room for a W, for half of one, or only for a pass down and one up.
constexpr RoundOptions kRounds[] = {{.most = 32, .room = 100},
                                    {.most = 32, .room = 50},
                                    {.most = 16, .room = 0},
                                    {.most = 8, .room = 50},
                                    {.most = 32, .room = 0}};

} // namespace

std::span<const ListWay> listWays(bool single) {
  return single ? std::span<const ListWay>(kSingle) : std::span<const ListWay>(kSeveral);
}

std::string nameOf(const ListWay &way) {
  const Policy &policy = way.policy;
  const char *first = policy.first == First::Backward  ? "backward first"
                      : policy.first == First::Forward ? "forward first"
                                                       : "by turns";
  return fmt::format(
      "list: {}{}, patience {}, with W {}{}{}{}", first, policy.deepest ? "" : ", oldest", policy.patience,
      policy.weightPatience,
      policy.base == 0 && policy.slope == 0 ? "" : fmt::format(", in flight {} + {}", policy.base, policy.slope),
      policy.mostWeights == kAnyWeights ? "" : fmt::format(", {} W pending", policy.mostWeights),
      way.inShares ? ", in shares" : "");
}

std::span<const WeaveOptions> weaveWays() { return kWeaves; }

std::string nameOf(const WeaveOptions &way) {
  return fmt::format("woven: pace {}{}{}{}{}{}", way.pace,
                     way.room == Room::None      ? ""
                     : way.room == Room::Forward ? ", room behind F"
                                                 : ", room behind B",
                     way.equal ? ", equal" : "", way.fromEnd ? ", from the end" : "",
                     way.pitch == 0 ? "" : fmt::format(", pitch {}", way.pitch), way.even ? ", even" : "");
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
    for (const ListWay &way : listWays(single))
      names.push_back(nameOf(way));
  for (const WeaveOptions &way : weaveWays())
    names.push_back(nameOf(way));
  for (const RoundOptions &way : roundWays())
    names.push_back(nameOf(way));
  for (const std::string_view way :
       {kOtherListsWay, kSlackWay, kFoldedWay, kSlotsWay, kRoomySlotsWay, kTimedWay, kRoomyTimedWay, kBeamWay,
        kShareBeamWay, kMoreBeamWay, kFillWay, kDeferWay, kAnnealWay, kGrowWay, kFewWay})
    names.emplace_back(way);
  return names;
}

} // namespace pipec::schedule
