// Functions of a library that is opened at run time: a table of named pointers. GPUs are reached through such tables,
// so pipec can be built on machines without a GPU and needs no header of the toolkit.
#pragma once

#include "runtime/plan/Status.h"

#include <atomic>
#include <string>
#include <vector>

namespace pipec::runtime::gpu {

template <typename Signature> struct Function;
template <typename R, typename... P> struct Function<R(P...)> {
  const char *name;
  R (*address)(P...) = nullptr;
};

/// The function that the calling thread is in; only one thread calls. From it another thread can tell that a call does
/// not return.
class Inside {
public:
  template <typename R, typename... P, typename... A> R call(const Function<R(P...)> &function, A... arguments) {
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    name.store(function.name, std::memory_order_release);
    const R result = function.address(arguments...);
    name.store(nullptr, std::memory_order_release);
    return result;
  }

  struct Seen {
    const char *name = nullptr; // null: the thread is in no call
    uint64_t count = 0;         // number of calls so far: the same name and count later is the same call
  };
  /// From any thread.
  Seen look() const { return {name.load(std::memory_order_acquire), count.load(std::memory_order_relaxed)}; }

private:
  std::atomic<const char *> name{nullptr};
  std::atomic<uint64_t> count{0};
};

/// The entries of a table, to be looked up.
struct Symbol {
  const char *name;
  void **address;
};
template <typename R, typename... P> Symbol symbolOf(Function<R(P...)> &function) {
  return {function.name, reinterpret_cast<void **>(&function.address)};
}

/// Opens `library` as the system finds it and looks up all symbols. Code::Run: which library or symbol is missing, and
/// `needed`, the version to have.
Status openLibrary(const char *library, const char *needed, const std::vector<Symbol> &symbols);

} // namespace pipec::runtime::gpu
