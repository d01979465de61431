// Work that runs while its caller does other work.
#pragma once

#include <cstddef>
#include <future>
#include <system_error>
#include <utility>

namespace pipec {

/// Runs `work` on a separate thread if that pays and the system has a thread; otherwise `work` runs when the result is
/// requested. `work` must not touch data that the caller changes meanwhile, nor make or change IR.
template <typename Work> auto beside(bool pays, Work work) -> std::future<decltype(work())> {
  if (pays)
    try {
      return std::async(std::launch::async, work);
    } catch (const std::system_error &) { // no more threads
    }
  return std::async(std::launch::deferred, std::move(work));
}

/// The number of instructions from which a thread pays.
inline constexpr size_t kManyOperations = size_t(1) << 14;

} // namespace pipec
