#include "compiler/portions/Box.h"

#include <algorithm>
#include <numeric>

namespace pipec::portions {

Boxes::Boxes(const Program &program) : program(program), shards(program.shards()), ofSplit(program.splits()) {
  for (size_t j = 0; j != program.maxima.size(); ++j) {
    const Maximum &maximum = program.maxima[j];
    MaximumLines &lines = all.emplace_back();
    for (size_t shard = 0; shard != shards; ++shard)
      for (const Term &term : maximum.terms)
        lines.lines.emplace_back(program, maximum.kind, term, shard);
    for (size_t term = 0; term != maximum.terms.size(); ++term) {
      lines.rates.push_back(lines.lines[term].rate());
      ofSplit[size_t(maximum.terms[term].split)].push_back({j, term});
    }
  }
  straight = isStraight();
}

Box Boxes::whole() const {
  Box box;
  for (size_t split = 0; split != program.splits(); ++split) {
    box.least.insert(box.least.end(), shards, 0);
    box.most.insert(box.most.end(), shards, program.units[split]);
  }
  for (size_t j = 0; j != program.maxima.size(); ++j) {
    const Maximum &maximum = program.maxima[j];
    Wide high = 0;
    for (size_t shard = 0; shard != shards; ++shard) {
      Wide value = maximum.fixed[shard];
      for (size_t term = 0; term != maximum.terms.size(); ++term)
        value += line(j, shard, term).of(program.units[size_t(maximum.terms[term].split)]);
      high = std::max(high, value);
    }
    if (maximum.kind == Maximum::Kind::Exchange)
      high = std::min(schedule::wireTime(Bytes(std::min<Wide>(high, INT64_MAX)), program.bandwidth), kMostTime);
    box.low.push_back(0);
    box.high.push_back(maximum.most >= 0 ? std::min(maximum.most, high) : high);
  }
  return box;
}

bool Boxes::narrow(Box &box, Wide best) {
  constexpr int kRounds = 6;
  for (int round = 0; round != kRounds; ++round) {
    const std::vector<int64_t> leastBefore = box.least, mostBefore = box.most;
    if (!narrowByMaxima(box) || !narrowBySums(box) || !raise(box))
      return false;
    lowerEnds(box);
    box.bound = 0;
    for (size_t j = 0; j != box.low.size(); ++j)
      box.bound += program.maxima[j].weight * box.low[j];
    bool changed = leastBefore != box.least || mostBefore != box.most;
    if (best >= 0) {
      if (box.bound >= best)
        return false;
      for (size_t j = 0; j != box.low.size(); ++j) {
        const Wide weight = program.maxima[j].weight;
        if (weight == 0)
          continue;
        const Wide high = box.low[j] + (best - 1 - box.bound) / weight;
        // A small change is not worth another round.
        changed = changed || high - box.low[j] < (box.high[j] - box.low[j]) / 4 * 3;
        box.high[j] = std::min(box.high[j], high);
      }
    }
    if (!changed)
      break;
  }
  if (straight)
    box.bound = std::max(box.bound, slopeBound(box));
  return best < 0 || box.bound < best;
}

bool Boxes::narrowByMaxima(Box &box) {
  for (size_t j = 0; j != box.low.size(); ++j)
    for (size_t shard = 0; shard != shards; ++shard)
      if (program.maxima[j].kind == Maximum::Kind::Exchange ? !narrowExchange(box, j, shard)
                                                            : !narrowWork(box, j, shard))
        return false;
  return true;
}

bool Boxes::narrowWork(Box &box, size_t j, size_t shard) {
  const Maximum &maximum = program.maxima[j];
  Wide least = maximum.fixed[shard];
  for (size_t term = 0; term != maximum.terms.size(); ++term)
    least += line(j, shard, term).of(box.least[at(size_t(maximum.terms[term].split), shard)]);
  box.low[j] = std::max(box.low[j], least);
  if (box.low[j] > box.high[j])
    return false;
  looks += int64_t(maximum.terms.size());
  for (size_t term = 0; term != maximum.terms.size(); ++term) {
    const size_t own = at(size_t(maximum.terms[term].split), shard);
    const Line &each = line(j, shard, term);
    const Wide others = maximum.terms.size() == 1 ? maximum.fixed[shard] : least - each.of(box.least[own]);
    box.most[own] = std::min(box.most[own], each.within(box.high[j] - others));
  }
  return true;
}

Wide Boxes::leastIn(const Box &box, size_t j, size_t shard, size_t term) {
  const size_t split = size_t(program.maxima[j].terms[term].split);
  return line(j, shard, term).of(std::max<int64_t>(0, box.least[at(split, shard)] - program.owned[split][shard]));
}

Wide Boxes::leastOut(const Box &box, size_t j, size_t shard, size_t term) {
  const size_t split = size_t(program.maxima[j].terms[term].split);
  return line(j, shard, term).of(std::max<int64_t>(0, program.owned[split][shard] - box.most[at(split, shard)]));
}

bool Boxes::narrowExchange(Box &box, size_t j, size_t shard) {
  const Maximum &maximum = program.maxima[j];
  Wide in = 0, out = 0;
  for (size_t term = 0; term != maximum.terms.size(); ++term) {
    in += leastIn(box, j, shard, term);
    out += leastOut(box, j, shard, term);
  }
  const Wide least = schedule::wireTime(Bytes(std::min<Wide>(std::max(in, out), INT64_MAX)), program.bandwidth);
  box.low[j] = std::max(box.low[j], least);
  if (box.low[j] > box.high[j])
    return false;
  const Wide room = bytesWithin(box.high[j], program.bandwidth);
  looks += int64_t(maximum.terms.size()) * 2;
  for (size_t term = 0; term != maximum.terms.size(); ++term) {
    const size_t split = size_t(maximum.terms[term].split), own = at(split, shard);
    const Line &each = line(j, shard, term);
    const int64_t owned = program.owned[split][shard];
    const int64_t more = each.within(room - (in - leastIn(box, j, shard, term)));
    const int64_t fewer = each.within(room - (out - leastOut(box, j, shard, term)));
    box.most[own] = std::min(box.most[own], owned + std::max<int64_t>(more, 0));
    box.least[own] = std::max(box.least[own], owned - std::max<int64_t>(fewer, 0));
  }
  return true;
}

/// Lowers the upper end of each maximum to its value at the most units.
void Boxes::lowerEnds(Box &box) {
  for (size_t j = 0; j != box.high.size(); ++j) {
    const Maximum &maximum = program.maxima[j];
    Wide most = 0;
    for (size_t shard = 0; shard != shards; ++shard) {
      Wide in = maximum.fixed[shard], out = in;
      for (size_t term = 0; term != maximum.terms.size(); ++term) {
        const size_t split = size_t(maximum.terms[term].split), own = at(split, shard);
        if (maximum.kind != Maximum::Kind::Exchange) {
          in += line(j, shard, term).of(box.most[own]);
          continue;
        }
        const int64_t owned = program.owned[split][shard];
        in += line(j, shard, term).of(std::max<int64_t>(0, box.most[own] - owned));
        out += line(j, shard, term).of(std::max<int64_t>(0, owned - box.least[own]));
      }
      most = std::max({most, in, out});
    }
    looks += int64_t(shards * maximum.terms.size());
    if (maximum.kind == Maximum::Kind::Exchange)
      most = schedule::wireTime(Bytes(std::min<Wide>(most, INT64_MAX)), program.bandwidth);
    box.high[j] = std::max(box.low[j], std::min(box.high[j], most));
  }
}

/// Narrows the ranges of units by the fact that all units of a split are distributed.
bool Boxes::narrowBySums(Box &box) const {
  for (size_t split = 0; split != program.splits(); ++split) {
    const int64_t units = program.units[split];
    int64_t least = 0, most = 0;
    for (size_t shard = 0; shard != shards; ++shard) {
      const size_t own = at(split, shard);
      if (box.least[own] > box.most[own])
        return false;
      least += box.least[own];
      most += box.most[own];
    }
    if (least > units || most < units)
      return false;
    for (size_t shard = 0; shard != shards; ++shard) {
      const size_t own = at(split, shard);
      const int64_t leastOwn = box.least[own], mostOwn = box.most[own];
      box.least[own] = std::max(leastOwn, units - (most - mostOwn));
      box.most[own] = std::min(mostOwn, units - (least - leastOwn));
    }
  }
  return true;
}

int64_t Boxes::mostWithin(const Box &box, size_t j, size_t shard, size_t term, Wide value) {
  const Maximum &maximum = program.maxima[j];
  const size_t split = size_t(maximum.terms[term].split);
  ++looks;
  if (maximum.kind == Maximum::Kind::Exchange) {
    Wide room = bytesWithin(value, program.bandwidth);
    for (size_t other = 0; other != maximum.terms.size(); ++other)
      if (other != term)
        room -= leastIn(box, j, shard, other);
    return std::min(box.most[at(split, shard)], program.owned[split][shard] + line(j, shard, term).within(room));
  }
  Wide room = value - maximum.fixed[shard];
  for (size_t other = 0; other != maximum.terms.size(); ++other)
    if (other != term)
      room -= line(j, shard, other).of(box.least[at(size_t(maximum.terms[other].split), shard)]);
  return std::min(box.most[at(split, shard)], line(j, shard, term).within(room));
}

/// Whether all units of each split fit if this maximum has at most `value` and the others stay within the box.
bool Boxes::mayBe(const Box &box, size_t j, Wide value) {
  const Maximum &maximum = program.maxima[j];
  for (size_t term = 0; term != maximum.terms.size(); ++term) {
    const size_t split = size_t(maximum.terms[term].split);
    int64_t most = 0;
    for (size_t shard = 0; shard != shards && most < program.units[split]; ++shard) {
      const int64_t own = mostWithin(box, j, shard, term, value);
      if (own < box.least[at(split, shard)])
        return false;
      most += own;
    }
    if (most < program.units[split])
      return false;
  }
  return maximum.terms.size() < 2 || maximum.kind == Maximum::Kind::Exchange || mayBeTogether(box, j, value);
}

/// The same for all terms at once, without whole numbers: the room that the shards have for all splits together. Allows
/// for half a unit of rounding in each term, and for the precision of long double.
bool Boxes::mayBeTogether(const Box &box, size_t j, Wide value) {
  const Maximum &maximum = program.maxima[j];
  const bool work = maximum.kind == Maximum::Kind::Work;
  long double needed = 0, rounded = 0, room = 0;
  for (size_t term = 0; term != maximum.terms.size(); ++term) {
    needed += all[j].rates[term] * (long double)(program.units[size_t(maximum.terms[term].split)]);
    for (const Part &part : maximum.terms[term].parts)
      rounded += work ? (long double)(part.count) / 2 : 0;
  }
  for (size_t shard = 0; shard != shards; ++shard) {
    const long double slow = work ? (long double)(program.factors[shard]) / kNoSlower : 1;
    long double most = 0;
    for (size_t term = 0; term != maximum.terms.size(); ++term)
      most += all[j].rates[term] * (long double)(box.most[at(size_t(maximum.terms[term].split), shard)]);
    room += std::min(most, ((long double)(value - maximum.fixed[shard]) + rounded) / slow);
    ++looks;
  }
  return room >= needed * (1 - 1e-15L);
}

Wide Boxes::leastFor(const Box &box, size_t j, Wide tooLow, Wide enough) {
  constexpr int64_t kFew = 3;
  const Maximum &maximum = program.maxima[j];
  const size_t split = size_t(maximum.terms[0].split);
  int64_t missing = 0;
  long double slope = 0; // more units per picosecond more
  Wide next = 0;         // the next value at which some shard takes a unit more
  const auto look = [&](Wide value) {
    missing = program.units[split];
    slope = 0;
    next = enough;
    for (size_t shard = 0; shard != shards; ++shard) {
      const int64_t own = mostWithin(box, j, shard, 0, value);
      missing -= std::max<int64_t>(own, 0);
      if (own == box.most[at(split, shard)])
        continue;
      slope += kNoSlower / (all[j].rates[0] * (long double)(program.factors[shard]));
      next = std::min(next, maximum.fixed[shard] + line(j, shard, 0).of(own + 1));
    }
  };
  look(tooLow);
  for (int64_t looked = 0; enough - tooLow > 1; ++looked) {
    // If few units are missing, goes to the next value. Otherwise goes where the slope points, and after three such
    // steps halves the rest.
    const bool isNear = missing <= kFew;
    Wide value = isNear ? next : tooLow + (enough - tooLow) / 2;
    if (!isNear && looked < 3 && slope > 0)
      value = std::clamp<Wide>(tooLow + Wide((long double)(missing) / slope), tooLow + 1, enough - 1);
    if (value >= enough)
      return enough;
    const int64_t before = missing;
    const Wide nextBefore = next;
    look(value);
    if (missing > 0) {
      tooLow = value;
      continue;
    }
    enough = value;
    missing = before;
    next = nextBefore;
    if (isNear)
      return enough;
  }
  return enough;
}

bool Boxes::raise(Box &box) {
  for (size_t j = 0; j != box.low.size(); ++j) {
    if (program.maxima[j].weight == 0 || mayBe(box, j, box.low[j]))
      continue;
    Wide not_ = box.low[j], may = box.high[j];
    if (!mayBe(box, j, may))
      return false;
    if (program.maxima[j].terms.size() == 1 && program.maxima[j].kind == Maximum::Kind::Work)
      not_ = (may = leastFor(box, j, not_, may)) - 1;
    while (may - not_ > 1) {
      const Wide middle = not_ + (may - not_) / 2;
      (mayBe(box, j, middle) ? may : not_) = middle;
    }
    box.low[j] = may;
  }
  return true;
}

/// The shard to take a surplus unit from: the one with the highest maximum relative to its lower end.
int64_t Boxes::dropFrom(const Box &box, size_t split, const std::vector<int64_t> &counts) {
  int64_t from = -1;
  long double highest = -1;
  for (size_t shard = 0; shard != shards; ++shard) {
    if (counts[shard] <= box.least[at(split, shard)])
      continue;
    long double pressure = 0;
    for (const auto &[j, term] : ofSplit[split]) {
      const Maximum &maximum = program.maxima[j];
      const bool exchange = maximum.kind == Maximum::Kind::Exchange;
      const int64_t units =
          exchange ? std::max<int64_t>(0, counts[shard] - program.owned[split][shard]) : counts[shard];
      const Wide value = maximum.fixed[shard] + line(j, shard, term).of(units);
      pressure = std::max(pressure, (long double)(value) / (long double)(box.low[j] + 1));
    }
    if (pressure > highest) {
      highest = pressure;
      from = int64_t(shard);
    }
  }
  return from;
}

Counts Boxes::point(const Box &from) {
  constexpr int64_t kSteps = int64_t(1) << 20; // steps between the lower ends and the upper ends of the maxima
  Box box = from;                              // splits already distributed have one count each
  Counts counts(program.splits());
  for (size_t split = 0; split != program.splits(); ++split) {
    std::vector<int64_t> &own = counts[split];
    own.assign(shards, 0);
    const auto fill = [&](int64_t step) {
      int64_t sum = 0;
      for (size_t shard = 0; shard != shards; ++shard) {
        own[shard] = box.most[at(split, shard)];
        for (const auto &[j, term] : ofSplit[split]) {
          const Wide value = box.low[j] + (box.high[j] - box.low[j]) * step / kSteps;
          own[shard] = std::min(own[shard], mostWithin(box, j, shard, term, value));
        }
        own[shard] = std::max(own[shard], box.least[at(split, shard)]);
        sum += own[shard];
      }
      return sum;
    };
    int64_t sum = fill(0);
    if (sum < program.units[split]) {
      int64_t few = 0, enough = kSteps;
      while (enough - few > 1) {
        const int64_t middle = few + (enough - few) / 2;
        (fill(middle) < program.units[split] ? few : enough) = middle;
      }
      sum = fill(enough);
    }
    for (size_t shard = 0; sum < program.units[split] && shard != shards; ++shard) { // earlier splits left no room
      const int64_t more = std::min(program.units[split] - sum, box.most[at(split, shard)] - own[shard]);
      own[shard] += more;
      sum += more;
    }
    while (sum > program.units[split]) {
      const size_t shard = size_t(dropFrom(box, split, own));
      const int64_t fewer = std::min(std::max<int64_t>(1, (sum - program.units[split]) / int64_t(2 * shards)),
                                     own[shard] - box.least[at(split, shard)]);
      own[shard] -= fewer;
      sum -= fewer;
    }
    for (size_t shard = 0; shard != shards; ++shard)
      box.least[at(split, shard)] = box.most[at(split, shard)] = own[shard];
  }
  return counts;
}

} // namespace pipec::portions
