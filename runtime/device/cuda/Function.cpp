#include "runtime/device/cuda/Function.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace pipec::runtime::gpu {

Status openLibrary(const char *library, const char *needed, const std::vector<Symbol> &symbols) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL); // stays open until the process ends
  if (!handle)
    return Status::run(fmt::format("{} {} or newer is needed: {}", library, needed, dlerror()));
  for (const Symbol &symbol : symbols)
    if (!(*symbol.address = dlsym(handle, symbol.name)))
      return Status::run(
          fmt::format("{} {} or newer is needed: the one found here has no {}", library, needed, symbol.name));
  return {};
}

} // namespace pipec::runtime::gpu
