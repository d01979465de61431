// A rank stands as before if since then it has run each kind of letter equally often: as many microbatches wait between
// the same passes, so the same bytes are held and the same letters may follow. If all ranks stand so at one time, what
// comes next comes as it did before. If they nearly do, the period is tried.
#include "compiler/schedule/improve/Grow.h"

#include "compiler/schedule/evaluate/Evaluate.h"
#include "compiler/schedule/evaluate/Timer.h"
#include "compiler/schedule/model/Random.h"

#include <algorithm>
#include <tuple>

namespace pipec::schedule {

namespace {

constexpr size_t kTried = 4;    // periods, the likeliest
constexpr int32_t kAnchors = 8; // moments at which one may begin

size_t lineOf(const Op &op) { return kWordLetters * size_t(op.stage) + size_t(op.letter); }

/// The words with the period run `times` times more.
Words repeated(const Words &words, const Period &period, int32_t microbatches, int32_t times) {
  Words result;
  for (size_t r = 0; r < words.size(); ++r) {
    const Word &word = words[r];
    const size_t length = word.size() / size_t(microbatches) * size_t(period.microbatches);
    const auto begin = word.begin() + std::ptrdiff_t(period.from[r]), end = begin + std::ptrdiff_t(length);
    Word &longer = result.emplace_back();
    longer.reserve(word.size() + length * size_t(times));
    longer.insert(longer.end(), word.begin(), end);
    for (int32_t i = 0; i < times; ++i)
      longer.insert(longer.end(), begin, end);
    longer.insert(longer.end(), end, word.end());
  }
  return result;
}

/// Takes the microbatches from `from` to `from` + `count` - 1 out of the words.
void leaveOut(Words &words, size_t kinds, int32_t from, int32_t count) {
  for (Word &word : words) {
    std::vector<int32_t> seen(kinds, 0);
    std::erase_if(word, [&](const Op &op) {
      const int32_t microbatch = seen[lineOf(op)]++;
      return microbatch >= from && microbatch < from + count;
    });
  }
}

class Finder {
public:
  Finder(const Problem &few, const Words &words, Objective objective)
      : few(few), words(words), objective(objective),
        starts(evaluate(few, words, {.withSpan = false, .withStarts = true}).starts) {
    // A hash of what has run, less whole microbatches: equal numbers mean equal states.
    Random random(1);
    std::vector<uint64_t> numbers(kWordLetters * few.stages.size());
    for (uint64_t &number : numbers)
      number = random.next();
    for (const Word &word : words) {
      uint64_t all = 0;
      std::vector<bool> isCounted(numbers.size(), false);
      size_t first = lineOf(word.front());
      for (const Op &op : word)
        if (!isCounted[lineOf(op)]) {
          isCounted[lineOf(op)] = true;
          all += numbers[lineOf(op)];
        }
      std::vector<uint64_t> &mine = states.emplace_back(1, 0);
      mine.reserve(word.size() + 1);
      for (const Op &op : word)
        mine.push_back(mine.back() + numbers[lineOf(op)] - (lineOf(op) == first ? all : 0));
    }
  }

  Period run() {
    for (int32_t k = 1; k <= few.microbatches / 2; ++k)
      look(k);
    const size_t count = std::min(kTried, found.size());
    std::partial_sort(found.begin(), found.begin() + std::ptrdiff_t(count), found.end(),
                      [](const Period &a, const Period &b) {
                        return std::tie(a.each, a.microbatches, a.from) < std::tie(b.each, b.microbatches, b.from);
                      });
    Period best;
    for (size_t i = 0; i < count; ++i)
      if (measure(found[i]) && (best.microbatches == 0 || farAhead(found[i]) < farAhead(best)))
        best = std::move(found[i]);
    return best.microbatches == 0 ? middle() : best;
  }

private:
  const Problem &few;
  const Words &words;
  const Objective objective;
  const std::vector<std::vector<Time>> starts;
  std::vector<std::vector<uint64_t>> states; // of each rank, before each letter and at the end
  std::vector<Period> found;

  /// Looks for periods of k microbatches, about the middle of the words first.
  void look(int32_t k) {
    const Word &word = words.front();
    const size_t steps = size_t(few.microbatches - k) / 2;
    const size_t each = word.size() / size_t(few.microbatches);
    const size_t apart = std::max<size_t>(steps / kAnchors, 1);
    for (size_t shift = 0; shift <= steps && shift <= kAnchors * apart; shift += apart) {
      // Alternating about where the period stands in the middle.
      const size_t middle = (word.size() - size_t(k) * each) / 2;
      const size_t at = shift / apart % 2 ? middle + shift / 2 * each : middle - shift / 2 * each;
      if (at < word.size())
        cut(k, starts.front()[at]);
    }
  }

  /// Finds for each rank the place nearest to `time` from which a period of k may begin.
  void cut(int32_t k, Time time) {
    Period period{.microbatches = k, .from = {}};
    Time longest = 0;
    for (size_t r = 0; r < words.size(); ++r) {
      const std::vector<Time> &mine = starts[r];
      const size_t each = words[r].size() / size_t(few.microbatches), length = each * size_t(k);
      const auto near = size_t(std::lower_bound(mine.begin(), mine.end(), time) - mine.begin());
      const auto isSteady = [&](size_t at) {
        return at + length < mine.size() && states[r][at] == states[r][at + length];
      };
      size_t distance = 0;
      while (distance <= 2 * each && !isSteady(near + distance) && (near < distance || !isSteady(near - distance)))
        ++distance;
      if (distance > 2 * each)
        return;
      const size_t at = isSteady(near + distance) ? near + distance : near - distance;
      period.from.push_back(at);
      longest = std::max(longest, mine[at + length] - mine[at]);
    }
    period.each = double(longest) / k;
    found.push_back(std::move(period));
  }

  /// The time by which periods are compared.
  double farAhead(const Period &period) const { return period.timeWith(8 * few.microbatches); }

  /// No period, only how fast the first rank goes on in the middle of its word.
  Period middle() const {
    const std::vector<Time> &mine = starts.front();
    const size_t third = mine.size() / 3;
    return {.from = {},
            .time = timeOf(few, words, objective),
            .each = double(mine[2 * third] - mine[third]) * 3 / few.microbatches};
  }

  bool measure(Period &period) const {
    Problem more = few;
    more.microbatches += period.microbatches;
    Words longer = repeated(words, period, few.microbatches, 1);
    period.time = timeOf(more, longer, objective);
    more.microbatches += period.microbatches;
    longer = repeated(words, period, few.microbatches, 2);
    const Time time = timeOf(more, longer, objective);
    if (period.time == kNever || time == kNever)
      return false;
    period.each = double(time - period.time) / period.microbatches;
    return true;
  }
};

} // namespace

Period periodOf(const Problem &few, const Words &words, Objective objective) {
  return Finder(few, words, objective).run();
}

Words grown(const Problem &problem, const Problem &few, const Words &words, const Period &period) {
  const int32_t more = problem.microbatches - few.microbatches;
  const int32_t times = (more + period.microbatches - 1) / period.microbatches;
  Words result = repeated(words, period, few.microbatches, times);
  if (const int32_t spare = times * period.microbatches - more; spare > 0)
    leaveOut(result, kWordLetters * problem.stages.size(), problem.microbatches / 2, spare);
  return result;
}

} // namespace pipec::schedule
