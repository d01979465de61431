// A fractional packing problem, which is a linear program: the most of given things that fits at once into bins of size
// 1, where any part of a thing may be taken. Solved by the simplex method; things (columns) are added as they are
// found. The dual prices of the bins guide the search for a bound and prove nothing by themselves, so they are doubles.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace pipec::schedule::bounds {

class Packing {
public:
  explicit Packing(size_t bins);

  /// Adds a thing, given by what one of it takes of each bin.
  void add(std::vector<double> sizes) { things.push_back(std::move(sizes)); }
  /// Improves what is taken of the things added so far, by at most `steps` simplex steps from the last solution on.
  void solve(int steps);

  /// How much of all things is taken, summed.
  double taken() const;
  /// What a bin is worth: at these prices no thing that was added costs less than 1, up to rounding.
  const std::vector<double> &prices() const { return price; }

private:
  static constexpr size_t kNone = size_t(-1);
  size_t bins;
  std::vector<std::vector<double>> things;
  // The basis. A row is a thing, worth 1, or the unused rest (slack) of a bin, worth 0, and an amount of it.
  std::vector<size_t> left; // the bin whose rest a row is; kNone: the row is a thing
  std::vector<size_t> row;  // the row of a bin's rest; kNone: it is not in the basis, so the bin is full
  std::vector<double> amount;
  std::vector<std::vector<double>> inverse; // columns of the full bins; of the others a 1 in its row is all
  std::vector<double> price;

  double worth(const std::vector<double> &thing) const;
  void enter(const std::vector<double> &column, double worth, size_t rest);
};

} // namespace pipec::schedule::bounds
