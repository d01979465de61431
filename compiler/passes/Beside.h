// Work that runs while its caller goes on with other work.
#pragma once

#include <cstddef>
#include <future>
#include <system_error>
#include <utility>

namespace pipec {

/// Runs `work` on a thread of its own if that pays and the system has one; else when the result is asked for. `work`
/// must not touch what its caller changes meanwhile, nor make or change IR.
template <typename Work> auto beside(bool pays, Work work) -> std::future<decltype(work())> {
  if (pays)
    try {
      return std::async(std::launch::async, work);
    } catch (const std::system_error &) { // no more threads
    }
  return std::async(std::launch::deferred, std::move(work));
}

/// From so many instructions on a thread pays.
inline constexpr size_t kManyOperations = size_t(1) << 14;

} // namespace pipec
