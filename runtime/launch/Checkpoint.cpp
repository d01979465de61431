// The files of a checkpoint: manifest.json, and step-<step>-rank-<rank>.state for each rank (with replicas
// step-<step>-rank-<rank>-replica-<replica>.state, with shards -shard-<shard>.state), or
// step-<step>-layer-<layer>.state for each layer; of background jobs step-<step>-rank-<rank>-job.state. A state has
// .partial behind its name until it is durable.
#include "runtime/launch/Checkpoint.h"

#include "runtime/plan/Layers.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Place.h"
#include "runtime/plan/Write.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <sodium.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <tuple>
#include <unistd.h>

namespace pipec::runtime {

namespace fs = std::filesystem;

namespace {

constexpr int kOfRanks = 1, kOfLayers = 2; // formats of a manifest
constexpr size_t kHashBytes = 16;

std::string stateName(const StateOf &of) {
  std::string whose =
      of.whose == StateOf::Whose::Layer ? fmt::format("layer {}", of.number) : plan::processName(of.number, of.grid);
  if (of.whose == StateOf::Whose::Job)
    whose += " job";
  std::replace(whose.begin(), whose.end(), ' ', '-');
  return fmt::format("step-{}-{}.state", of.step, whose);
}

/// The step in the name of a state's file; for any other name the largest number.
int64_t stepOf(std::string_view name) {
  int64_t step = INT64_MAX;
  if (name.starts_with("step-") && (name.find("-rank-") != name.npos || name.find("-layer-") != name.npos))
    std::from_chars(name.data() + 5, name.data() + name.size(), step);
  return step;
}

std::string manifestPath(const std::string &folder) { return (fs::path(folder) / "manifest.json").string(); }

/// Returns the bytes of a file and sets its hash; -1 if it cannot be read.
int64_t hashFile(const std::string &path, std::string &hash) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return -1;
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, kHashBytes);
  std::vector<char> part(1 << 20);
  int64_t bytes = 0;
  while (file.read(part.data(), std::streamsize(part.size())), file.gcount() > 0) {
    crypto_generichash_update(&state, reinterpret_cast<unsigned char *>(part.data()), size_t(file.gcount()));
    bytes += file.gcount();
  }
  if (file.bad())
    return -1;
  std::array<uint8_t, kHashBytes> digest;
  crypto_generichash_final(&state, digest.data(), digest.size());
  hash.resize(2 * digest.size() + 1); // sodium_bin2hex writes a terminating 0
  sodium_bin2hex(hash.data(), hash.size(), digest.data(), digest.size());
  hash.pop_back();
  return bytes;
}

/// Removes the states of steps before `step`.
void removeStates(const std::string &folder, int64_t step) {
  std::error_code error;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder, error))
    if (stepOf(entry.path().filename().string()) < step)
      fs::remove(entry.path(), error);
}

/// Makes a file's content durable, or the names in a folder.
Status syncPath(const std::string &path) {
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  bool done = file >= 0 && ::fsync(file) == 0;
  int error = errno;
  if (file >= 0)
    ::close(file);
  return done ? Status{} : Status::run(fmt::format("{}: cannot be written: {}", path, std::strerror(error)));
}

} // namespace

std::string statePath(const std::string &folder, const StateOf &of) {
  return (fs::path(folder) / (stateName(of) + ".partial")).string();
}

Status finishState(const std::string &folder, const StateOf &of, StateFile &file) {
  std::string partial = statePath(folder, of);
  Status status = syncPath(partial);
  if (!status.ok())
    return status;
  file.name = stateName(of);
  file.bytes = hashFile(partial, file.hash);
  std::string path = (fs::path(folder) / file.name).string();
  if (file.bytes < 0 || ::rename(partial.c_str(), path.c_str()) != 0)
    return Status::run(fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
  return syncPath(folder); // makes the new name durable
}

void dropState(const std::string &folder, const StateOf &of) {
  std::error_code error; // ignored: the file may never have been begun
  fs::remove(statePath(folder, of), error);
}

Status checkState(const std::string &folder, const StateFile &file) {
  std::string path = (fs::path(folder) / file.name).string();
  std::string hash;
  int64_t bytes = hashFile(path, hash);
  if (bytes < 0)
    return Status::input(fmt::format("{}: the checkpoint's manifest names this file, which cannot be read: {}", path,
                                     std::strerror(errno)));
  if (bytes != file.bytes || hash != file.hash)
    return Status::input(
        fmt::format("{}: is not what was saved: it has {} bytes and hash {}, the checkpoint's manifest "
                    "says {} and {}",
                    path, bytes, hash, file.bytes, file.hash));
  return {};
}

Status prepareFolder(const std::string &folder, const FolderUse &use) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || ::access(folder.c_str(), W_OK | X_OK) != 0)
    return Status::usage(fmt::format("{}: {} is no folder that can be written to: {}", use.folder, folder,
                                     error ? error.message() : std::strerror(errno)));
  return {};
}

FolderHold::~FolderHold() {
  if (!path.empty())
    ::unlink(path.c_str());
  if (file >= 0)
    ::close(file);
}

Status FolderHold::take(const std::string &folder) {
  const std::string name = (fs::path(folder) / "lock").string();
  struct stat there{}, own{};
  do { // again if the file was removed, by whoever had the hold, between open and flock
    if (file >= 0)
      ::close(file);
    file = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0)
      return Status::run(fmt::format("{}: cannot be written: {}", name, std::strerror(errno)));
    if (::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
      return Status::run(fmt::format("--checkpoint: another run has its checkpoints in {}", folder));
    // Other errors of flock: on a file system without locks, every run gets the hold.
  } while (::fstat(file, &own) != 0 || ::stat(name.c_str(), &there) != 0 || own.st_ino != there.st_ino);
  path = name;
  return {};
}

Status clearFolder(const std::string &folder) {
  std::error_code error;
  fs::remove(manifestPath(folder), error);
  if (error)
    return Status::run(fmt::format("{}: cannot be removed: {}", manifestPath(folder), error.message()));
  Status status = syncPath(folder); // the manifest is gone for good before the states that it names go
  if (status.ok())
    removeStates(folder, INT64_MAX);
  return status;
}

Status writeManifest(const std::string &folder, const Manifest &manifest) {
  nlohmann::ordered_json json{{"pipec_checkpoint", manifest.ofLayers() ? kOfLayers : kOfRanks},
                              {"step", manifest.step}};
  if (!manifest.ofLayers())
    json["stages"] = manifest.stages;
  if (manifest.replicas != 1)
    json["replicas"] = manifest.replicas;
  if (manifest.shards != 1) {
    json["shards"] = manifest.shards;
    json["owned"] = nlohmann::json(manifest.owned);
  }
  if (!manifest.jobs.empty())
    json["jobs"] = nlohmann::json(manifest.jobs);
  json["files"] = nlohmann::ordered_json::array();
  for (const StateFile &file : manifest.files)
    json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"hash", file.hash}});
  std::string text = json.dump(2) + "\n";
  Status status = plan::writeFile(manifestPath(folder), {reinterpret_cast<const uint8_t *>(text.data()), text.size()});
  if (status.ok())
    status = syncPath(folder); // the new manifest is durable before the states that the last one named go
  if (!status.ok())
    return Status::run(status.message);
  removeStates(folder, manifest.step); // earlier steps only: a fast process may have saved a later one already
  return {};
}

namespace {

/// How many units a split has in each layer of a stage.
using Splits = std::map<std::tuple<int32_t, int32_t, std::string>, int64_t>;
void add(Splits &splits, int32_t stage, int32_t first, int32_t count, const std::string &split, int64_t units) {
  for (int32_t layer = first; layer < first + std::min<int64_t>(count, limits::kLayers); ++layer)
    splits[{stage, layer, split}] = units;
}

/// Whether shards of the plan can have the units that those of a manifest had.
bool splitsAlike(const Manifest &manifest, const plan::Plan &plan) {
  Splits there, here;
  for (const std::vector<OwnedUnits> &process : manifest.owned)
    for (const OwnedUnits &each : process)
      add(there, each.stage, each.first_layer, each.layers, each.split, each.units);
  for (const plan::Portion &each : plan.variants.front().portions)
    add(here, each.stage, each.firstLayer, each.layers, each.split, each.units);
  return there == here;
}

} // namespace

/// Whether the layers that a manifest names are the plan's.
static Status ofModel(const std::string &path, const Manifest &manifest, const plan::Plan &plan) {
  if (plan.degree() > 1)
    return Status::input(path + ": is of layers, of which the plan has replicas: it resumes from states of processes");
  if (plan.shards() > 1)
    return Status::input(path + ": is of layers, of which shards have parts: it resumes from states of processes");
  const auto layers = size_t(plan::layersOf(plan.variants.front()));
  if (layers == manifest.files.size())
    return {};
  return Status::input(
      fmt::format("{}: is of {} layers, the plan {}", path, manifest.files.size(),
                  layers == 0 ? "does not say which layers its stages hold" : fmt::format("has {}", layers)));
}

Status readManifest(const std::string &folder, const plan::Plan &plan, Manifest &manifest) {
  std::string path = manifestPath(folder);
  std::ifstream file(path, std::ios::binary);
  if (!file || (file.peek(), file.bad())) // a folder can be opened, but not read
    return Status::input(fmt::format("{}: there is no checkpoint to resume from: {}", path, std::strerror(errno)));
  auto torn = [&] { return Status::input(path + ": is damaged, so there is nothing to resume from"); };
  nlohmann::json json = nlohmann::json::parse(file, nullptr, false);
  try {
    if (!json.is_object())
      return torn();
    const int format = json.at("pipec_checkpoint");
    if (format != kOfRanks && format != kOfLayers)
      return Status::input(
          fmt::format("{}: is of format {}, this piperun reads {} and {}", path, format, kOfRanks, kOfLayers));
    manifest.step = json.at("step");
    manifest.stages.clear();
    if (format == kOfRanks)
      manifest.stages = json.at("stages").get<std::vector<std::vector<int32_t>>>();
    manifest.replicas = json.value("replicas", 1);
    manifest.shards = json.value("shards", 1);
    manifest.owned = json.value("owned", std::vector<std::vector<OwnedUnits>>());
    manifest.jobs = json.value("jobs", std::vector<JobState>());
    manifest.files = json.at("files").get<std::vector<StateFile>>();
  } catch (const nlohmann::json::exception &) {
    return torn();
  }
  if (manifest.step < 0 || manifest.replicas < 1 || manifest.shards < 1 ||
      (!manifest.ofLayers() &&
       manifest.files.size() != manifest.stages.size() * size_t(manifest.replicas) * size_t(manifest.shards)) ||
      (manifest.shards > 1 && manifest.owned.size() != manifest.files.size()))
    return torn();
  for (const StateFile &state : manifest.files)
    if (fs::path(state.name).filename() != state.name)
      return torn(); // a name must not lead out of the folder
  for (const JobState &job : manifest.jobs)
    if (fs::path(job.file.name).filename() != job.file.name || job.atoms < 0)
      return torn();
  if (manifest.ofLayers())
    return ofModel(path, manifest, plan);
  if (manifest.replicas != plan.degree())
    return Status::input(fmt::format("{}: is of {} replica{} of each rank, the plan has {}", path, manifest.replicas,
                                     manifest.replicas == 1 ? "" : "s", plan.degree()));
  if (manifest.shards != plan.shards())
    return Status::input(fmt::format("{}: is of {} shard{} of each rank, the plan has {}", path, manifest.shards,
                                     manifest.shards == 1 ? "" : "s", plan.shards()));
  if (manifest.stages.size() != size_t(plan.ranks()))
    return Status::input(
        fmt::format("{}: is of {} ranks, the plan has {}", path, manifest.stages.size(), plan.ranks()));
  if (manifest.stages != stagesOf(plan))
    return Status::input(path + ": places stages on ranks in another way than the plan");
  if (!splitsAlike(manifest, plan))
    return Status::input(path + ": splits the layers of its stages in another way than the plan");
  return {};
}

bool hasManifest(const std::string &folder) {
  std::error_code error;
  return fs::exists(manifestPath(folder), error);
}

Status openFolder(const std::string &folder, const plan::Plan &plan, const FolderUse &use, FolderHold &hold,
                  std::optional<Manifest> &resume) {
  if (Status status = hold.take(folder); !status.ok())
    return status;
  const bool has = hasManifest(folder);
  if (use.resumes && (has || use.needsOne))
    return readManifest(folder, plan, resume.emplace());
  if (!has || use.overwrites)
    return {};
  return Status::usage(fmt::format("{}: {} has a checkpoint: go on from it with {}, or begin anew without it with {}",
                                   use.folder, folder, use.resume, use.overwrite));
}

std::vector<std::vector<int32_t>> stagesOf(const plan::Plan &plan) {
  std::vector<std::vector<int32_t>> stages;
  for (const plan::Program &program : plan.variants.front().programs)
    stages.push_back(program.stages);
  return stages;
}

} // namespace pipec::runtime
