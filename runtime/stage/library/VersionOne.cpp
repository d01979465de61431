// In version 1 structs had no size, a stage was told nothing of layers, device and stream, and a norm was a number.
#include "runtime/stage/library/VersionOne.h"

#include <cstring>
#include <vector>

namespace pipec::runtime {

namespace {

// As version 1 of the header had them; what they mean has not changed.
struct Facts {
  int32_t stage;
  int64_t inputBytes, outputBytes, activationBytes, contextBytes;
  int64_t forwardTime, backwardInputTime, backwardWeightTime, backwardTime, optimizerTime;
};
struct Setup {
  int32_t rank, ranks, worldRank, world, stages, ownCount;
  const Facts *own;
  int64_t microbatches;
  const char *provider;
};
struct Call {
  int32_t stage;
  int64_t microbatch, step;
  const void *input;
  int64_t inputBytes;
  void *output;
  int64_t outputBytes;
};
struct Memory {
  int64_t fixed, live, peak;
};

/// The library's own function, which is one of version 1; null if it has none.
template <typename F, typename Now> F *own(const std::function<Now> &function) {
  Now *const *found = function.template target<Now *>();
  return found ? reinterpret_cast<F *>(reinterpret_cast<void (*)()>(*found)) : nullptr;
}

Facts factsOf(const PipecStageFacts &now) {
  return {now.stage,         now.input_bytes,   now.output_bytes,        now.activation_bytes,
          now.context_bytes, now.forward_time,  now.backward_input_time, now.backward_weight_time,
          now.backward_time, now.optimizer_time};
}

Call callOf(const PipecCall &now) {
  return {now.stage, now.microbatch, now.step, now.input, now.input_bytes, now.output, now.output_bytes};
}

} // namespace

void adaptVersionOne(Library &library) {
  library.create = [create = own<int(const Setup *, PipecStage **, PipecError *)>(library.create)](
                       const PipecSetup *now, PipecStage **stage, PipecError *error) {
    std::vector<Facts> facts;
    for (int32_t n = 0; n < now->own_count; ++n)
      facts.push_back(factsOf(*PIPEC_STAGE_FACTS(now, n)));
    const Setup setup{now->rank,      now->ranks,   now->world_rank,   now->world,   now->stages,
                      now->own_count, facts.data(), now->microbatches, now->provider};
    return create(&setup, stage, error);
  };
  for (Library::Call &each : library.calls)
    if (auto *function = own<int(PipecStage *, const Call *, PipecError *)>(each))
      each = [function](PipecStage *stage, const PipecCall *now, PipecError *error) {
        const Call call = callOf(*now);
        return function(stage, &call, error);
      };
  if (auto *both = own<int(PipecStage *, const Call *, const Call *, PipecError *)>(library.forwardBackward))
    library.forwardBackward = [both](PipecStage *stage, const PipecCall *forward, const PipecCall *backward,
                                     PipecError *error) {
      const Call first = callOf(*forward), second = callOf(*backward);
      return both(stage, &first, &second, error);
    };
  if (auto *norm = own<int(PipecStage *, int64_t, double *, PipecError *)>(library.gradientNorm))
    library.gradientNorm = [norm](PipecStage *stage, const PipecCall *now, PipecError *error) {
      double squares = 0;
      const int code = norm(stage, now->step, &squares, error);
      std::memcpy(now->output, &squares, sizeof squares);
      return code;
    };
  if (auto *norm = own<int(PipecStage *, int64_t, double, PipecError *)>(library.setGlobalNorm))
    library.setGlobalNorm = [norm](PipecStage *stage, const PipecCall *now, PipecError *error) {
      double squares = 0;
      std::memcpy(&squares, now->input, sizeof squares);
      return norm(stage, now->step, squares, error);
    };
  library.memory = [memory = own<void(const PipecStage *, Memory *)>(library.memory)](const PipecStage *stage,
                                                                                      PipecMemory *now) {
    Memory held{};
    memory(stage, &held);
    now->fixed = held.fixed;
    now->live = held.live;
    now->peak = held.peak;
  };
}

} // namespace pipec::runtime
