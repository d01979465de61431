// Rebuilds the passes of a program, with the passes at a step's ends cut into parts by layers. Only for
// ExchangeGradients.
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

/// An instruction of the new program. Nodes are numbered in the order in which they are made, and refer to each other
/// by number.
struct Node {
  Instruction instruction;
  std::vector<uint32_t> uses, carried; // nodes that it waits for, in this step and in the step before
};

class PassParts {
public:
  /// `tail`: the number of W at the end that are cut; their parts run in the order of the next forward's need. The
  /// arguments must outlive the object; operations and queues are added to the program.
  PassParts(Program &program, const schedule::Replicas &replicas, std::map<int32_t, StageCuts> cuts, int32_t tail)
      : cuts(std::move(cuts)), program(program), replicas(replicas), tail(tail) {}

  /// Makes a node for each pass, or for each of its parts. Optimizer steps and collectives are left out.
  void run();

  /// Adds a node. An equal operation that was added before is reused.
  uint32_t add(const plan::Operation &operation, uint32_t place, int32_t microbatch = 0, plan::Bytes yields = -1);

  int32_t layerCount(int32_t stage) const { return int32_t(replicas.layers[size_t(stage)].size()); }

  const std::map<int32_t, StageCuts> cuts; // of each stage
  std::vector<Node> nodes;
  std::map<int32_t, std::vector<uint32_t>> parts; // by stage: the parts of its first forward
  /// By stage and layer: the last node that adds to the layer's gradients.
  std::map<int32_t, std::vector<uint32_t>> makers;
  uint32_t lastPass = 0;

private:
  /// A W of the tail with its B done. The slot of each such W is filled with as much work as the W had, taken from the
  /// parts that may run by then.
  struct Open {
    uint32_t whole;
    int32_t stage;
    size_t next = 0; // part
  };

  void findEnds();
  plan::Time timeOf(plan::Kind kind, int32_t stage, int32_t first, int32_t last) const;
  /// Adds the part of a pass with the layers from `first` up to `last`. A pass takes its memory with the part that runs
  /// first. It frees memory and hands on its tensor with the part that runs last.
  uint32_t addPart(uint32_t whole, int32_t first, int32_t last, bool runsFirst, bool runsLast);
  /// Records the node as the maker of the layers' gradients, and as the last pass so far.
  void note(plan::Kind kind, int32_t stage, int32_t first, int32_t last, uint32_t node);
  void keep(uint32_t i);
  /// Cuts a backward into parts. A BW runs its layers from last to first; a W may run first what the next forward needs
  /// first.
  void cutBackward(uint32_t i, plan::Kind kind, const Cuts &at);
  void fillSlot(plan::Time most);
  plan::Time addNext();

  Program &program;
  const schedule::Replicas &replicas;
  const int32_t tail;
  int32_t firstOfTail = 0;                                // number of its first W among all W
  std::map<int32_t, uint32_t> firstForward, lastBackward; // of each stage
  std::map<std::pair<int32_t, int32_t>, uint32_t> ofTail; // W of the tail, by stage and microbatch
  std::vector<Open> open;
  std::map<std::tuple<plan::Kind, plan::Payload, int32_t, int32_t, int32_t, plan::Bytes, plan::Bytes, plan::Bytes,
                      plan::Bytes, plan::Bytes>,
           uint32_t>
      operations; // operations added so far
};

} // namespace pipec
