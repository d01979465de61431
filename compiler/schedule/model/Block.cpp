// Checking and repeating building blocks (arXiv 2405.15362, section 3). Repeating is a merge: the passes of one stage
// and kind are an arithmetic progression of slots with the block's interval, so the streams of a rank take turns.
#include "compiler/schedule/model/Block.h"

#include "runtime/plan/Limits.h"

#include <algorithm>
#include <deque>
#include <fmt/format.h>
#include <tuple>

namespace pipec::schedule {

namespace {

std::string checkSize(const std::vector<int64_t> &offsets, const char *name, size_t expected) {
  if (offsets.size() != expected)
    return fmt::format("{} {} slots, expected {}", offsets.size(), name, expected);
  return {};
}

/// Bounded so that the last slot of the last microbatch is an int64.
std::string checkRange(const Problem &problem, const Block &block) {
  if (block.interval < 1 || block.interval > limits::kTime / problem.microbatches)
    return fmt::format("an interval of {} slots, expected 1 to {}", block.interval,
                       limits::kTime / problem.microbatches);
  for (const auto &[name, offsets] :
       {std::pair("forward", &block.forward), std::pair("backward input", &block.backwardInput),
        std::pair("backward weight", &block.backwardWeight)})
    for (size_t s = 0; s < offsets->size(); ++s)
      if ((*offsets)[s] < 0 || (*offsets)[s] > limits::kTime)
        return fmt::format("the {} slot of stage {} is {}, expected 0 to {}", name, s, (*offsets)[s], limits::kTime);
  return {};
}

std::string checkForwardOrder(const Block &block, size_t s) {
  if (s > 0 && block.forward[s] <= block.forward[s - 1])
    return fmt::format("the forward of stage {} is in slot {}, expected after slot {}, the forward of stage {}", s,
                       block.forward[s], block.forward[s - 1], s - 1);
  return {};
}

std::string checkBackwardOrder(const Block &block, size_t s) {
  const bool last = s + 1 == block.forward.size();
  const int64_t before = last ? block.forward[s] : block.backwardInput[s + 1];
  if (block.backwardInput[s] <= before)
    return fmt::format("the backward of stage {} is in slot {}, expected after slot {}, the {} of stage {}", s,
                       block.backwardInput[s], before, last ? "forward" : "backward", last ? s : s + 1);
  return {};
}

std::string checkWeightOrder(const Block &block, size_t s) {
  if (!block.backwardWeight.empty() && block.backwardWeight[s] <= block.backwardInput[s])
    return fmt::format("the backward weight of stage {} is in slot {}, expected after slot {}, its backward input", s,
                       block.backwardWeight[s], block.backwardInput[s]);
  return {};
}

/// Two passes of a rank in one slot modulo the interval would meet in the long run, and have no order.
std::string checkCollisions(const Problem &problem, const Block &block) {
  constexpr const char *kNames[] = {"forward", "backward", "backward weight"};
  struct Pass {
    int32_t rank;
    int64_t residue;
    size_t stage;
    int name;
  };
  std::vector<Pass> passes;
  int name = 0;
  for (const auto *offsets : {&block.forward, &block.backwardInput, &block.backwardWeight}) {
    for (size_t s = 0; s < offsets->size(); ++s)
      passes.push_back({problem.rankOf[s], (*offsets)[s] % block.interval, s, name});
    ++name;
  }
  std::sort(passes.begin(), passes.end(), [](const Pass &a, const Pass &b) {
    return std::tie(a.rank, a.residue, a.stage, a.name) < std::tie(b.rank, b.residue, b.stage, b.name);
  });
  const auto same = std::adjacent_find(passes.begin(), passes.end(), [](const Pass &a, const Pass &b) {
    return a.rank == b.rank && a.residue == b.residue;
  });
  if (same != passes.end())
    return fmt::format("on rank {} the {} of stage {} and the {} of stage {} both fall on slot {} modulo {}, expected "
                       "different slots",
                       same->rank, kNames[same->name], same->stage, kNames[same[1].name], same[1].stage, same->residue,
                       block.interval);
  return {};
}

} // namespace

std::string check(const Problem &problem, const Block &block) {
  const size_t stages = problem.stages.size();
  const bool fused = problem.backward == BackwardMode::Fused;
  if (std::string wrong = checkSize(block.forward, "forward", stages); !wrong.empty())
    return wrong;
  if (std::string wrong = checkSize(block.backwardInput, fused ? "backward" : "backward input", stages); !wrong.empty())
    return wrong;
  if (std::string wrong = checkSize(block.backwardWeight, "backward weight", fused ? 0 : stages); !wrong.empty())
    return wrong;
  if (std::string wrong = checkRange(problem, block); !wrong.empty())
    return wrong;
  for (size_t s = 0; s < stages; ++s)
    if (std::string wrong = checkForwardOrder(block, s); !wrong.empty())
      return wrong;
  for (size_t s = stages; s-- > 0;) {
    if (std::string wrong = checkBackwardOrder(block, s); !wrong.empty())
      return wrong;
    if (std::string wrong = checkWeightOrder(block, s); !wrong.empty())
      return wrong;
  }
  return checkCollisions(problem, block);
}

Words repeat(const Problem &problem, const Block &block) {
  struct Stream {
    int64_t slot; // of its next microbatch
    int32_t left; // microbatches
    Op op;
  };
  std::vector<std::vector<Stream>> streams(problem.ranks);
  const bool fused = problem.backward == BackwardMode::Fused;
  for (int32_t s = 0; s < static_cast<int32_t>(problem.stages.size()); ++s) {
    auto &mine = streams[problem.rankOf[s]];
    mine.push_back({block.forward[s], problem.microbatches, {s, Letter::F}});
    mine.push_back({block.backwardInput[s], problem.microbatches, {s, fused ? Letter::BW : Letter::B}});
    if (!fused)
      mine.push_back({block.backwardWeight[s], problem.microbatches, {s, Letter::W}});
  }

  Words words(problem.ranks);
  std::deque<Stream> turns; // streams begun, by their next slot
  for (int32_t r = 0; r < problem.ranks; ++r) {
    std::sort(streams[r].begin(), streams[r].end(), [](const Stream &a, const Stream &b) { return a.slot < b.slot; });
    words[r].reserve(streams[r].size() * problem.microbatches);
    for (auto begins = streams[r].begin(); begins != streams[r].end() || !turns.empty();) {
      const bool begin = begins != streams[r].end() && (turns.empty() || begins->slot < turns.front().slot);
      Stream next = begin ? *begins++ : turns.front();
      if (!begin)
        turns.pop_front();
      words[r].push_back(next.op);
      next.slot += block.interval; // behind all others, which had their turns less than an interval ago
      if (--next.left > 0)
        turns.push_back(next);
    }
  }
  return words;
}

} // namespace pipec::schedule
