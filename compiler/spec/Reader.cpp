// From a file to its text, its tree with what --set lays over it, its values, its Spec.
#include "compiler/spec/Reader.h"

#include "compiler/spec/Resolve.h"
#include "compiler/spec/Stages.h"
#include "compiler/spec/Tree.h"
#include "compiler/spec/Values.h"
#include "compiler/spec/Variants.h"
#include "runtime/plan/Limits.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>

namespace pipec::spec {
namespace {

class Fnv {
public:
  void add(std::string_view text) {
    for (char c : text)
      hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  uint64_t hash = 0xcbf29ce484222325;
};

/// The tree with one "key.path=value" laid over it; null after an error.
NodePtr setting(const NodePtr &root, std::string_view text, int source, Errors &errors) {
  Mark mark{1, 1, source};
  size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    errors.add(mark, "expected key.path=value, found no '='");
    return nullptr;
  }
  NodePtr value = parseTree(text.substr(equals + 1), source, errors);
  return value ? overlay(root, text.substr(0, equals), std::move(value), mark, errors) : nullptr;
}

/// The file's tree with every setting laid over it, and the hash of both; null after an error.
NodePtr readTree(std::string_view text, const std::vector<std::string> &set, uint64_t &hash, Errors &errors) {
  if (text.size() > static_cast<size_t>(limits::kSpecBytes)) {
    errors.add({}, fmt::format("larger than a spec may be ({} MiB)", limits::kSpecBytes >> 20));
    return nullptr;
  }
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    errors.add({}, "the file is empty; expected a map of keys");
    return nullptr;
  }
  Fnv fnv;
  fnv.add(text);
  NodePtr root = parseTree(text, 0, errors);
  if (root && !root->isMap()) {
    errors.add(root->mark, fmt::format("expected a map of keys, found {}", describe(*root)));
    return nullptr;
  }
  for (size_t i = 0; root && i < set.size(); ++i) {
    fnv.add("\n--set ");
    fnv.add(set[i]);
    root = setting(root, set[i], static_cast<int>(i) + 1, errors);
  }
  hash = fnv.hash;
  return root;
}

/// As it stands, without variants.
Spec readWhole(const NodePtr &root, const Values &values, const Spec &start, Errors &errors) {
  Spec spec = start;
  resolve(values, root->mark, spec, errors);
  spec.variantName = spec.schedule.name;
  if (spec.stagesGiven && !errors.any()) {
    Spec whole = spec; // values by stage are not kept: of many variants they would be too much at once
    setStages(whole, spec.stages, errors);
  }
  return spec;
}

void readVariants(const NodePtr &root, const Values &base, const Spec &start, std::vector<Spec> &variants,
                  Errors &errors) {
  const std::vector<Overlay> overlays = overlaysOf(*base.at("variants").node);
  const NodePtr below = without(root, "variants");
  SharedByVariants shared(errors);
  VariantSizes sizes(errors);
  for (const Overlay &overlay : overlays) {
    NodePtr tree = layOver(below, overlay.tree);
    if (!sizes.add(*tree, overlay.mark))
      break;
    errors.inVariant(Note{start.sources[overlay.mark.source], overlay.mark.line, overlay.mark.column,
                          fmt::format("in variant '{}'", overlay.name)});
    Values values = checkValues(tree, errors);
    Spec spec = readWhole(tree, values, start, errors);
    errors.inVariant({});
    spec.variantName = overlay.name;
    if (!sizes.addStages(spec, overlay.mark))
      break;
    shared.add(std::move(values), spec.microbatchSize);
    variants.push_back(std::move(spec));
  }
}

void readText(std::string_view text, const Spec &start, const std::vector<std::string> &set, bool one,
              std::vector<Spec> &variants, Errors &errors) {
  Spec whole = start;
  NodePtr root = readTree(text, set, whole.hash, errors);
  if (!root)
    return;
  Values values = checkValues(root, errors);
  auto given = values.find("variants");
  if (given == values.end())
    variants.push_back(readWhole(root, values, whole, errors));
  else if (one)
    errors.add(given->second.mark, "variants: expected a spec without variants here");
  else if (!errors.any()) {
    whole.ofVariants = true;
    readVariants(root, values, whole, variants, errors);
  }
}

bool readVariantsText(std::string_view text, const std::string &name, const std::vector<std::string> &set, bool one,
                      std::vector<Spec> &variants, std::vector<Diagnostic> &diagnostics) {
  Spec start;
  start.path = name;
  start.sources = {name};
  for (const std::string &setting : set)
    start.sources.push_back("--set " + shown(setting));
  Errors errors(start.sources);
  variants.clear();
  readText(text, start, set, one, variants, errors);
  if (one && !errors.any())
    setStages(variants.front(), variants.front().stages, errors);
  bool right = !errors.any();
  for (Diagnostic &diagnostic : errors.take())
    diagnostics.push_back(std::move(diagnostic));
  return right;
}

/// At most one byte more than a spec may have, so that no huge file is read to its end. What went
/// wrong, empty if nothing did.
std::string readAll(const std::string &path, std::string &text) {
  std::error_code error;
  std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found)
    return "no such file";
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) && !std::filesystem::is_fifo(status))
    return fmt::format("is a {}; expected a file", std::filesystem::is_directory(status) ? "directory"
                                                   : std::filesystem::is_socket(status)  ? "socket"
                                                                                         : "device");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return fmt::format("cannot be opened: {}", std::strerror(errno));
  // A byte more than a spec may have is enough to see that it is too long.
  constexpr size_t kMost = size_t(limits::kSpecBytes) + 1, kChunk = size_t(1) << 16;
  text.clear();
  while (file && text.size() != kMost) {
    const size_t used = text.size();
    text.resize(std::min(kMost, used + std::max(used, kChunk)));
    file.read(text.data() + used, static_cast<std::streamsize>(text.size() - used));
    text.resize(used + static_cast<size_t>(file.gcount()));
  }
  if (file.bad())
    return fmt::format("cannot be read: {}", std::strerror(errno));
  return {};
}

bool readFile(const std::string &path, std::string &text, std::vector<Diagnostic> &diagnostics) {
  std::string error = readAll(path, text);
  if (!error.empty())
    diagnostics.push_back({path, 1, 1, error, {}});
  return error.empty();
}

} // namespace

bool readSpecsText(std::string_view text, const std::string &name, const std::vector<std::string> &set,
                   std::vector<Spec> &variants, std::vector<Diagnostic> &diagnostics) {
  return readVariantsText(text, name, set, false, variants, diagnostics);
}

bool readSpecs(const std::string &path, const std::vector<std::string> &set, std::vector<Spec> &variants,
               std::vector<Diagnostic> &diagnostics) {
  std::string text;
  return readFile(path, text, diagnostics) && readSpecsText(text, path, set, variants, diagnostics);
}

bool readSpecText(std::string_view text, const std::string &name, const std::vector<std::string> &set, Spec &spec,
                  std::vector<Diagnostic> &diagnostics) {
  std::vector<Spec> variants;
  if (!readVariantsText(text, name, set, true, variants, diagnostics))
    return false;
  spec = std::move(variants.front());
  return true;
}

bool readSpec(const std::string &path, const std::vector<std::string> &set, Spec &spec,
              std::vector<Diagnostic> &diagnostics) {
  std::string text;
  return readFile(path, text, diagnostics) && readSpecText(text, path, set, spec, diagnostics);
}

std::string resolvePath(const Spec &spec, const std::string &file) {
  return (std::filesystem::path(spec.path).parent_path() / file).string();
}

std::string orderFileOf(const Spec &spec) {
  for (const auto &[name, parameter] : spec.schedule.parameters)
    if (spec.schedule.name == "order" && name == "file" && !parameter.list)
      return resolvePath(spec, parameter.values.front());
  return "";
}

} // namespace pipec::spec
