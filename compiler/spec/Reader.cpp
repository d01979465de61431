// From a file to its text, its tree with what --set lays over it, its values, its Spec.
#include "compiler/spec/Reader.h"

#include "compiler/spec/Resolve.h"
#include "compiler/spec/Tree.h"
#include "compiler/spec/Values.h"
#include "runtime/plan/Limits.h"

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
NodePtr layOver(const NodePtr &root, std::string_view setting, int source, Errors &errors) {
  Mark mark{1, 1, source};
  size_t equals = setting.find('=');
  if (equals == std::string_view::npos) {
    errors.add(mark, "expected key.path=value, found no '='");
    return nullptr;
  }
  NodePtr value = parseTree(setting.substr(equals + 1), source, errors);
  return value ? overlay(root, setting.substr(0, equals), std::move(value), mark, errors) : nullptr;
}

void readTree(std::string_view text, const std::vector<std::string> &set, Spec &spec, Errors &errors) {
  if (text.size() > static_cast<size_t>(limits::kSpecBytes)) {
    errors.add({}, fmt::format("larger than a spec may be ({} MiB)", limits::kSpecBytes >> 20));
    return;
  }
  Fnv fnv;
  fnv.add(text);
  NodePtr root;
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
    errors.add({}, "the file is empty; expected a map of keys");
  else
    root = parseTree(text, 0, errors);
  if (root && !root->isMap()) {
    errors.add(root->mark, fmt::format("expected a map of keys, found {}", describe(*root)));
    root = nullptr;
  }
  for (size_t i = 0; root && i < set.size(); ++i) {
    fnv.add("\n--set ");
    fnv.add(set[i]);
    root = layOver(root, set[i], static_cast<int>(i) + 1, errors);
  }
  if (!root)
    return;
  spec.hash = fnv.hash;
  resolve(checkValues(root, errors), root->mark, spec, errors);
}

/// At most one byte more than a spec may have, so that neither a huge file nor a device is read to its end.
std::string readFile(const std::string &path, std::string &text) {
  std::error_code error;
  std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found)
    return "no such file";
  if (std::filesystem::is_directory(status))
    return "is a directory; expected a file";
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return fmt::format("cannot be opened: {}", std::strerror(errno));
  text.resize(limits::kSpecBytes + 1);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad())
    return fmt::format("cannot be read: {}", std::strerror(errno));
  text.resize(static_cast<size_t>(file.gcount()));
  return {};
}

} // namespace

bool readSpecText(std::string_view text, const std::string &name, const std::vector<std::string> &set, Spec &spec,
                  std::vector<Diagnostic> &diagnostics) {
  spec = Spec();
  spec.path = name;
  spec.sources = {name};
  for (const std::string &setting : set)
    spec.sources.push_back("--set " + setting);
  Errors errors(spec.sources);
  readTree(text, set, spec, errors);
  bool right = !errors.any();
  for (Diagnostic &diagnostic : errors.take())
    diagnostics.push_back(std::move(diagnostic));
  return right;
}

bool readSpec(const std::string &path, const std::vector<std::string> &set, Spec &spec,
              std::vector<Diagnostic> &diagnostics) {
  std::string text;
  if (std::string error = readFile(path, text); !error.empty()) {
    diagnostics.push_back({path, 1, 1, std::move(error), {}});
    return false;
  }
  return readSpecText(text, path, set, spec, diagnostics);
}

} // namespace pipec::spec
