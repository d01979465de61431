// A lower bound for boxes of one split, without whole numbers. The units that the shards have room for, as a function
// of the maxima, are a sum of minima of straight lines. So this function lies below its tangents. Below the tangent at
// a point where all units just fit, the cheapest maxima with room for all units cost no less than this bound.
#include "compiler/portions/Box.h"

#include "compiler/portions/Timing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace pipec::portions {

/// Whether there is one split, and each maximum that counts has a single part, on shards that work.
bool Boxes::isStraight() const {
  return program.splits() == 1 && std::all_of(program.maxima.begin(), program.maxima.end(), [](const Maximum &each) {
           return each.weight == 0 ||
                  (each.kind == Maximum::Kind::Work && each.terms.size() == 1 && each.terms[0].parts.size() == 1);
         });
}

Boxes::Tangent Boxes::tangentAt(const Box &box, long double step) {
  Tangent tangent;
  tangent.slopes.assign(program.maxima.size(), 0);
  for (size_t shard = 0; shard != shards; ++shard) {
    long double room = (long double)(box.most[shard]);
    size_t tightest = program.maxima.size();
    for (size_t j = 0; j != program.maxima.size(); ++j) {
      const Maximum &maximum = program.maxima[j];
      if (maximum.weight == 0 || all[j].rates[0] == 0)
        continue;
      const long double rate = all[j].rates[0] * (long double)(program.factors[shard]) / kNoSlower;
      const long double value = (long double)(box.low[j]) + (long double)(box.high[j] - box.low[j]) * step;
      const long double rounded = (long double)(maximum.terms[0].parts[0].count) / 2;
      const long double own = (value + rounded - (long double)(maximum.fixed[shard])) / rate;
      if (own < room) {
        room = own;
        tightest = j;
      }
    }
    tangent.room += room;
    if (tightest != program.maxima.size())
      tangent.slopes[tightest] += kNoSlower / (all[tightest].rates[0] * (long double)(program.factors[shard]));
  }
  looks += int64_t(shards * program.maxima.size());
  return tangent;
}

Wide Boxes::slopeBound(const Box &box) {
  constexpr int kHalvings = 12;
  const long double units = (long double)(program.units[0]);
  long double few = 0, enough = 1;
  for (int i = 0; i != kHalvings; ++i) {
    const long double middle = (few + enough) / 2;
    (tangentAt(box, middle).room < units ? few : enough) = middle;
  }
  const Tangent tangent = tangentAt(box, enough);
  // Starts at the lower ends of the maxima and buys room where it is cheapest.
  long double bound = 0, missing = units - tangent.room;
  std::vector<size_t> order(box.low.size());
  std::iota(order.begin(), order.end(), size_t(0));
  for (size_t j = 0; j != box.low.size(); ++j) {
    bound += (long double)(program.maxima[j].weight) * (long double)(box.low[j]);
    missing += tangent.slopes[j] * (long double)(box.high[j] - box.low[j]) * enough;
  }
  std::erase_if(order, [&](size_t j) { return tangent.slopes[j] == 0; });
  const auto price = [&](size_t j) { return (long double)(program.maxima[j].weight) / tangent.slopes[j]; };
  std::sort(order.begin(), order.end(), [&](size_t one, size_t other) {
    return price(one) != price(other) ? price(one) < price(other) : one < other;
  });
  for (const size_t j : order) {
    const long double most = tangent.slopes[j] * (long double)(box.high[j] - box.low[j]);
    const long double bought = std::clamp<long double>(missing, 0, most);
    bound += bought * price(j);
    missing -= bought;
  }
  // The least value is a whole number, so the bound is rounded up; long double loses far less than the margin here.
  return bound <= 0 ? 0 : Wide(std::ceil(bound * (1 - 1e-15L) - 1e-3L));
}

} // namespace pipec::portions
