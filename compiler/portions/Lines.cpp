#include "compiler/portions/Lines.h"

#include <algorithm>

namespace pipec::portions {

Line::Line(const Program &program, Maximum::Kind kind, const Term &term, size_t shard)
    : over(Wide(kind == Maximum::Kind::Work ? kNoSlower : 1) * term.units), halfUp(kind == Maximum::Kind::Work),
      all(program.units[size_t(term.split)]), ofAll(term.units),
      owned(program.owned.empty() ? 0 : program.owned[size_t(term.split)][shard]) {
  for (const Part &part : term.parts) {
    const Wide slope = halfUp ? Wide(program.factors[shard]) * part.amount : Wide(part.amount);
    parts.push_back({slope, part.count, part.by});
    holdsOwned = holdsOwned || part.by == Part::By::Either;
    if (part.by != Part::By::Either)
      perUnit += (long double)(part.amount) * (long double)(part.count) / (long double)(term.units);
  }
  most = of(all);
}

Wide Line::of(const Slope &slope, int64_t units) const {
  if (slope.by == Part::By::Either)
    units = std::max(units, owned);
  else if (slope.by == Part::By::Owned && all != ofAll)
    units = int64_t((Wide(ofAll) * units + (halfUp ? 0 : all - 1)) / all);
  return slope.count * ((slope.slope * units + (halfUp ? over / 2 : over - 1)) / over);
}

Wide Line::of(int64_t units) const {
  if (units == 0 && !holdsOwned)
    return 0;
  Wide sum = 0;
  for (const Slope &each : parts)
    sum += of(each, units);
  return sum;
}

int64_t Line::within(Wide limit) const {
  if (limit >= most)
    return all;
  if (limit < 0)
    return -1;
  if (parts.size() == 1 && (parts[0].by == Part::By::Kept || (parts[0].by == Part::By::Owned && all == ofAll)))
    return withinOne(limit);
  int64_t few = -1, many = all; // `few` give at most `limit`, `many` give more
  while (many - few > 1) {
    const int64_t middle = few + (many - few) / 2;
    (of(middle) <= limit ? few : many) = middle;
  }
  return few;
}

/// The inverse in closed form, for a line with one part.
int64_t Line::withinOne(Wide limit) const {
  const Slope &part = parts[0];
  const Wide each = part.count == 1 ? limit : limit / part.count;
  // Half up: slope x / over + 1/2 < each + 1, so 2 slope x < over (2 each + 1).
  const Wide room = halfUp ? (over * (2 * each + 1) - 1) / 2 : over * each;
  int64_t units = int64_t((long double)(room) / (long double)(part.slope)); // off by one at most
  while (units > 0 && part.slope * units > room)
    --units;
  while (units < all && part.slope * (units + 1) <= room)
    ++units;
  return units;
}

Bytes bytesWithin(Wide time, int64_t bandwidth) {
  constexpr Wide kPicoseconds = 1'000'000'000'000;
  return Bytes(std::min<Wide>((Wide(bandwidth) * (2 * time + 1) - 1) / (2 * kPicoseconds), INT64_MAX));
}

} // namespace pipec::portions
