#include "runtime/checkpoint/StepFolders.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>

namespace pipec::runtime {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPrefix = "step-", kPartial = ".partial";

/// The step in the name of a folder; nothing: it is another name.
std::optional<int64_t> stepOf(std::string_view name) {
  if (!name.starts_with(kPrefix))
    return {};
  int64_t step = 0;
  const char *end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  return error == std::errc() && at == end && step >= 0 ? std::optional(step) : std::nullopt;
}

bool isFolder(const fs::directory_entry &entry) {
  std::error_code error;
  return entry.symlink_status(error).type() == fs::file_type::directory;
}

std::vector<int64_t> stepsIn(const std::string &folder) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder, error))
    if (const auto step = stepOf(entry.path().filename().string()); step && isFolder(entry))
      steps.push_back(*step);
  return steps;
}

void removePartial(const std::string &folder) {
  std::error_code error;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder, error)) {
    std::string name = entry.path().filename().string();
    if (!name.ends_with(kPartial) || !isFolder(entry))
      continue;
    name.resize(name.size() - kPartial.size());
    if (stepOf(name))
      fs::remove_all(entry.path(), error);
  }
}

} // namespace

std::string stepFolder(const std::string &folder, int64_t step) {
  return (fs::path(folder) / fmt::format("{}{:08}", kPrefix, step)).string();
}

Status openStepFolders(const std::string &folder, const FolderUse &use, FolderHold &hold,
                       std::optional<int64_t> &resume) {
  if (Status status = hold.take(folder); !status.ok())
    return status;
  removePartial(folder);
  const std::vector<int64_t> steps = stepsIn(folder);
  const bool ofProcesses = hasManifest(folder);
  if (use.resumes && steps.empty() && ofProcesses)
    return Status::input(
        fmt::format("{}: {} has a checkpoint with a state of each process, as earlier versions wrote it: go on from "
                    "it with the version that wrote it, or begin anew without it with {}",
                    use.folder, folder, use.overwrite));
  if (use.resumes && !steps.empty())
    resume = *std::ranges::max_element(steps);
  if (use.resumes || use.overwrites || (steps.empty() && !ofProcesses))
    return {};
  return unsaidCheckpoint(folder, use);
}

Status clearStepFolders(const std::string &folder) {
  std::error_code error;
  for (const int64_t step : stepsIn(folder)) {
    const std::string path = stepFolder(folder, step), partial = path + std::string(kPartial);
    fs::rename(path, partial, error); // a run that dies here leaves no folder that looks whole
    if (error)
      return Status::run(fmt::format("{}: cannot be removed: {}", path, error.message()));
  }
  removePartial(folder);
  return clearFolder(folder);
}

} // namespace pipec::runtime
