// A user's shared library in this process: opened, never searched for elsewhere, its functions found by name.
#pragma once

#include "runtime/plan/Status.h"

#include <cstdint>
#include <functional>
#include <string>

namespace pipec::runtime {

/// What a library is built with, for messages.
struct LibraryHeader {
  const char *what;    // "stage library"
  const char *file;    // "pipec_stage.h"
  const char *version; // the function that says which version of it
};

/// It stays loaded until the process ends: threads that it started may be in it.
class SharedLibrary {
public:
  /// Code::Input where there is none, it cannot be loaded, or does not say its version; the rest needs it open.
  Status open(const std::string &path, const LibraryHeader &header);

  /// The header's version that it is built for.
  uint32_t version() const { return built; }

  /// Sets `function` to what `name` is in the library; false, and empty, if it has no such function.
  template <typename F> bool find(const char *name, std::function<F> &function) const {
    function = reinterpret_cast<F *>(symbol(name)); // null: empty
    return bool(function);
  }

  /// The same of a function that it must have; the first of those that it has not is missing().
  template <typename F> void need(const char *name, std::function<F> &function) {
    if (!find(name, function) && !lacks)
      lacks = name;
  }
  /// Code::Input where a function is missing that was needed.
  Status missing() const;
  /// Code::Input where one of two functions is there that go together.
  Status together(const char *one, bool hasOne, const char *other, bool hasOther) const;

private:
  void *symbol(const char *name) const;

  std::string path;
  const char *what = "";
  const char *lacks = nullptr;
  void *handle = nullptr;
  uint32_t built = 0;
};

/// Opens a library in a process of its own, whose end, however it comes, is told as a Status: nothing of the library
/// stays in this one. Call it while the process has one thread. `what`: as LibraryHeader's.
Status tryApart(const std::string &path, const char *what, const std::function<Status()> &open);

} // namespace pipec::runtime
