// What a synthetic stage is on every kind of device: what it is to receive, sum up and save.
#pragma once

#include "runtime/plan/Layers.h"
#include "runtime/plan/Place.h"
#include "runtime/plan/Status.h"
#include "runtime/stage/Stage.h"
#include "runtime/stage/synthetic/Pattern.h"

#include <string>
#include <vector>

namespace pipec::runtime {

class SyntheticState {
public:
  SyntheticState(int32_t world, const plan::Plan &plan);

  const plan::Place &place() const { return stands; }
  /// What the neighbour has sent for an instruction, and what the instruction sends on. Where stages are on several
  /// ranks, of its first sample here.
  PatternKey inputOf(const Label &label) const;
  PatternKey outputOf(const Label &label) const;
  /// A slot of an instruction is so many samples one behind the other, whose keys are so many microbatches apart.
  struct Samples {
    int64_t count = 1;
    int64_t step = 0;
  };
  Samples samplesOf(const Label &label) const;
  /// `wrong`: the first byte that differs from it; -1: none does.
  Status checkInput(const Label &label, plan::Bytes bytes, int64_t wrong) const;
  /// What process r adds to the norm of all gradients is r + 1.
  double own() const { return stands.world() + 1.0; }
  Status checkTotal(const Label &label, double total) const;

  /// There is nothing to keep but how many steps were done.
  Status save(const std::string &path, int64_t steps) const;
  Status load(const std::string &path, int64_t steps) const;
  /// Nor in a layer. Where the plan says which layers are here, another is refused.
  Status saveLayer(int32_t layer, const std::string &path, int64_t steps) const;
  Status loadLayer(int32_t layer, const std::string &path, int64_t steps) const;

private:
  int64_t firstOf(const Label &label) const;
  Status holds(int32_t layer) const;

  const plan::Place stands;
  const int32_t processes;
  const std::vector<plan::Group> groups;
  std::vector<plan::Layers> layers; // of each stage here
  const int64_t batch;              // where stages are on several ranks, and
  const std::vector<int32_t> widths;
};

/// The pass-on of a stage that keeps such a state: Base is HostStage or Stage.
template <typename Base> class Synthetic : public Base {
public:
  template <typename... Given>
  Synthetic(int32_t world, const plan::Plan &plan, Given &&...given)
      : Base(std::forward<Given>(given)...), state(world, plan) {}

  Status save(const std::string &path, int64_t steps) final { return state.save(path, steps); }
  Status load(const std::string &path, int64_t steps) override { return state.load(path, steps); }
  bool savesLayers() const final { return true; }
  Status saveLayer(int32_t layer, const std::string &path, int64_t steps) final {
    return state.saveLayer(layer, path, steps);
  }
  Status loadLayer(int32_t layer, const std::string &path, int64_t steps) final {
    return state.loadLayer(layer, path, steps);
  }
  StageMemory memory() const final { return {}; }

protected:
  const SyntheticState state;
};

} // namespace pipec::runtime
