// Trains the tensor stage library with shards in threads, under portions from the command line, and says how many of
// the test glyphs it tells: test/bench/tensor.py's rows.
//
//   bench-tensor VALUES STEPS BALANCE HEADS COLUMNS [rotate]
//
// VALUES: more of the provider, as "key": value, …; BALANCE: JSON; HEADS, COLUMNS: owned/worked/kept, each a number a
// shard, as 4,4/4,4/1,4, of all four layers or of some after the other, as 1:8,0/8,0/7,0;3:7,1/7,1/6,1; rotate: every
// epoch of 128 steps the next shard takes the place of the one before.
#include "test/tensor/TensorShards.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

using namespace pipec::test;

namespace {

constexpr int kLayers = 4;

using Parts = std::vector<std::vector<int64_t>>;

std::vector<std::string> divided(const std::string &text, char by) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, by);)
    parts.push_back(part);
  return parts;
}

/// By layer.
std::vector<Parts> read(const std::string &text) {
  std::vector<Parts> layers;
  for (const std::string &some : divided(text, ';')) {
    const size_t colon = some.find(':');
    Parts parts;
    for (const std::string &part : divided(colon == std::string::npos ? some : some.substr(colon + 1), '/')) {
      parts.emplace_back();
      for (const std::string &number : divided(part, ','))
        parts.back().push_back(std::atoll(number.c_str()));
    }
    layers.insert(layers.end(), colon == std::string::npos ? kLayers : std::atoi(some.c_str()), parts);
  }
  return layers;
}

SplitPortions turned(Parts parts, int64_t units, int64_t epoch) {
  for (auto &part : parts)
    std::rotate(part.rbegin(), part.rbegin() + epoch % int64_t(part.size()), part.rend());
  return cut(units, parts.at(0), parts.at(1), parts.at(2));
}

int failed(const std::string &error) {
  fprintf(stderr, "bench-tensor: %s\n", error.c_str());
  return 1;
}

} // namespace

int main(int count, char **arguments) {
  if (count < 6)
    return failed("expected VALUES STEPS BALANCE HEADS COLUMNS [rotate]");
  const std::vector<Parts> heads = read(arguments[4]), columns = read(arguments[5]);
  if (heads.size() != kLayers || columns.size() != kLayers)
    return failed("expected portions of four layers");
  Setting run;
  run.shards = int(heads[0].at(0).size());
  run.layers = kLayers;
  run.width = 64;
  run.samples = 32;
  run.columns = 0;
  for (int64_t part : columns[0].at(0))
    run.columns += part;
  run.values = arguments[1];
  Shards shards(run);
  if (!shards.creation().empty())
    return failed(shards.creation());
  int64_t steps = std::atoll(arguments[2]);
  bool rotates = count > 6;
  double last = 0, best = 0;
  for (int64_t step = 0; step < steps; ++step) {
    if (step == 0 || (rotates && step % 128 == 0)) {
      int64_t epoch = rotates ? step / 128 : 0;
      std::vector<Portions> portions;
      for (int layer = 0; layer < kLayers; ++layer)
        portions.push_back({turned(heads[size_t(layer)], 8, epoch), turned(columns[size_t(layer)], run.columns, epoch),
                            arguments[3], layer, 1});
      std::string error = shards.portions(portions);
      if (!error.empty())
        return failed(error);
    }
    std::string error = shards.step(step);
    if (!error.empty())
      return failed(error);
    if ((step + 1) % 128 == 0) {
      last = shards.said().accuracy;
      best = std::max(best, last);
    }
  }
  printf("%.6f %.6f %.6f\n", last, best, shards.said().loss);
}
