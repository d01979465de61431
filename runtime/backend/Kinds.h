// The kinds of backends, for makeBackend().
#pragma once

#include "runtime/backend/Backend.h"

namespace pipec::runtime {

std::unique_ptr<Backend> makeHostBackend(const BackendContext &context);
std::unique_ptr<Backend> makeCudaBackend(const BackendContext &context);

} // namespace pipec::runtime
