#include "compiler/portions/Solve.h"

#include "compiler/portions/Box.h"

#include <algorithm>
#include <queue>

namespace pipec::portions {
namespace {

/// Order of open boxes: least bound first; of equal bounds the younger box, which is deeper.
struct Open {
  Box box;
  int64_t number = 0;
  bool operator<(const Open &other) const {
    return box.bound != other.box.bound ? box.bound > other.box.bound : number < other.number;
  }
};

class Search {
public:
  Search(const Program &program, int64_t work, Wide enough = -1)
      : program(program), boxes(program), work(work), enough(enough) {}

  void consider(const Counts &counts) {
    const Wide value = valueOf(program, counts);
    boxes.looks += int64_t(program.maxima.size() * program.shards());
    if (value >= 0 && (solved.value < 0 || value < solved.value)) {
      solved.value = value;
      solved.counts = counts;
    }
  }

  Solved run(Box box) {
    add(std::move(box));
    while (!open.empty() && boxes.looks < work && !known()) {
      Open next = open.top();
      open.pop();
      if (solved.value >= 0 && next.box.bound + program.constant >= solved.value)
        break;
      cut(next.box);
    }
    const Wide least = open.empty() ? solved.value : open.top().box.bound + program.constant;
    solved.lower = solved.value >= 0 ? std::min(least, solved.value) : std::max<Wide>(least, 0);
    solved.none = open.empty() && solved.value < 0;
    return solved;
  }

private:
  Wide best() const { return solved.value < 0 ? -1 : solved.value - program.constant; }

  bool known() const {
    return enough >= 0 &&
           ((solved.value >= 0 && solved.value <= enough) || open.top().box.bound + program.constant > enough);
  }

  void add(Box box) {
    if (!boxes.narrow(box, best()))
      return;
    consider(boxes.point(box));
    if (solved.value >= 0 && !boxes.narrow(box, best()))
      return;
    open.push({std::move(box), ++number});
  }

  /// Cuts a box in two halves of the range of the maximum that costs most. If few choices or no such ranges are left,
  /// cuts the widest range of units.
  void cut(const Box &box) {
    Box below = box, above = box;
    const int64_t maximum = isFew(box) ? -1 : dearest(box);
    if (maximum >= 0) {
      const size_t j = size_t(maximum);
      below.high[j] = box.low[j] + (box.high[j] - box.low[j]) / 2;
      above.low[j] = below.high[j] + 1;
    } else {
      size_t range = 0;
      for (size_t i = 0; i != box.least.size(); ++i)
        if (box.most[i] - box.least[i] > box.most[range] - box.least[range])
          range = i;
      if (box.most[range] == box.least[range])
        return consider(boxes.point(box)); // only one choice is left
      below.most[range] = box.least[range] + (box.most[range] - box.least[range]) / 2;
      above.least[range] = below.most[range] + 1;
    }
    add(std::move(below));
    add(std::move(above));
  }

  int64_t dearest(const Box &box) const {
    int64_t dearest = -1;
    Wide most = 0;
    for (size_t j = 0; j != box.low.size(); ++j) {
      const Wide cost = program.maxima[j].weight * (box.high[j] - box.low[j]);
      if (cost > most) {
        most = cost;
        dearest = int64_t(j);
      }
    }
    return dearest;
  }

  /// Whether about 4096 choices or fewer are left, since the last shard of each split gets what the others leave.
  bool isFew(const Box &box) const {
    double choices = 1;
    for (size_t split = 0; split != program.splits(); ++split) {
      int64_t widest = 0;
      for (size_t shard = 0; shard != program.shards(); ++shard) {
        const size_t i = split * program.shards() + shard;
        const int64_t range = box.most[i] - box.least[i];
        widest = std::max(widest, range);
        choices *= double(range) + 1;
      }
      choices /= double(widest) + 1;
    }
    return choices <= 4096;
  }

  const Program &program;
  Boxes boxes;
  int64_t work;
  Wide enough;
  int64_t number = 0;
  std::priority_queue<Open> open;
  Solved solved;
};

/// Distributes each split in turn anew, exactly, with the others unchanged, as long as the value improves.
Counts oneByOne(const Program &program, Counts counts, int64_t work) {
  constexpr int kRounds = 4;
  for (int round = 0; round != kRounds; ++round) {
    const Wide before = valueOf(program, counts);
    for (size_t split = 0; split != program.splits(); ++split) {
      Search search(program, work);
      search.consider(counts);
      Box box = Boxes(program).whole();
      for (size_t other = 0; other != program.splits(); ++other)
        for (size_t shard = 0; other != split && shard != program.shards(); ++shard)
          box.least[other * program.shards() + shard] = box.most[other * program.shards() + shard] =
              counts[other][shard];
      counts = search.run(std::move(box)).counts;
    }
    if (valueOf(program, counts) >= before)
      break;
  }
  return counts;
}

} // namespace

Solved solve(const Program &program, const std::vector<Counts> &begin, int64_t work, Wide enough) {
  Search search(program, work, enough);
  for (const Counts &each : begin)
    search.consider(each);
  if (program.splits() > 1)
    for (const Counts &each : begin)
      if (valueOf(program, each) >= 0)
        search.consider(oneByOne(program, each, work / int64_t(2 * program.splits())));
  Solved solved = search.run(Boxes(program).whole());
  if (program.splits() > 1 && solved.value > solved.lower) {
    solved.counts = oneByOne(program, solved.counts, work / int64_t(2 * program.splits()));
    solved.value = valueOf(program, solved.counts);
  }
  return solved;
}

} // namespace pipec::portions
