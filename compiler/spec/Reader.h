// From a YAML file to a Spec, or to everything that is wrong with it.
#pragma once

#include "compiler/spec/Diagnostic.h"
#include "compiler/spec/Spec.h"

#include <string>
#include <string_view>
#include <vector>

namespace pipec::spec {

/// Reads the file at `path` with `set` ("key.path=value", each value YAML) laid over it in order: one spec a variant,
/// or the one that there is, each with a name of its own. Variants share ranks, placement and layers as far as the spec
/// gives them. Where the spec gives the number of stages, all is checked; otherwise setStages (Stages.h) does the rest
/// once the schedule has said it, and is due before values by stage are read either way. False after an error; what is
/// wrong is appended to `diagnostics`, in file order, and `variants` is then of no use.
bool readSpecs(const std::string &path, const std::vector<std::string> &set, std::vector<Spec> &variants,
               std::vector<Diagnostic> &diagnostics);

/// The same of a text; `name` stands for the file in places.
bool readSpecsText(std::string_view text, const std::string &name, const std::vector<std::string> &set,
                   std::vector<Spec> &variants, std::vector<Diagnostic> &diagnostics);

/// A spec without variants, of as many stages as hold where no schedule says otherwise (Spec::stages), ready for use.
bool readSpec(const std::string &path, const std::vector<std::string> &set, Spec &spec,
              std::vector<Diagnostic> &diagnostics);
bool readSpecText(std::string_view text, const std::string &name, const std::vector<std::string> &set, Spec &spec,
                  std::vector<Diagnostic> &diagnostics);

/// A file that the spec names: relative to the spec's own folder unless absolute.
std::string resolvePath(const Spec &spec, const std::string &file);
/// That of `schedule: {name: order, file: …}`; empty where it names none.
std::string orderFileOf(const Spec &spec);

} // namespace pipec::spec
