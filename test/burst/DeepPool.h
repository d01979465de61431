// The paper's three models as chains, from test/bench/deeppool_workloads.json: blocks of layers, so that branches are
// one layer. Times A100_tf32, scaled at each batch so that they add up to the measured total; 4 bytes an element.
#pragma once

#include "compiler/burst/Throughput.h"

#include <string>

namespace pipec::burst {

inline constexpr const char *kModels[] = {"vgg16", "wide_resnet101_2", "inception_v3"};

struct Size {
  int64_t batch = 1;
  int32_t ranks = 1;
};
inline constexpr Size kSizes[] = {{8, 4},   {8, 8},    {16, 8},   {32, 8},   {32, 16},
                                  {64, 32}, {128, 64}, {256, 64}, {256, 128}};

struct Model {
  Problem problem;       // gradients summed at the end by trees over 266 GB/s and 40 us
  Background background; // the same model, batch 8
};

Model deepPool(const std::string &name, Size size);

} // namespace pipec::burst
