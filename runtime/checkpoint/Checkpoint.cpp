// The files of a checkpoint: manifest.json, and step-<step>-rank-<rank>.state for each rank (with replicas
// step-<step>-rank-<rank>-replica-<replica>.state, with shards -shard-<shard>.state), or
// step-<step>-layer-<layer>.state for each layer; of background jobs step-<step>-rank-<rank>-job.state. A state has
// .partial behind its name until it is durable.
#include "runtime/checkpoint/Checkpoint.h"

#include "runtime/checkpoint/FolderFiles.h"
#include "runtime/plan/Layers.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Place.h"
#include "runtime/plan/Units.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <sodium.h>
#include <sys/file.h>
#include <sys/stat.h>
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

/// Sets a file's bytes and the hash of its content. False if it cannot be read.
bool hashFile(FolderFile &file, int64_t &bytes, std::string &hash) {
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, kHashBytes);
  std::vector<char> part;
  bytes = 0;
  do {
    if (!file.read(part))
      return false;
    crypto_generichash_update(&state, reinterpret_cast<unsigned char *>(part.data()), part.size());
    bytes += int64_t(part.size());
  } while (!part.empty());
  std::array<uint8_t, kHashBytes> digest;
  crypto_generichash_final(&state, digest.data(), digest.size());
  hash.resize(2 * digest.size() + 1); // sodium_bin2hex writes a terminating 0
  sodium_bin2hex(hash.data(), hash.size(), digest.data(), digest.size());
  hash.pop_back();
  return true;
}

/// Removes the states of steps before `step`, and manifests that were begun by runs that died.
void removeStates(const std::string &folder, int64_t step) {
  std::error_code error;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder, error))
    if (const std::string name = entry.path().filename().string();
        stepOf(name) < step || name.starts_with("manifest.json."))
      fs::remove(entry.path(), error);
}

/// Makes the names in a folder durable.
Status syncFolder(const std::string &path) {
  int file = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  bool done = file >= 0 && ::fsync(file) == 0;
  int error = errno;
  if (file >= 0)
    ::close(file);
  return done ? Status{} : Status::run(fmt::format("{}: cannot be written: {}", path, std::strerror(error)));
}

} // namespace

namespace {

/// Provisional, until finishState().
std::string partialPath(const std::string &folder, const StateOf &of) {
  return (fs::path(folder) / (stateName(of) + ".partial")).string();
}

} // namespace

Status beginState(const std::string &folder, const StateOf &of, std::string &path) {
  path = partialPath(folder, of);
  return createFolderFile(path);
}

Status finishState(const std::string &folder, const StateOf &of, StateFile &file) {
  const std::string partial = partialPath(folder, of), name = stateName(of);
  const std::string path = (fs::path(folder) / name).string();
  FolderFile written(partial);
  if (!written || !written.sync() || !hashFile(written, file.bytes, file.hash))
    return Status::run(fmt::format("{}: cannot be written: {}", partial, written.why()));
  if (::rename(partial.c_str(), path.c_str()) != 0)
    return Status::run(fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
  file.name = name;
  return syncFolder(folder); // makes the new name durable
}

void dropState(const std::string &folder, const StateOf &of) {
  std::error_code error; // ignored: the file may never have been begun
  fs::remove(partialPath(folder, of), error);
}

Status checkState(const std::string &folder, const StateFile &file) {
  const std::string path = (fs::path(folder) / file.name).string();
  FolderFile found(path);
  int64_t bytes = found.size();
  std::string hash = "unknown";
  // What has another length need not be read.
  if (!found || (bytes == file.bytes && !hashFile(found, bytes, hash)))
    return Status::input(
        fmt::format("{}: the checkpoint's manifest names this file, which cannot be read: {}", path, found.why()));
  if (bytes != file.bytes || hash != file.hash)
    return Status::input(
        fmt::format("{}: is not what was saved: it has {} bytes and hash {}, the checkpoint's manifest "
                    "says {} and {}",
                    path, bytes, hash, file.bytes, units::shown(file.hash)));
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
  if (!path.empty() && process == ::getpid())
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
    file = ::open(name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (file < 0)
      return Status::run(fmt::format("{}: cannot be written: {}", name, std::strerror(errno)));
    if (::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
      return Status::run(fmt::format("--checkpoint: another run has its checkpoints in {}", folder));
    // Other errors of flock: on a file system without locks, every run gets the hold.
  } while (::fstat(file, &own) != 0 || ::stat(name.c_str(), &there) != 0 || own.st_ino != there.st_ino);
  path = name;
  process = ::getpid();
  return {};
}

Status clearFolder(const std::string &folder) {
  std::error_code error;
  fs::remove(manifestPath(folder), error);
  if (error)
    return Status::run(fmt::format("{}: cannot be removed: {}", manifestPath(folder), error.message()));
  Status status = syncFolder(folder); // the manifest is gone for good before the states that it names go
  if (status.ok())
    removeStates(folder, INT64_MAX);
  return status;
}

namespace {

nlohmann::ordered_json jsonOf(const Manifest &manifest) {
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
  return json;
}

} // namespace

Status writeManifest(const std::string &folder, const Manifest &manifest) {
  const std::string text = jsonOf(manifest).dump(2) + "\n";
  Status status =
      replaceFolderFile(manifestPath(folder), {reinterpret_cast<const uint8_t *>(text.data()), text.size()});
  if (status.ok())
    status = syncFolder(folder); // the new manifest is durable before the states that the last one named go
  if (status.ok())
    removeStates(folder, manifest.step); // earlier steps only: a fast process may have saved a later one already
  return status;
}

namespace {

/// Layers of a stage, one behind the other, of which each has so many units of a split.
struct SplitLayers {
  int64_t first = 0, end = 0, units = 0;
  auto operator<=>(const SplitLayers &) const = default;
};

/// The splits of stages: by stage and name, in as few runs of layers as say it.
class Splits {
public:
  void add(int32_t stage, int32_t first, int32_t layers, const std::string &split, int64_t units) {
    runs[{stage, split}].push_back({first, int64_t(first) + layers, units});
  }
  /// Takes runs together that say the same of neighbouring or shared layers.
  void join() {
    for (auto &[split, own] : runs) {
      std::sort(own.begin(), own.end());
      std::vector<SplitLayers> joined;
      for (const SplitLayers &run : own)
        if (!joined.empty() && run.first <= joined.back().end && run.units == joined.back().units)
          joined.back().end = std::max(joined.back().end, run.end);
        else
          joined.push_back(run);
      own = std::move(joined);
    }
  }
  bool operator==(const Splits &) const = default;

private:
  std::map<std::pair<int32_t, std::string>, std::vector<SplitLayers>> runs;
};

/// Whether shards of the plan can have the units that those of a manifest had.
bool splitsAlike(const Manifest &manifest, const plan::Plan &plan) {
  Splits there, here;
  for (const std::vector<OwnedUnits> &process : manifest.owned)
    for (const OwnedUnits &each : process)
      there.add(each.stage, each.first_layer, each.layers, each.split, each.units);
  for (const plan::Portion &each : plan.variants.front().portions)
    here.add(each.stage, each.firstLayer, each.layers, each.split, each.units);
  there.join();
  here.join();
  return there == here;
}

/// Whether the layers that a manifest names are the plan's.
Status ofModel(const std::string &path, const Manifest &manifest, const plan::Plan &plan) {
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

/// What a manifest may take: room for a kilobyte for each state and each portion, and for much more in a small one.
int64_t mostBytes(const plan::Plan &plan) {
  const plan::Variant &variant = plan.variants.front();
  const int64_t states = std::max<int64_t>(plan.world(), plan::layersOf(variant));
  return (int64_t(16) << 20) + 1024 * (states + int64_t(variant.portions.size()));
}

/// Its JSON; a null if it is no JSON, nested deeper than any manifest, or has a number that is no integer.
nlohmann::json parsed(const std::vector<uint8_t> &bytes) {
  constexpr int kDepth = 8;
  bool right = true;
  auto json = nlohmann::json::parse(
      bytes.begin(), bytes.end(),
      [&](int depth, nlohmann::json::parse_event_t, const nlohmann::json &value) {
        return right = right && depth <= kDepth && !value.is_number_float();
      },
      /*allow_exceptions=*/false);
  return right && !json.is_discarded() ? std::move(json) : nlohmann::json();
}

void fromJson(const nlohmann::json &json, int format, Manifest &manifest) {
  manifest.step = json.at("step");
  manifest.stages.clear();
  if (format == kOfRanks)
    manifest.stages = json.at("stages").get<std::vector<std::vector<int32_t>>>();
  manifest.replicas = json.value("replicas", 1);
  manifest.shards = json.value("shards", 1);
  manifest.owned = json.value("owned", std::vector<std::vector<OwnedUnits>>());
  manifest.jobs = json.value("jobs", std::vector<JobState>());
  manifest.files = json.at("files").get<std::vector<StateFile>>();
}

/// A name in the folder that a state could have been given, and figures that it could have.
bool isState(const StateFile &file) {
  return file.name.starts_with("step-") && file.name.ends_with(".state") && file.name.find('/') == file.name.npos &&
         units::wrongName(file.name).empty() && file.bytes >= 0;
}

bool isOwned(const OwnedUnits &own) {
  if (own.stage < 0 || own.first_layer < 0 || own.layers < 1 || own.layers > limits::kLayers ||
      own.first_layer > limits::kLayers - own.layers || own.units < 1 || own.units > limits::kBytes)
    return false;
  int64_t end = 0;
  for (const auto &[first, count] : own.owned) {
    if (first < end || first > own.units || count < 1 || count > own.units - first)
      return false;
    end = first + count;
  }
  return true;
}

/// Whether a manifest's figures go together, so that they can be used as they are.
bool isWhole(const Manifest &manifest) {
  const auto counts = [](int32_t number) { return number >= 1 && number <= limits::kProcesses; };
  const size_t ranks = manifest.stages.size();
  if (manifest.step < 0 || manifest.step > limits::kTime || !counts(manifest.replicas) || !counts(manifest.shards))
    return false;
  if (!manifest.ofLayers() && (ranks > size_t(limits::kRanks) ||
                               manifest.files.size() != ranks * size_t(manifest.replicas) * size_t(manifest.shards)))
    return false;
  if (manifest.shards > 1 && manifest.owned.size() != manifest.files.size())
    return false;
  return std::ranges::all_of(manifest.files, isState) &&
         std::ranges::all_of(manifest.owned, [](const auto &own) { return std::ranges::all_of(own, isOwned); }) &&
         std::ranges::all_of(manifest.jobs, [](const JobState &job) {
           return isState(job.file) && job.atoms >= 0 && job.atoms <= limits::kTime;
         });
}

} // namespace

Status readManifest(const std::string &folder, const plan::Plan &plan, Manifest &manifest) {
  const std::string path = manifestPath(folder);
  std::vector<uint8_t> bytes;
  if (std::string why; !readFolderFile(path, mostBytes(plan), bytes, why))
    return Status::input(fmt::format("{}: there is no checkpoint to resume from: {}", path, why));
  auto torn = [&] { return Status::input(path + ": is damaged, so there is nothing to resume from"); };
  const nlohmann::json json = parsed(bytes);
  try {
    if (!json.is_object())
      return torn();
    const int format = json.at("pipec_checkpoint");
    if (format != kOfRanks && format != kOfLayers)
      return Status::input(
          fmt::format("{}: is of format {}, this piperun reads {} and {}", path, format, kOfRanks, kOfLayers));
    fromJson(json, format, manifest);
  } catch (const nlohmann::json::exception &) {
    return torn();
  }
  // Reading rounds and cuts numbers. What was not understood to the last digit is no manifest.
  if (!isWhole(manifest) || nlohmann::json(jsonOf(manifest)) != json)
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
  return fs::exists(fs::symlink_status(manifestPath(folder), error)); // a link that leads nowhere too
}

Status openFolder(const std::string &folder, const plan::Plan &plan, const FolderUse &use, FolderHold &hold,
                  std::optional<Manifest> &resume) {
  if (Status status = hold.take(folder); !status.ok())
    return status;
  const bool has = hasManifest(folder);
  if (use.resumes && (has || use.needsOne))
    return readManifest(folder, plan, resume.emplace());
  return !has || use.overwrites ? Status{} : unsaidCheckpoint(folder, use);
}

Status unsaidCheckpoint(const std::string &folder, const FolderUse &use) {
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
