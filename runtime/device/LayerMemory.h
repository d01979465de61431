// The gradients and weights of a layer where its stage keeps them: what replicas sum and gather in place.
#pragma once

#include "runtime/plan/Plan.h"

#include <cstddef>

namespace pipec::runtime {

enum class Number : uint8_t { Float32 = 1, Float64 = 2 };
constexpr plan::Bytes sizeOf(Number number) { return number == Number::Float64 ? 8 : 4; }

struct LayerMemory {
  std::byte *gradients = nullptr; // `elements` elements; the address stays the same for the whole run
  std::byte *weights = nullptr;   // as `gradients`
  int64_t elements = 0;
  Number type = Number::Float32;
  /// The layer in the plan; a stage that emulates may hold fewer bytes of it.
  plan::Layer planned;
};

} // namespace pipec::runtime
