#include "compiler/burst/Samples.h"

#include <algorithm>
#include <numeric>

namespace pipec::burst {

Widths widthsOf(const Problem &problem) {
  const int64_t most = std::min<int64_t>(problem.ranks, problem.batch);
  Widths widths{1};
  for (int64_t width = 2; width <= most; width = problem.choices == Choices::All ? width + 1 : 2 * width)
    widths.push_back(int32_t(width));
  return widths;
}

int64_t movedSamples(int64_t batch, int32_t from, int32_t to) {
  const auto [narrow, wide] = std::minmax(from, to);
  if (narrow == wide)
    return 0;
  const int64_t both = std::lcm<int64_t>(narrow, wide);
  // By rank, each count falls by one at batch mod n and nowhere else, so what moves is constant between these ranks.
  int64_t most = samplesOf(batch, wide, narrow); // a rank of the wider group alone
  for (const int64_t rank : {int64_t(0), batch % narrow, batch % wide, batch % both})
    if (rank < narrow)
      most = std::max(most, std::max(samplesOf(batch, narrow, rank), samplesOf(batch, wide, rank)) -
                                samplesOf(batch, both, rank));
  return most;
}

} // namespace pipec::burst
