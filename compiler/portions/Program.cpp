#include "compiler/portions/Program.h"

#include "compiler/portions/Lines.h"

#include <algorithm>
#include <numeric>

namespace pipec::portions {

void Program::join() {
  std::vector<Maximum> joined;
  for (Maximum &each : maxima) {
    const auto same = std::find_if(joined.begin(), joined.end(), [&](const Maximum &other) {
      return other.kind == each.kind && other.most == each.most && other.terms == each.terms &&
             other.fixed == each.fixed;
    });
    if (same == joined.end())
      joined.push_back(std::move(each));
    else
      same->weight += each.weight;
  }
  maxima = std::move(joined);
}

std::vector<std::vector<int32_t>> independentSets(const Program &program) {
  std::vector<int32_t> set(program.splits()); // by split: a lower split of the same set, or itself
  std::iota(set.begin(), set.end(), 0);
  const auto root = [&](int32_t split) {
    while (set[size_t(split)] != split)
      split = set[size_t(split)];
    return split;
  };
  for (const Maximum &each : program.maxima)
    for (const Term &term : each.terms) {
      const int32_t one = root(each.terms.front().split), other = root(term.split);
      set[size_t(std::max(one, other))] = std::min(one, other);
    }
  std::vector<std::vector<int32_t>> sets(program.splits());
  for (int32_t split = 0; split != int32_t(program.splits()); ++split)
    sets[size_t(root(split))].push_back(split);
  std::erase_if(sets, [](const std::vector<int32_t> &each) { return each.empty(); });
  return sets;
}

Program partOf(const Program &program, const std::vector<int32_t> &splits) {
  Program part;
  part.factors = program.factors;
  part.bandwidth = program.bandwidth;
  std::vector<int32_t> number(program.splits(), -1);
  for (const int32_t split : splits) {
    number[size_t(split)] = int32_t(part.units.size());
    part.units.push_back(program.units[size_t(split)]);
    if (!program.owned.empty())
      part.owned.push_back(program.owned[size_t(split)]);
  }
  for (const Maximum &each : program.maxima) {
    if (each.terms.empty() || number[size_t(each.terms.front().split)] < 0)
      continue;
    part.maxima.push_back(each);
    for (Term &term : part.maxima.back().terms)
      term.split = number[size_t(term.split)];
  }
  return part;
}

namespace {

Wide exchangedBytes(const Program &program, const Maximum &maximum, const Counts &counts, size_t shard) {
  Wide in = maximum.fixed[shard], out = in;
  for (const Term &term : maximum.terms) {
    const size_t split = size_t(term.split);
    const int64_t more = counts[split][shard] - program.owned[split][shard];
    (more > 0 ? in : out) += Line(program, maximum.kind, term, shard).of(std::abs(more));
  }
  return std::max(in, out);
}

} // namespace

Wide valueOf(const Program &program, const Maximum &maximum, const Counts &counts) {
  Wide most = 0;
  for (size_t shard = 0; shard != program.shards(); ++shard) {
    if (maximum.kind == Maximum::Kind::Exchange) {
      const Wide bytes = exchangedBytes(program, maximum, counts, shard);
      most = std::max<Wide>(most, schedule::wireTime(Bytes(std::min<Wide>(bytes, INT64_MAX)), program.bandwidth));
      continue;
    }
    Wide value = maximum.fixed[shard];
    for (const Term &term : maximum.terms)
      value += Line(program, maximum.kind, term, shard).of(counts[size_t(term.split)][shard]);
    most = std::max(most, value);
  }
  return most;
}

Wide valueOf(const Program &program, const Counts &counts) {
  Wide value = program.constant;
  for (const Maximum &each : program.maxima) {
    const Wide most = valueOf(program, each, counts);
    if (each.most >= 0 && most > each.most)
      return -1;
    value += each.weight * most;
  }
  return value;
}

} // namespace pipec::portions
