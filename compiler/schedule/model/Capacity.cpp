#include "compiler/schedule/model/Capacity.h"

#include "runtime/plan/Limits.h"

#include <algorithm>

namespace pipec::schedule {

std::map<BufferEnd, Bytes> payloads(const Problem &problem) {
  std::map<BufferEnd, Bytes> result;
  for (size_t s = 0; s < problem.stages.size(); ++s) {
    const int32_t next = problem.after(int32_t(s));
    if (next < 0 || problem.rankOf[s] == problem.rankOf[size_t(next)])
      continue;
    for (const auto &[from, to] : {std::pair(int32_t(s), next), std::pair(next, int32_t(s))})
      for (const bool sends : {false, true}) {
        const int32_t sender = problem.rankOf[size_t(from)], receiver = problem.rankOf[size_t(to)];
        Bytes &bytes = result[sends ? BufferEnd{sender, receiver, true} : BufferEnd{receiver, sender, false}];
        bytes = std::max(bytes, problem.bytesBetween(from, to));
      }
  }
  return result;
}

std::vector<__int128> heldAlways(const Problem &problem, int32_t buffers) {
  std::vector<__int128> held(size_t(problem.ranks), 0);
  for (size_t r = 0; r != held.size(); ++r)
    for (const std::vector<Bytes> *bytes : {&problem.staticBytes, &problem.workspace, &problem.withheld})
      held[r] += bytes->empty() ? 0 : (*bytes)[r];
  for (const auto &[end, bytes] : payloads(problem))
    held[size_t(end.rank)] += __int128(buffers) * bytes;
  return held;
}

/// By rank, the least memoryLimit under which it can hold one microbatch.
std::vector<__int128> leastLimits(const Problem &problem) {
  std::vector<__int128> need = heldAlways(problem, 1);
  std::vector<__int128> most(need.size()); // of one microbatch, when all of its F are done or while a B runs
  std::vector<__int128> held(need.size()); // by the stages so far
  for (size_t s = 0; s != problem.stages.size(); ++s) {
    const Stage &stage = problem.stages[s];
    const auto rank = size_t(problem.rankOf[s]);
    if (problem.before(int32_t(s)) < 0) // a microbatch goes through one copy
      std::fill(held.begin(), held.end(), 0);
    held[rank] += takenBy(stage, Letter::F);
    // B and W of the later stages are done then.
    const Letter backward = problem.backward == BackwardMode::Fused ? Letter::BW : Letter::B;
    __int128 live = held[rank];
    if (stage.input) {
      most[rank] = std::max(most[rank], live + takenBy(stage, Letter::R));
      live += changeOf(stage, Letter::R);
    }
    most[rank] = std::max(most[rank], live + (problem.mixed ? 0 : takenBy(stage, backward)));
  }
  for (size_t r = 0; r != need.size(); ++r)
    need[r] += most[r];
  return need;
}

Bytes leastLimit(const Problem &problem) {
  const std::vector<__int128> need = leastLimits(problem);
  return static_cast<Bytes>(std::min<__int128>(*std::max_element(need.begin(), need.end()), limits::kBytes));
}

int32_t tightestRank(const Problem &problem) {
  const std::vector<__int128> need = leastLimits(problem);
  return static_cast<int32_t>(std::max_element(need.begin(), need.end()) - need.begin());
}

Capacities capacitiesOf(const Problem &problem, int32_t buffers) {
  Capacities capacities;
  if (problem.memoryLimit == 0)
    return capacities;
  for (const __int128 bytes : heldAlways(problem, buffers))
    capacities.push_back(static_cast<Bytes>(std::max<__int128>(problem.memoryLimit - bytes, 0)));
  return capacities;
}

} // namespace pipec::schedule
