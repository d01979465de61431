// The passes of a program made anew, those at a step's ends cut into parts by layers. For ExchangeGradients alone.
#pragma once

#include "compiler/program/ProgramSet.h"
#include "compiler/schedule/exchange/Exchange.h"

#include <map>
#include <tuple>

namespace pipec {

/// Groups of a stage's layers: the first layer of each, ascending, and the number of layers at the end.
using Cuts = std::vector<int32_t>;

/// Where the first forward and the last backwards of a stage are cut.
struct StageCuts {
  Cuts forward, backward;
};

/// An instruction of a program to be, numbered in the order in which it is made; others name it so.
struct Node {
  Instruction instruction;
  std::vector<uint32_t> uses, carried; // nodes that it waits for, in this step and in the one before
};

class PassParts {
public:
  /// `tail`: so many W at the end are cut, and their parts run in the order of the next forward's need. All outlive the
  /// object; operations and queues are added to the program.
  PassParts(Program &program, const schedule::Replicas &replicas, std::map<int32_t, StageCuts> cuts, int32_t tail)
      : cuts(std::move(cuts)), program(program), replicas(replicas), tail(tail) {}

  /// Makes a node of each pass, or one of each of its parts. Optimizer steps and collectives are left out.
  void run();

  /// Adds a node; looks its operation up among those that were added.
  uint32_t add(const plan::Operation &operation, uint32_t place, int32_t microbatch = 0, plan::Bytes yields = -1);

  int32_t layerCount(int32_t stage) const { return int32_t(replicas.layers[size_t(stage)].size()); }

  const std::map<int32_t, StageCuts> cuts; // of each stage
  std::vector<Node> nodes;
  std::map<int32_t, std::vector<uint32_t>> parts;  // of each stage's first forward, as it is cut
  std::map<int32_t, std::vector<uint32_t>> makers; // of each stage and layer: the last that adds to its gradients
  uint32_t lastPass = 0;

private:
  /// A W of the tail whose B has run. Each slot of such a W is filled with as much work as its own W had, of the parts
  /// that may run by then.
  struct Open {
    uint32_t whole;
    int32_t stage;
    size_t next = 0; // part
  };

  void findEnds();
  plan::Time timeOf(plan::Kind kind, int32_t stage, int32_t first, int32_t last) const;
  /// The part of a pass that has the layers from `first` up to `last`. A pass takes its memory with the part that runs
  /// first, and gives it back, and hands on its tensor, with the one that runs last.
  uint32_t addPart(uint32_t whole, int32_t first, int32_t last, bool runsFirst, bool runsLast);
  /// Remembers who makes the gradients of layers, and that this is the last pass so far.
  void note(plan::Kind kind, int32_t stage, int32_t first, int32_t last, uint32_t node);
  void keep(uint32_t i);
  /// A BW goes through its layers from the last to the first; a W may take what the next forward needs first.
  void cutBackward(uint32_t i, plan::Kind kind, const Cuts &at);
  void fillSlot(plan::Time most);
  plan::Time addNext();

  Program &program;
  const schedule::Replicas &replicas;
  const int32_t tail;
  int32_t firstOfTail = 0;                                // its number among all W
  std::map<int32_t, uint32_t> firstForward, lastBackward; // of each stage
  std::map<std::pair<int32_t, int32_t>, uint32_t> ofTail; // W of the tail, by stage and microbatch
  std::vector<Open> open;
  std::map<std::tuple<plan::Kind, plan::Payload, int32_t, int32_t, int32_t, plan::Bytes, plan::Bytes, plan::Bytes,
                      plan::Bytes, plan::Bytes>,
           uint32_t>
      operations; // that were added
};

} // namespace pipec
