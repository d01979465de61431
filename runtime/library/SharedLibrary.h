// A user's shared library in this process: opened at exactly its path, its functions found by name.
#pragma once

#include "runtime/plan/Status.h"

#include <cstdint>
#include <functional>
#include <string>

namespace pipec::runtime {

/// The header that a library is built with, for messages.
struct LibraryHeader {
  const char *what;    // "stage library"
  const char *file;    // "pipec_stage.h"
  const char *version; // name of the function that returns the header's version
};

/// The library stays loaded until the process ends, as threads that it started may still run its code.
class SharedLibrary {
public:
  /// Code::Input if there is no library, or if it cannot be loaded or does not say its version. All other functions
  /// need an open library.
  Status open(const std::string &path, const LibraryHeader &header);

  /// The header's version that it is built for.
  uint32_t version() const { return built; }

  /// Sets `function` to the library's function `name`. False, and an empty function, if there is none.
  template <typename F> bool find(const char *name, std::function<F> &function) const {
    function = reinterpret_cast<F *>(symbol(name)); // null: empty
    return bool(function);
  }

  /// The same for a required function. missing() reports the first one that is missing.
  template <typename F> void need(const char *name, std::function<F> &function) {
    if (!find(name, function) && !lacks)
      lacks = name;
  }
  /// Code::Input if a required function is missing.
  Status missing() const;
  /// Code::Input if the library has one of two functions that belong together, and not the other.
  Status together(const char *one, bool hasOne, const char *other, bool hasOther) const;

private:
  void *symbol(const char *name) const;

  std::string path;
  const char *what = "";
  const char *lacks = nullptr;
  void *handle = nullptr;
  uint32_t built = 0;
};

/// Opens a library in a child process and returns as a Status how the child ended, even by a crash, so that nothing of
/// the library stays in this process. Call this while the process has one thread. `what`: as in LibraryHeader.
Status tryApart(const std::string &path, const char *what, const std::function<Status()> &open);

} // namespace pipec::runtime
