// The judge of words. It shares no code with what makes words (Block.cpp, the solvers) nor with what times them
// (Evaluate.cpp): it counts letters and never looks at a cost.
#include "compiler/schedule/model/Problem.h"

#include <array>
#include <fmt/format.h>

namespace pipec::schedule {

namespace {

const char *nameOf(Letter letter) { return size_t(letter) < kLetters ? plan::name(kindOf(letter)) : "unknown letter"; }

/// The index by which a letter is counted (counterOf): BW counts as B.
enum Counter : size_t { Forward = 0, Backward = 1, Weight = 2 };
constexpr size_t kHalves = 3; // of the backwards those that leave a W

using Counts = std::vector<std::array<int32_t, 4>>; // of each stage, by counter

std::string verifySize(const Problem &problem, const Words &words) {
  if (words.size() != static_cast<size_t>(problem.ranks))
    return fmt::format("words for {} ranks, expected {}", words.size(), problem.ranks);
  return {};
}

std::string verifyLetter(const Problem &problem, int32_t rank, size_t position, const Op &op) {
  if (op.stage < 0 || static_cast<size_t>(op.stage) >= problem.stages.size())
    return fmt::format("letter {} of rank {} is of stage {}, expected 0 to {}", position, rank, op.stage,
                       problem.stages.size() - 1);
  if (problem.rankOf[op.stage] != rank)
    return fmt::format("letter {} of rank {} is of stage {}, which is on rank {}", position, rank, op.stage,
                       problem.rankOf[op.stage]);
  const bool fused = problem.backward == BackwardMode::Fused;
  if (size_t(op.letter) >= kLetters || !plan::isOrdered(kindOf(op.letter)) ||
      (fused && (op.letter == Letter::B || op.letter == Letter::W)))
    return fmt::format("letter {} of rank {} is {}, expected {}", position, rank, nameOf(op.letter),
                       fused ? "F or BW with a fused backward" : "F, B, W or BW with a split backward");
  return {};
}

std::string verifyOnce(const Problem &problem, int32_t rank, const Op &op, int32_t count) {
  if (count > problem.microbatches)
    return fmt::format("rank {} has more than {} {} of stage {}, expected one a microbatch", rank, problem.microbatches,
                       nameOf(op.letter), op.stage);
  return {};
}

/// `forwards`: of its stage, as far as a backward may count on them.
std::string verifyPrefix(const Problem &problem, int32_t rank, size_t position, const Op &op,
                         const std::array<int32_t, 4> &counts, int32_t forwards) {
  if (counterOf(op.letter) == Backward && problem.backwardOf(counts[Backward] - 1) >= forwards)
    return fmt::format("letter {} of rank {}: {} {} of stage {} comes before its F", position, rank, nameOf(op.letter),
                       problem.backwardOf(counts[Backward] - 1), op.stage);
  if (counts[Weight] > counts[kHalves])
    return fmt::format("letter {} of rank {}: W {} of stage {} comes before its B", position, rank, counts[Weight] - 1,
                       op.stage);
  return {};
}

std::string verifyAll(const Problem &problem, const Counts &counts) {
  const bool fused = problem.backward == BackwardMode::Fused;
  const std::array<const char *, 3> names = {"F", fused ? "BW" : "B", "W"};
  for (size_t s = 0; s < counts.size(); ++s)
    for (size_t kind = Forward; kind <= Weight; ++kind)
      if (const int32_t expected = kind == Weight ? counts[s][kHalves] : problem.microbatches;
          counts[s][kind] < expected)
        return fmt::format("rank {} has {} {} of stage {}, expected {}", problem.rankOf[s], counts[s][kind],
                           names[kind], s, expected);
  return {};
}

/// An overlapped letter is an F, and a whole backward stands behind it.
std::string verifyPair(int32_t rank, size_t position, const Word &word) {
  const Op &op = word[position];
  if (!op.overlapped || (op.letter == Letter::F && position + 1 < word.size() && !word[position + 1].overlapped &&
                         word[position + 1].letter == Letter::BW))
    return {};
  return fmt::format("letter {} of rank {}: {} of stage {} is overlapped, expected an F with a BW behind it", position,
                     rank, nameOf(op.letter), op.stage);
}

/// Runs the words by counts alone; what cannot run stands in a cycle.
class CycleFinder {
public:
  CycleFinder(const Problem &problem, const Words &words)
      : problem(problem), words(words), done(problem.stages.size(), {0, 0, 0, 0}), position(problem.ranks, 0) {}

  std::string find() {
    std::vector<int32_t> awake(problem.ranks);
    for (int32_t r = 0; r < problem.ranks; ++r)
      awake[r] = problem.ranks - 1 - r;
    std::vector<bool> isAwake(problem.ranks, true);
    while (!awake.empty()) {
      const int32_t rank = awake.back();
      awake.pop_back();
      isAwake[rank] = false;
      for (; position[rank] < words[rank].size() && missing(rank) < 0; ++position[rank]) {
        const Op &op = words[rank][position[rank]];
        ++done[op.stage][counterOf(op.letter)];
        const int32_t next = op.letter == Letter::W   ? -1
                             : op.letter == Letter::F ? problem.after(op.stage)
                                                      : problem.before(op.stage);
        if (next < 0)
          continue;
        if (const int32_t other = problem.rankOf[next]; other != rank && !isAwake[other]) {
          isAwake[other] = true;
          awake.push_back(other);
        }
      }
    }
    for (int32_t r = 0; r < problem.ranks; ++r)
      if (position[r] < words[r].size())
        return describe(r);
    return {};
  }

private:
  const Problem &problem;
  const Words &words;
  Counts done;
  std::vector<size_t> position;

  /// The stage whose letter a letter waits for; -1 if none. A prefix is in order on its own rank, so only neighbours
  /// matter.
  int32_t missing(const Op &op) const {
    const size_t kind = counterOf(op.letter);
    const int32_t from = kind == Weight ? -1 : kind == Forward ? problem.before(op.stage) : problem.after(op.stage);
    return from >= 0 && done[from][kind] <= done[op.stage][kind] ? from : -1;
  }

  /// The letter at which a rank stands: its next one, or, if only the other of a pair keeps that from running, the
  /// other.
  const Op &head(int32_t rank) const {
    const Op &op = words[rank][position[rank]];
    return op.overlapped && missing(op) < 0 ? words[rank][position[rank] + 1] : op;
  }
  int32_t missing(int32_t rank) const { return missing(head(rank)); }

  /// From any stopped rank the chain of waits leads into the cycle.
  std::string describe(int32_t rank) const {
    std::vector<bool> seen(problem.ranks, false);
    for (; !seen[rank]; rank = problem.rankOf[missing(rank)])
      seen[rank] = true;
    std::string text = "the words wait for each other in a cycle";
    const int32_t first = rank;
    int shown = 0;
    do {
      const Op &op = head(rank);
      const int32_t from = missing(rank);
      if (++shown <= 8)
        text += fmt::format("{} rank {} at {} {} of stage {} waits for {} of stage {}", shown == 1 ? ":" : ";", rank,
                            nameOf(op.letter), done[op.stage][counterOf(op.letter)], op.stage, nameOf(op.letter), from);
      rank = problem.rankOf[from];
    } while (rank != first);
    return shown <= 8 ? text : text + fmt::format("; and {} more", shown - 8);
  }
};

} // namespace

std::string verify(const Problem &problem, const Words &words) {
  if (std::string wrong = verifySize(problem, words); !wrong.empty())
    return wrong;
  Counts counts(problem.stages.size(), {0, 0, 0, 0});
  for (int32_t rank = 0; rank < problem.ranks; ++rank)
    for (size_t position = 0; position < words[rank].size(); ++position) {
      const Op &op = words[rank][position];
      if (std::string wrong = verifyLetter(problem, rank, position, op); !wrong.empty())
        return wrong;
      const int32_t count = ++counts[op.stage][counterOf(op.letter)];
      counts[op.stage][kHalves] += op.letter == Letter::B;
      if (std::string wrong = verifyOnce(problem, rank, op, count); !wrong.empty())
        return wrong;
      // What a forward yields is not there before the pair ends.
      const Op *with = position > 0 && words[rank][position - 1].overlapped ? &words[rank][position - 1] : nullptr;
      const int32_t forwards = counts[op.stage][Forward] - (with && with->stage == op.stage);
      if (std::string wrong = verifyPrefix(problem, rank, position, op, counts[op.stage], forwards); !wrong.empty())
        return wrong;
      if (std::string wrong = verifyPair(rank, position, words[rank]); !wrong.empty())
        return wrong;
    }
  if (std::string wrong = verifyAll(problem, counts); !wrong.empty())
    return wrong;
  return CycleFinder(problem, words).find();
}

} // namespace pipec::schedule
