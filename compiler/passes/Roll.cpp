// Each instruction becomes a symbol that describes it relative to those before it. The symbol holds the microbatch less
// that of the last instruction of the same operation, and for each wait its count less what the queue waited for has
// issued. It also holds the place in an overlapped pair, since no segment cuts a pair. A stretch in which microbatches
// and waits advance evenly is then a plain repetition of symbols, and comparing hashes of windows of symbols finds it.
#include "compiler/passes/Roll.h"

#include "runtime/plan/Unroll.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>
#include <vector>

namespace pipec {

namespace {

using plan::Instruction;
using plan::Program;
using plan::Wait;

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash + 1) * 0x9e3779b97f4a7c15u + value;
  hash = (hash ^ (hash >> 31)) * 0xbf58476d1ce4e5b9u;
  return hash ^ (hash >> 29);
}

/// The symbols of a program, as polynomial hashes of their prefixes modulo 2^64. Equal hashes may lie; executesSame()
/// has the last word.
class Symbols {
public:
  explicit Symbols(const Program &program) {
    std::vector<int64_t> issued(program.queues.size()), last(program.operations.size(), -1);
    prefix.reserve(program.instructions.size() + 1);
    power.reserve(program.instructions.size() + 1);
    prefix.push_back(0);
    power.push_back(1);
    unsigned left = 0; // instructions of a pair from the one at hand on
    for (const Instruction &i : program.instructions) {
      uint64_t symbol =
          mix(mix(i.operation, i.queue), uint64_t(i.microbatch - std::exchange(last[i.operation], i.microbatch)));
      if (const plan::Window window = plan::windowOf(program, uint32_t(&i - program.instructions.data()));
          window.length != 0)
        symbol = mix(mix(symbol, uint64_t(window.length)), uint64_t(window.from));
      if (plan::isHeader(program.operations[i.operation].kind))
        left = 3;
      inPair.push_back(left == 1 || left == 2);
      if (left != 0)
        symbol = mix(symbol, left--);
      for (uint32_t w = i.firstWait; w != i.firstWait + i.waits; ++w) {
        const Wait &wait = program.waits[w];
        symbol =
            mix(mix(symbol, wait.queue << 1 | unsigned(wait.previousStep)), uint64_t(wait.base - issued[wait.queue]));
      }
      ++issued[i.queue];
      prefix.push_back(prefix.back() * kBase + symbol);
      power.push_back(power.back() * kBase);
    }
  }

  size_t size() const { return prefix.size() - 1; }
  /// Whether an instruction is the F or the backward of a pair, behind the header. No segment may begin there. It is
  /// enough to ask this of a first trip: equal symbols have the same place in a pair.
  bool isInPair(size_t i) const { return inPair[i]; }
  uint64_t window(size_t from, size_t length) const { return prefix[from + length] - prefix[from] * power[length]; }

  /// How many symbols from `a` on equal those from `b` on, where b > a; 0 if fewer than `least`.
  size_t common(size_t a, size_t b, size_t least) const {
    if (size() - b < least || window(a, least) != window(b, least))
      return 0;
    size_t low = least, high = size() - b;
    while (low != high) {
      size_t middle = (low + high + 1) / 2;
      if (window(a, middle) == window(b, middle))
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  }

private:
  static constexpr uint64_t kBase = 0x9e3779b97f4a7c15u;
  std::vector<uint64_t> prefix, power;
  std::vector<bool> inPair;
};

// Lengths of windows. A body may itself contain a shorter repetition; windows longer than that show the body's own
// period.
constexpr size_t kWindows[] = {1, 6, 48, 384, 3072};
constexpr size_t kLengths = std::size(kWindows);

/// For each window of `length` symbols, where the same window comes next; 0: nowhere. `seen` is memory to work in.
std::vector<uint32_t> nextSame(const Symbols &symbols, size_t length, std::vector<uint32_t> &seen) {
  std::vector<uint32_t> next(symbols.size(), 0);
  if (symbols.size() < length)
    return next;
  const size_t windows = symbols.size() + 1 - length;
  // A hash table with open addressing: window → where it was seen last, plus 1. It is indexed by the high bits of the
  // hash, which are its good ones.
  const int bits = std::bit_width(windows + windows / 4);
  seen.assign(size_t(1) << bits, 0);
  for (size_t i = windows; i-- != 0;) {
    const uint64_t window = symbols.window(i, length);
    size_t slot = window >> (64 - bits);
    while (seen[slot] != 0 && symbols.window(seen[slot] - 1, length) != window)
      slot = (slot + 1) & (seen.size() - 1);
    if (seen[slot] != 0)
      next[i] = seen[slot] - 1;
    seen[slot] = uint32_t(i) + 1;
  }
  return next;
}

/// Where windows come next. Most programs repeat early, and then few places are asked about: longer windows are looked
/// for along the places of shorter ones, and all at once only where that has taken long.
class NextSame {
public:
  explicit NextSame(const Symbols &symbols) : symbols(symbols), left(kLengths, symbols.size()), tables(kLengths) {
    tables[0] = nextSame(symbols, kWindows[0], seen);
  }

  /// Where the window of kWindows[k] symbols at `i` comes next; 0: nowhere.
  uint32_t at(size_t k, size_t i) {
    const size_t length = kWindows[k];
    if (k == 0 || !tables[k].empty())
      return tables[k][i];
    if (i + length > symbols.size())
      return 0;
    const uint64_t window = symbols.window(i, length);
    for (uint32_t next = at(k - 1, i); next != 0; next = at(k - 1, next)) {
      if (next + length > symbols.size())
        return 0;
      if (symbols.window(next, length) == window)
        return next;
      if (left[k]-- == 0) {
        tables[k] = nextSame(symbols, length, seen);
        return tables[k][i];
      }
    }
    return 0;
  }

private:
  const Symbols &symbols;
  std::vector<size_t> left;                  // steps along shorter windows, by length
  std::vector<std::vector<uint32_t>> tables; // by length; empty: not needed so far
  std::vector<uint32_t> seen;
};

/// Copies a body. If it repeats, microbatches and waits get as strides what they advance by from the first to the
/// second trip.
void appendBody(const Program &from, Program &to, uint32_t first, uint32_t count, bool repeats) {
  for (uint32_t i = first; i != first + count; ++i) {
    Instruction made = from.instructions[i];
    const Instruction *second = repeats ? &from.instructions[i + count] : nullptr;
    made.firstWait = uint32_t(to.waits.size());
    made.microbatchStride = second ? second->microbatch - made.microbatch : 0;
    for (uint32_t w = 0; w != made.waits; ++w) {
      Wait wait = from.waits[from.instructions[i].firstWait + w];
      wait.stride = second ? from.waits[second->firstWait + w].base - wait.base : 0;
      to.waits.push_back(wait);
    }
    if (const plan::Window window = plan::windowOf(from, i); window.length != 0)
      to.windows.push_back({uint32_t(to.instructions.size()), window.length, window.from});
    to.instructions.push_back(made);
  }
}

bool sameWindow(const plan::Window &one, const plan::Window &other) {
  return one.length == other.length && one.from == other.from;
}

/// Whether the rolled program executes the same as the straight one, instruction by instruction.
bool executesSame(const Program &straight, const Program &rolled) {
  size_t at = 0;
  for (const plan::Segment &segment : rolled.step)
    for (int64_t trip = 0; trip != segment.trips; ++trip)
      for (uint32_t i = segment.first; i != segment.first + segment.count; ++i, ++at) {
        if (at == straight.instructions.size())
          return false;
        const Instruction &one = straight.instructions[at], &other = rolled.instructions[i];
        if (one.operation != other.operation || one.queue != other.queue || one.waits != other.waits ||
            one.microbatch != other.microbatch + other.microbatchStride * trip ||
            !sameWindow(plan::windowOf(straight, uint32_t(at)), plan::windowOf(rolled, i)))
          return false;
        for (uint32_t w = 0; w != one.waits; ++w) {
          const Wait &wait = straight.waits[one.firstWait + w], &affine = rolled.waits[other.firstWait + w];
          if (wait.queue != affine.queue || wait.previousStep != affine.previousStep ||
              wait.base != affine.base + affine.stride * trip)
            return false;
        }
      }
  return at == straight.instructions.size();
}

} // namespace

void roll(Program &program) {
  const Symbols symbols(program);
  NextSame next(symbols);
  Program rolled;
  std::vector<plan::Segment> segments;
  auto append = [&](uint32_t first, uint32_t count, uint32_t trips) {
    if (count == 0)
      return;
    segments.push_back({uint32_t(rolled.instructions.size()), count, trips});
    appendBody(program, rolled, first, count, trips > 1);
  };
  size_t straight = 0; // where the instructions begin that are not yet in a segment
  for (size_t i = 0; i < symbols.size();) {
    size_t length = 0, saved = 0, trips = 1;
    size_t same = 0; // longer windows, up to so many symbols, come next at the same place
    for (size_t k = 0; k != kLengths && kWindows[k] <= symbols.size() && !symbols.isInPair(i); ++k) {
      if (kWindows[k] <= same)
        continue;
      const uint32_t candidate = next.at(k, i);
      if (candidate == 0)
        break; // nor do longer ones come again
      const size_t period = candidate - i;
      same = symbols.common(i, candidate, period);
      if (const size_t repeats = same / period; repeats * period > saved) {
        length = period;
        saved = repeats * period;
        trips = repeats + 1;
      }
    }
    if (saved == 0) {
      ++i;
      continue;
    }
    append(uint32_t(straight), uint32_t(i - straight), 1);
    append(uint32_t(i), uint32_t(length), uint32_t(trips));
    i += length * trips;
    straight = i;
  }
  append(uint32_t(straight), uint32_t(symbols.size() - straight), 1);
  rolled.step = std::move(segments);
  if (!executesSame(program, rolled))
    return;
  program.instructions = std::move(rolled.instructions);
  program.waits = std::move(rolled.waits);
  program.step = std::move(rolled.step);
  program.windows = std::move(rolled.windows);
}

void Roller::operator()(Program &program) {
  if (!pays)
    return;
  const size_t straight = program.instructions.size();
  roll(program);
  pays = program.instructions.size() <= straight / 8;
}

} // namespace pipec
