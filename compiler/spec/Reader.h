// Reads a YAML file into a Spec, or reports everything that is wrong with the file.
#pragma once

#include "compiler/spec/Diagnostic.h"
#include "compiler/spec/Spec.h"

#include <string>
#include <string_view>
#include <vector>

namespace pipec::spec {

/// Reads the file at `path`, overridden by `set` ("key.path=value", each value YAML) in order. Returns a spec with a
/// unique name for each variant, or one spec. Variants share ranks, placement and layers if the spec gives them. Checks
/// everything that does not need the number of stages. If that number depends on the schedule, setStages (Stages.h)
/// checks the rest; always call setStages before reading values by stage. False after an error: the errors are appended
/// to `diagnostics` in file order, and `variants` is then invalid.
bool readSpecs(const std::string &path, const std::vector<std::string> &set, std::vector<Spec> &variants,
               std::vector<Diagnostic> &diagnostics);

/// The same for a text; `name` is the file's name in places.
bool readSpecsText(std::string_view text, const std::string &name, const std::vector<std::string> &set,
                   std::vector<Spec> &variants, std::vector<Diagnostic> &diagnostics);

/// Reads a spec without variants, ready for use with the number of stages in Spec::stages.
bool readSpec(const std::string &path, const std::vector<std::string> &set, Spec &spec,
              std::vector<Diagnostic> &diagnostics);
bool readSpecText(std::string_view text, const std::string &name, const std::vector<std::string> &set, Spec &spec,
                  std::vector<Diagnostic> &diagnostics);

/// The path of a file that the spec names: relative to the spec's folder, unless absolute.
std::string resolvePath(const Spec &spec, const std::string &file);
/// The file of `schedule: {name: order, file: …}`; empty if the spec names none.
std::string orderFileOf(const Spec &spec);

} // namespace pipec::spec
