// Stages of tests that are asked for no norm and for nothing to save.
#pragma once

#include "runtime/stage/Stage.h"

namespace pipec::test {

using namespace runtime;

template <typename Base> class Unsaved : public Base {
public:
  using Base::Base;
  void gradientNorm(QueueId, const Label &, Slot, const Summand::Then &then) override { then(); }
  void setGlobalNorm(QueueId, const Label &, Slot, const Summand::Then &then) override { then(); }
  Status save(const std::string &, int64_t) override { return {}; }
  Status load(const std::string &, int64_t) override { return {}; }
  bool savesLayers() const override { return false; }
  Status saveLayer(int32_t, const std::string &, int64_t) override { return {}; }
  Status loadLayer(int32_t, const std::string &, int64_t) override { return {}; }
  StageMemory memory() const override { return {}; }
};

} // namespace pipec::test
