// The layers of a process's stages, of which there are replicas, and the weights that it shares with other ranks: what
// the plan says of them, and where the stage keeps them.
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
  /// What the plan says of the stages of a rank, at first without memory.
  LayerTable() = default;
  LayerTable(const plan::Plan &plan, int32_t rank);

  /// All layers of a stage; none where the plan has no replicas. Of plan::kSharedWeights: the plan's shared weights,
  /// where this rank sums any with others; isSummed() says which.
  std::span<const LayerMemory> of(int32_t stage) const;
  /// Those that an operation is about.
  std::span<LayerMemory> of(const plan::Operation &operation);
  std::map<int32_t, std::vector<LayerMemory>> &all() { return stages; }

  /// Whether the update is of a share alone.
  bool sharded(const plan::Operation &operation) const;
  /// Of how many layers an operation is about; 0: the plan does not say.
  int32_t count(const plan::Operation &operation) const;

private:
  void addShared(const plan::Variant &variant, int32_t rank);

  std::map<int32_t, std::vector<LayerMemory>> stages;
  std::map<int32_t, int32_t> counts; // of layers, by stage
};

/// Of a shared weight: whether this rank sums it with others. `planned.stage` is its first stage that holds it.
inline bool isSummed(const LayerMemory &weight) { return weight.planned.stage != plan::kSharedWeights; }

/// What is wrong with the memory of a layer; nothing: it is `memory`'s now.
std::string takeLayer(const PipecLayer &found, LayerMemory &memory);

} // namespace pipec::runtime
