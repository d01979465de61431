// The revised simplex method. The inverse of the basis is kept by columns. Most bins are not full, at the end and on
// the way; columns of bins that are not full are not stored.
#include "compiler/schedule/bounds/Packing.h"

#include <algorithm>
#include <numeric>

namespace pipec::schedule::bounds {

namespace {
constexpr double kSmall = 1e-9;
}

Packing::Packing(size_t bins) : bins(bins), left(bins), row(bins), amount(bins, 1.0), inverse(bins), price(bins, 0.0) {
  std::iota(left.begin(), left.end(), size_t(0));
  std::iota(row.begin(), row.end(), size_t(0));
}

double Packing::taken() const {
  double sum = 0;
  for (size_t i = 0; i < bins; ++i)
    sum += left[i] == kNone ? amount[i] : 0;
  return sum;
}

double Packing::worth(const std::vector<double> &thing) const {
  double cost = 0;
  for (size_t i = 0; i < bins; ++i)
    cost += thing[i] * price[i];
  return 1 - cost;
}

void Packing::solve(int steps) {
  std::vector<std::pair<double, size_t>> worthy;
  while (steps > 0) {
    const auto least = std::min_element(price.begin(), price.end());
    if (*least < -kSmall) { // leaving part of this bin unused is better
      std::vector<double> unit(bins, 0.0);
      unit[size_t(least - price.begin())] = 1;
      enter(unit, -*least, size_t(least - price.begin()));
      --steps;
      continue;
    }
    worthy.clear();
    for (size_t i = 0; i < things.size(); ++i)
      if (const double now = worth(things[i]); now > kSmall)
        worthy.push_back({-now, i});
    if (worthy.empty())
      return;
    std::sort(worthy.begin(), worthy.end());
    const double enough = -worthy.front().first / 4; // after the first thing enters, the others may be worth less
    for (const auto &[before, i] : worthy)
      if (const double now = worth(things[i]); now > enough && steps-- > 0)
        enter(things[i], now, kNone);
  }
}

void Packing::enter(const std::vector<double> &column, double worth, size_t rest) {
  std::vector<double> change(bins, 0.0);
  for (size_t j = 0; j < bins; ++j) {
    if (row[j] != kNone)
      change[row[j]] += column[j];
    else if (column[j] != 0)
      for (size_t i = 0; i < bins; ++i)
        change[i] += column[j] * inverse[j][i];
  }
  size_t out = bins;
  double most = 0;
  for (size_t i = 0; i < bins; ++i)
    if (change[i] > kSmall)
      if (const double until = std::max(amount[i], 0.0) / change[i]; out == bins || until < most) {
        out = i;
        most = until;
      }
  if (out == bins)
    return;
  if (left[out] != kNone) { // this bin is full from now on
    row[left[out]] = kNone;
    inverse[left[out]].assign(bins, 0.0);
    inverse[left[out]][out] = 1;
  }
  for (size_t j = 0; j < bins; ++j) {
    if (row[j] != kNone)
      continue;
    const double pivot = inverse[j][out] / change[out];
    if (pivot != 0)
      for (size_t i = 0; i < bins; ++i)
        inverse[j][i] -= pivot * change[i];
    inverse[j][out] = pivot;
    price[j] += worth * pivot;
  }
  for (size_t i = 0; i < bins; ++i)
    amount[i] -= most * change[i];
  amount[out] = most;
  left[out] = rest;
  if (rest != kNone) {
    row[rest] = out;
    price[rest] = 0;
  }
}

} // namespace pipec::schedule::bounds
