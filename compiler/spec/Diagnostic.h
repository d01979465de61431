// Errors in a spec, with their places. Errors are collected while the spec is read, and returned in file order.
#pragma once

#include "compiler/spec/Spec.h"
#include "runtime/plan/Units.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pipec::spec {

struct Note {
  std::string file;
  int line = 1;
  int column = 1;
  std::string message;
};

struct Diagnostic {
  std::string file;
  int line = 1;
  int column = 1;
  std::string message; // lower case, no full stop
  std::vector<Note> notes;
};

/// "file:line:column: error: message", its notes on lines of their own; no newline at the end.
std::string toString(const Diagnostic &diagnostic);

using units::quoted;
using units::shown;

/// Collects errors while a spec is read, each once. Keeps the first hundred.
class Errors {
public:
  explicit Errors(const std::vector<std::string> &sources) : sources(sources) {}

  void add(Mark mark, std::string message);
  void add(Mark mark, std::string message, Mark noteMark, std::string note);
  /// Until the next call, errors belong to a variant: a note says so, unless another variant has the same error.
  void inVariant(std::optional<Note> note) { variant = std::move(note); }
  bool any() const { return !found.empty(); }
  bool full() const { return found.size() >= kMost; }
  /// Returns all errors in file order; errors about a --set come after those of the file.
  std::vector<Diagnostic> take();

private:
  static constexpr size_t kMost = 100;
  struct Entry {
    Mark mark;
    Diagnostic diagnostic;
    bool ofVariant; // its last note names the variant
  };
  void insert(Mark mark, std::string message, std::vector<Note> notes);

  const std::vector<std::string> &sources;
  std::optional<Note> variant;
  std::vector<Entry> found; // in order
};

} // namespace pipec::spec
