// What the rules of stages on several ranks promise, checked without them: plans are changed at random, and in each
// that still passes, what is needed happens before what needs it, in any timing.
#include "runtime/plan/Disassemble.h"
#include "runtime/simulate/Simulate.h"
#include "test/Rounds.h"
#include "test/plan/MakeBurst.h"
#include "test/plan/Refused.h"

#include <bitset>
#include <map>
#include <random>

namespace pipec::plan {
namespace {

using namespace test;

/// The starts and ends of all instructions of three steps, and which come before which in any timing.
class Happens {
public:
  explicit Happens(const Variant &variant) {
    for (const Program &program : variant.programs)
      for (int step = 0; step != kSteps; ++step)
        for (size_t i = 0; i != program.instructions.size(); ++i)
          add(program, step, program.instructions[i]);
    for (const auto &[key, members] : meetings)
      for (const size_t one : members)
        for (const size_t other : members)
          edges[startOf(one)].push_back(endOf(other));
  }

  size_t find(size_t rank, int step, Kind kind, Payload of, int32_t stage) const {
    const auto at = places.find({rank, step, kind, of, stage});
    return at == places.end() ? kNone : at->second;
  }

  /// That the one ends before the other starts; so it is where one of them is not.
  void needs(size_t one, size_t other) {
    const bool kept = one == kNone || other == kNone || reaches(endOf(one), startOf(other));
    EXPECT_TRUE(kept) << texts[one] << " before " << texts[other];
  }

  static constexpr int kSteps = 3;
  static constexpr size_t kNone = ~size_t(0), kMost = 2048;

private:
  static size_t startOf(size_t node) { return 2 * node; }
  static size_t endOf(size_t node) { return 2 * node + 1; }

  void add(const Program &program, int step, const Instruction &instruction) {
    const Operation &o = program.operations[instruction.operation];
    const size_t node = texts.size(), rank = size_t(program.rank);
    texts.push_back(describe(program.rank, o, 0) + " of step " + std::to_string(step));
    edges.resize(2 * node + 2);
    edges[startOf(node)].push_back(endOf(node));
    const auto queueOf = [&](uint32_t queue, int of) -> std::vector<size_t> & { return queues[{rank, queue, of}]; };
    std::vector<size_t> &own = queueOf(instruction.queue, step);
    const std::vector<size_t> &before = own.empty() ? queueOf(instruction.queue, step - 1) : own;
    if (!before.empty())
      edges[endOf(before.back())].push_back(startOf(node));
    own.push_back(node);
    for (uint32_t w = instruction.firstWait; w != instruction.firstWait + instruction.waits; ++w)
      if (const Wait &wait = program.waits[w]; wait.base > 0 && (!wait.previousStep || step > 0))
        edges[endOf(queueOf(wait.queue, step - int(wait.previousStep)).at(size_t(wait.base) - 1))].push_back(
            startOf(node));
    if (isCollective(o.kind))
      meetings[{o.group, step, met[{rank, step, o.group}]++}].push_back(node);
    places[{rank, step, o.kind, o.of, o.of == Payload::Norm ? 0 : o.stage}] = node;
  }

  bool reaches(size_t from, size_t to) {
    auto [at, fresh] = reached.try_emplace(from);
    if (fresh) {
      std::vector<size_t> left = {from};
      while (!left.empty()) {
        const size_t node = left.back();
        left.pop_back();
        for (const size_t next : edges[node])
          if (!at->second[next]) {
            at->second[next] = true;
            left.push_back(next);
          }
      }
    }
    return at->second[to];
  }

  std::vector<std::string> texts; // by node
  std::vector<std::vector<size_t>> edges;
  std::map<std::tuple<size_t, uint32_t, int>, std::vector<size_t>> queues;  // by rank, queue and step
  std::map<std::tuple<int32_t, int, int>, std::vector<size_t>> meetings;    // by group, step and number
  std::map<std::tuple<size_t, int, int32_t>, int> met;                      // by rank, step and group
  std::map<std::tuple<size_t, int, Kind, Payload, int32_t>, size_t> places; // by rank, step and operation
  std::map<size_t, std::bitset<kMost>> reached;
};

/// Of one rank, what its passes, reshards, sums and updates need of each other.
void keepsOrder(const Variant &variant) {
  Happens happens(variant);
  for (size_t rank = 0; rank != variant.programs.size(); ++rank)
    for (int step = 0; step + 1 != Happens::kSteps; ++step) {
      const auto at = [&](Kind kind, Payload of, int32_t stage, int later = 0) {
        return happens.find(rank, step + later, kind, of, stage);
      };
      const size_t norm = at(Kind::AllReduce, Payload::Norm, 0);
      for (int32_t stage = 0; stage != variant.stages; ++stage) {
        for (const auto &[kind, of, to] : {std::tuple(Kind::Forward, Payload::Forward, stage + 1),
                                           std::tuple(Kind::Backward, Payload::Backward, stage - 1)}) {
          const size_t made = at(kind, Payload::None, stage), reshard = at(Kind::Reshard, of, stage);
          const size_t taken = at(kind, Payload::None, to);
          happens.needs(made, reshard);
          happens.needs(reshard, taken);
          happens.needs(made, taken);
          happens.needs(reshard, at(kind, Payload::None, stage, 1));
          happens.needs(taken, at(Kind::Reshard, of, stage, 1));
        }
        const size_t forward = at(Kind::Forward, Payload::None, stage),
                     sum = at(Kind::AllReduce, Payload::Gradients, stage);
        const size_t backward = at(Kind::Backward, Payload::None, stage);
        const size_t update = at(Kind::Optimizer, Payload::None, stage);
        happens.needs(forward, backward);
        happens.needs(backward, sum);
        happens.needs(backward, update);
        happens.needs(sum, update);
        happens.needs(backward, norm);
        happens.needs(sum, norm);
        happens.needs(norm, update);
        happens.needs(update, at(Kind::Forward, Payload::None, stage, 1));
      }
    }
}

/// A wait for less, or for another step, or two instructions one behind the other the other way round.
void change(Program &program, std::mt19937_64 &random) {
  if (random() % 2 == 0 && !program.waits.empty()) {
    Wait &wait = program.waits[random() % program.waits.size()];
    if (random() % 4 == 0)
      wait.previousStep = !wait.previousStep;
    else
      wait.base = int64_t(random() % uint64_t(wait.base + 2));
    return;
  }
  std::vector<Instruction> instructions;
  std::vector<std::vector<Wait>> waits;
  for (const Instruction &each : program.instructions) {
    instructions.push_back(each);
    waits.emplace_back(program.waits.begin() + each.firstWait, program.waits.begin() + each.firstWait + each.waits);
  }
  if (instructions.size() < 2)
    return;
  const size_t at = random() % (instructions.size() - 1);
  std::swap(instructions[at], instructions[at + 1]);
  if (random() % 2 == 0)
    std::swap(waits[at], waits[at + 1]);
  setStep(program, instructions, waits, false);
}

Burst anyBurst(std::mt19937_64 &random) {
  Burst how;
  how.widths.clear();
  for (uint64_t stages = random() % 4 + 1; stages != 0; --stages)
    how.widths.push_back(int32_t(random() % 3) + 1);
  how.layers = 1;
  how.backward = random() % 4 != 0;
  how.early = random() % 2 == 0;
  how.updates = random() % 2 == 0;
  how.norm = random() % 3 == 0;
  return how;
}

TEST(GroupOrder, RightPlansKeepIt) {
  std::mt19937_64 random(1);
  for (int round = 0; round != 100; ++round)
    keepsOrder(makeBurst(anyBurst(random)).variants[0]);
}

TEST(GroupOrder, WhatPassesKeepsIt) {
  std::mt19937_64 random(2);
  int passed = 0;
  for (int round = 0; round < pipec::test::rounds(20'000, 1'000'000) && !testing::Test::HasFailure(); ++round) {
    Plan plan = makeBurst(anyBurst(random));
    for (uint64_t changes = random() % 3 + 1; changes != 0; --changes)
      change(plan.variants[0].programs[random() % plan.variants[0].programs.size()], random);
    simulate::Result result;
    if (!verify(plan).ok() || !simulate::simulate(plan.variants[0], {}, result).ok())
      continue;
    ++passed;
    SCOPED_TRACE(round);
    keepsOrder(plan.variants[0]);
    if (testing::Test::HasFailure())
      std::puts(disassemble(plan, {}).c_str());
  }
  EXPECT_GT(passed, pipec::test::seen(100));
}

} // namespace
} // namespace pipec::plan
