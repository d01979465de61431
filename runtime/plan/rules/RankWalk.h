// One walk of a rank's step in issue order, in which rules P25 to P32, P34 and P35 are asked of each instruction.
//
// What an instruction may take as done follows from two things alone: a queue runs in order, and the waits of an
// instruction hold for all later ones of its queue. So for the compute queue the walk keeps, for each other queue, how
// many of its instructions must have completed, and the reverse. Both are kept for two steps in one number: a queue
// that executes n a step has completed `count` of the step before, or n + `count` of this one. The first step is easier
// than all others, since waits for the step before are met in it and every slot is free.
#pragma once

#include "runtime/plan/LiveMemory.h"
#include "runtime/plan/StageLayers.h"
#include "runtime/plan/rules/Rules.h"

#include <array>
#include <map>
#include <unordered_map>

namespace pipec::plan {

class RankWalk {
public:
  RankWalk(const Variant &variant, const Program &program, const rules::Facts &facts, const StageLayers &layers);
  Status run();

private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kSent = UINT32_MAX;

  /// Operations of one stage, kNone where it has none that is executed.
  struct Stage {
    Stage() { operations.fill(kNone), sends.fill(kNone), recvs.fill(kNone); }
    std::array<uint32_t, kKinds> operations;         // of passes, by kind; the first of those for some of its layers
    std::array<uint32_t, 3> sends, recvs;            // by payload
    const Stage *before = nullptr, *after = nullptr; // its neighbours, where they are on this rank
    std::array<int64_t, kWorks> done{}, due{};       // passes executed, of so many, by counterOf
    int64_t lastDeferred = 0;                        // the place of its last pass on the weights queue

    uint32_t of(Kind kind) const { return operations[size_t(kind)]; }
    uint32_t send(Payload of) const { return sends[size_t(of)]; }
    uint32_t recv(Payload of) const { return recvs[size_t(of)]; }
  };

  /// What one queue knows of another's completions.
  struct Known {
    int64_t now = 0;      // of this step
    int64_t previous = 0; // of the step before
  };

  /// The transfers of one peer and direction.
  struct Slots {
    int64_t size = 0, transfers = 0;
    int64_t count = 0; // so far
    uint32_t queue = 0;
    std::vector<uint32_t> place; // of the n-th transfer on its queue, from 1
    std::vector<uint32_t> user;  // of the n-th receive: its consumer's place on the compute queue, from 1; 0: not yet
    std::vector<uint32_t> level; // what was known complete when slot n was first taken, n < size
  };

  /// The instruction at hand.
  struct Now {
    Step step;
    uint32_t queue;
    int64_t microbatch;
    uint32_t place; // on its queue, from 1
    // Of the parts of a pass: whether it is the one that runs first, and the one that runs last.
    bool begins = true, ends = true;
  };

  /// A pass of which some parts have run.
  struct Begun {
    std::map<int32_t, int32_t> layers; // which: first and end, apart from each other
    int32_t count = 0;
  };
  /// What the passes of a kind of a stage hold and release, where they may have parts.
  struct Whole {
    __int128 holds = 0, frees = 0;
  };

  // RankWalk.cpp: the walk and what is known.
  void initialize();
  void meetWaits(const Now &now);
  Status visit(Now &now);
  int64_t level(const Known &known, uint32_t queue) const;
  uint32_t &mark(uint32_t operation, const Now &now) { return marks[operation][size_t(now.microbatch)]; }
  /// Whether this instruction waits for so many of a queue of its rank, or comes behind them on it.
  bool awaits(const Now &now, uint32_t queue, int64_t count) const;
  Stage *local(int32_t stage);
  Stage &stageOf(const Now &now) { return *stageOfOperation[now.step.instruction->operation]; }
  std::string text(const Now &now) const;
  Status once(const Now &now); // P25
  static uint64_t beganAs(uint32_t operation, const Now &now) {
    return uint64_t(operation) << 32 | uint64_t(now.microbatch);
  }

  // RulesOrder.cpp: data order.
  Status forwardInput(const Now &now);   // P26
  Status backwardInput(const Now &now);  // P27
  Status passInput(const Now &now);      // P28
  Status sendInput(const Now &now);      // P29
  Status optimizerInput(const Now &now); // P30
  Status reduceInput(const Now &now);    // P39
  Status reduced(const Now &now);        // P39, of the optimizer
  Status sliceOrder(const Now &now);     // P42
  Status partOrder(Now &now);            // P46
  Status partMemory(const Now &now);     // P33, of a part
  Status received(const Now &now, uint32_t recv, const char *label);
  uint32_t placeOf(Work work, const Stage &stage, const Now &now);
  void passed(const Now &now);

  // RulesMemory.cpp: transfer buffers, and what is live.
  void produced(const Now &now, uint32_t send);
  void consumed(const Now &now, uint32_t recv);
  Status sendSlot(const Now &now); // P31
  Status recvSlot(const Now &now); // P32
  Status slotsAcrossSteps();       // P31 and P32, of the first slots
  void hold(const Now &now);
  Status deferredAllDone(); // P34
  Status peak();            // P35

  const Variant &variant;
  const Program &program;
  const rules::Facts &facts;
  const StageLayers &layers;

  std::vector<Stage> stages; // as program.stages
  std::vector<Stage *> stageOfOperation;
  std::vector<std::vector<uint32_t>> marks;  // operation → microbatch → place on its queue, from 1; 0: not yet. Of a
                                             // pass in parts, with the first operation of its kind: that of the part
                                             // that runs last. Of a receive: n + 1. Of a send, from its producer on:
                                             // what the compute queue knew then, plus 1; when sent, kSent
  std::unordered_map<uint64_t, Begun> begun; // by operation and microbatch
  int64_t openParts = 0;                     // ranges of all of them
  std::vector<Whole> wholes;                 // by operation; only with replicas
  std::vector<Known> computeKnows, knowsCompute; // by the other queue
  std::vector<int64_t> issued;                   // on each queue
  std::vector<Slots> slots;                      // as program.rings
  std::vector<uint32_t> slotsOf;                 // operation → index into slots
  uint32_t weightsQueue = kNone;
  struct Reduce {
    uint32_t queue = kNone; // none: there is no such all-reduce
    uint32_t place = 0;     // on it, from 1; 0: not yet
  };
  Reduce copySum, norm; // with the rank that holds its stages' copies; over all ranks
  Reduce &reduceOf(const Operation &o) { return o.of == Payload::Norm ? norm : copySum; }
  LiveMemory memory;
  const Operation *mostOperation = nullptr; // where its peak is first reached
  int64_t mostMicrobatch = 0;
};

} // namespace pipec::plan
