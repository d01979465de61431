// A packing problem: how many of given things fit at once into bins of size 1 each, where of each thing any part may be
// taken. Solved by the simplex method, with things added as they are found. Its prices guide the search for a bound and
// prove nothing by themselves, so they are doubles.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace pipec::schedule::bounds {

class Packing {
public:
  explicit Packing(size_t bins);

  /// What one thing takes of each bin.
  void add(std::vector<double> sizes) { things.push_back(std::move(sizes)); }
  /// Takes the most of the things there are, in at most so many steps, from what was taken before.
  void solve(int steps);

  /// How much is taken in all.
  double taken() const;
  /// What a bin is worth: at these prices no thing that was added costs less than 1, up to rounding.
  const std::vector<double> &prices() const { return price; }

private:
  static constexpr size_t kNone = size_t(-1);
  size_t bins;
  std::vector<std::vector<double>> things;
  // The basis: so much each of things, worth 1, or of what is left of a bin, worth 0.
  std::vector<size_t> left; // whose rest a row is; kNone: a thing's
  std::vector<size_t> row;  // of a bin's rest; kNone: it is not in the basis, the bin is full
  std::vector<double> amount;
  std::vector<std::vector<double>> inverse; // columns of the full bins; of the others a 1 in its row is all
  std::vector<double> price;

  double worth(const std::vector<double> &thing) const;
  void enter(const std::vector<double> &column, double worth, size_t rest);
};

} // namespace pipec::schedule::bounds
