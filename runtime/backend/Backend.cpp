#include "runtime/backend/Kinds.h"

namespace pipec::runtime {

std::unique_ptr<Backend> makeBackend(const BackendContext &context) {
  return context.options.device == "cuda" ? makeCudaBackend(context) : makeHostBackend(context);
}

bool needsSockets(const RunOptions &options) { return options.device == "host"; }

} // namespace pipec::runtime
