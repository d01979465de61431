// From a YAML file to a Spec, or to everything that is wrong with it.
#pragma once

#include "compiler/spec/Diagnostic.h"
#include "compiler/spec/Spec.h"

#include <string>
#include <string_view>
#include <vector>

namespace pipec::spec {

/// Reads the file at `path` with `set` ("key.path=value", each value YAML) laid over it in order. False after an error;
/// what is wrong is appended to `diagnostics`, in file order, and `spec` is then of no use.
bool readSpec(const std::string &path, const std::vector<std::string> &set, Spec &spec,
              std::vector<Diagnostic> &diagnostics);

/// The same of a text; `name` stands for the file in places.
bool readSpecText(std::string_view text, const std::string &name, const std::vector<std::string> &set, Spec &spec,
                  std::vector<Diagnostic> &diagnostics);

} // namespace pipec::spec
