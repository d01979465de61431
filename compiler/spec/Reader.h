// From a YAML file to a Spec, or to everything that is wrong with it.
#pragma once

#include "compiler/spec/Diagnostic.h"
#include "compiler/spec/Spec.h"

#include <string>
#include <string_view>
#include <vector>

namespace pipec::spec {

/// Reads the file at `path` with `set` ("key.path=value", each value YAML) laid over it in order. Gives a spec for each
/// variant, with a name of its own, or one spec. Variants share ranks, placement and layers as far as the spec gives
/// them. Everything is checked that does not need the number of stages; where that is open until a schedule is chosen,
/// setStages (Stages.h) checks the rest. Call setStages in any case before values by stage are read. False after an
/// error; what is wrong is appended to `diagnostics`, in file order, and `variants` is then of no use.
bool readSpecs(const std::string &path, const std::vector<std::string> &set, std::vector<Spec> &variants,
               std::vector<Diagnostic> &diagnostics);

/// The same of a text; `name` stands for the file in places.
bool readSpecsText(std::string_view text, const std::string &name, const std::vector<std::string> &set,
                   std::vector<Spec> &variants, std::vector<Diagnostic> &diagnostics);

/// Reads a spec without variants, ready for use, with the number of stages that Spec::stages says.
bool readSpec(const std::string &path, const std::vector<std::string> &set, Spec &spec,
              std::vector<Diagnostic> &diagnostics);
bool readSpecText(std::string_view text, const std::string &name, const std::vector<std::string> &set, Spec &spec,
                  std::vector<Diagnostic> &diagnostics);

/// A file that the spec names: relative to the spec's own folder unless absolute.
std::string resolvePath(const Spec &spec, const std::string &file);
/// The file of `schedule: {name: order, file: …}`; empty where the spec names none.
std::string orderFileOf(const Spec &spec);

} // namespace pipec::spec
