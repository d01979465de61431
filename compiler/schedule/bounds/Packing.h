// A fractional packing problem, which is a linear program: pack as much as possible of the given things into bins of
// size 1; fractions of a thing are allowed. The simplex method solves it; things (columns) may be added between
// solutions. The dual prices of the bins only guide the search for a bound and prove nothing, so they are doubles.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace pipec::schedule::bounds {

class Packing {
public:
  explicit Packing(size_t bins);

  /// Adds a thing. `sizes`: how much of each bin one whole thing takes.
  void add(std::vector<double> sizes) { things.push_back(std::move(sizes)); }
  /// Improves the packing of the things added so far, by at most `steps` simplex steps from the last solution on.
  void solve(int steps);

  /// The packed amount, summed over all things.
  double taken() const;
  /// The dual price of each bin. At these prices every thing costs at least 1, up to rounding, once solve() is optimal.
  const std::vector<double> &prices() const { return price; }

private:
  static constexpr size_t kNone = size_t(-1);
  size_t bins;
  std::vector<std::vector<double>> things;
  // The basis. A row is a thing, worth 1, or the unused rest (slack) of a bin, worth 0; each row has an amount.
  std::vector<size_t> left; // by row: the bin that the row is the rest of; kNone: the row is a thing
  std::vector<size_t> row;  // by bin: the row of its rest; kNone: not in the basis, so the bin is full
  std::vector<double> amount;
  /// Columns of full bins; the column of another bin is a 1 in its row and is not stored.
  std::vector<std::vector<double>> inverse;
  std::vector<double> price;

  double worth(const std::vector<double> &thing) const;
  void enter(const std::vector<double> &column, double worth, size_t rest);
};

} // namespace pipec::schedule::bounds
