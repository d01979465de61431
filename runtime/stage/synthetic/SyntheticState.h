// The part of a synthetic stage for every kind of device: what it must receive, sum and save.
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
  /// The data that the neighbour sends for an instruction, and that the instruction sends on. If stages are on several
  /// ranks: of its first sample here.
  PatternKey inputOf(const Label &label) const;
  PatternKey outputOf(const Label &label) const;
  /// The samples in a slot of an instruction: `count` samples one behind the other, with keys that are `step`
  /// microbatches apart.
  struct Samples {
    int64_t count = 1;
    int64_t step = 0;
  };
  Samples samplesOf(const Label &label) const;
  /// Checks what was received. `wrong`: the first byte that differs from the pattern; -1: none.
  Status checkInput(const Label &label, plan::Bytes bytes, int64_t wrong) const;
  /// What this process adds to the norm of all gradients: process r adds r + 1.
  double own() const { return stands.world() + 1.0; }
  Status checkTotal(const Label &label, double total) const;

  /// The state is only the number of steps done.
  Status save(const std::string &path, int64_t steps) const;
  Status load(const std::string &path, int64_t steps) const;
  /// The same for a layer. If the plan says which layers are here, refuses others.
  Status saveLayer(int32_t layer, const std::string &path, int64_t steps) const;
  Status loadLayer(int32_t layer, const std::string &path, int64_t steps) const;

private:
  int64_t firstOf(const Label &label) const;
  Status holds(int32_t layer) const;

  const plan::Place stands;
  const int32_t processes;
  const std::vector<plan::Group> groups;
  std::vector<plan::Layers> layers; // of each stage here
  const int64_t batch;              // if stages are on several ranks: samples of a step
  const std::vector<int32_t> widths;
};

/// The functions of a stage that call such a state: Base is HostStage or Stage.
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
