// The replicated layers of a process's stages, and the weights that it shares with other ranks: what the plan says
// about them, and where the stage keeps them.
#pragma once

#include "runtime/device/LayerMemory.h"
#include "runtime/stage/pipec_stage.h"

#include <map>
#include <span>
#include <string>
#include <vector>

namespace pipec::runtime {

class LayerTable {
public:
  /// The layers that the plan has for the stages of a rank, at first without memory.
  LayerTable() = default;
  LayerTable(const plan::Plan &plan, int32_t rank);

  /// All layers of a stage; none if the plan has no replicas. For plan::kSharedWeights: the plan's shared weights, if
  /// this rank sums any of them with others; isSummed() says which.
  std::span<const LayerMemory> of(int32_t stage) const;
  /// The layers that an operation is about.
  std::span<LayerMemory> of(const plan::Operation &operation);
  std::map<int32_t, std::vector<LayerMemory>> &all() { return stages; }

  /// Whether an update changes this replica's share alone.
  bool sharded(const plan::Operation &operation) const;
  /// The number of layers that an operation is about; 0: the plan does not say.
  int32_t count(const plan::Operation &operation) const;

private:
  void addShared(const plan::Variant &variant, int32_t rank);

  std::map<int32_t, std::vector<LayerMemory>> stages;
  std::map<int32_t, int32_t> counts; // number of layers, by stage
};

/// Whether this rank sums a shared weight with others. `planned.stage` is its first stage with the weight.
inline bool isSummed(const LayerMemory &weight) { return weight.planned.stage != plan::kSharedWeights; }

/// Takes the memory of a layer. Returns what is wrong with it; empty: nothing, and `memory` has it now.
std::string takeLayer(const PipecLayer &found, LayerMemory &memory);

} // namespace pipec::runtime
