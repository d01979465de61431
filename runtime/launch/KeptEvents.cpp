// The files are named trace-<step>-rank-<rank>.events and hold CBOR of {attempt, started_at, events}, where events are
// packed as in reports.
#include "runtime/launch/KeptEvents.h"

#include "runtime/checkpoint/FolderFiles.h"
#include "runtime/launch/Report.h"
#include "runtime/plan/Limits.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>

namespace pipec::runtime {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPrefix = "trace-";

struct Part {
  int32_t attempt = 0;
  int64_t startedAt = 0;
  std::vector<trace::Event> events;
};

Status read(const std::string &path, int32_t rank, Part &part) {
  std::vector<uint8_t> bytes;
  if (std::string why; !readFolderFile(path, limits::kTraceBytes, bytes, why))
    return Status::run(fmt::format("{}: cannot be read: {}", path, why));
  try {
    const nlohmann::json json = nlohmann::json::from_cbor(bytes);
    part = {json.at("attempt"), json.at("started_at"), unpackEvents(json.at("events"), rank)};
  } catch (const nlohmann::json::exception &) {
    return Status::run(path + ": is damaged, so that the trace cannot be of all attempts");
  }
  return {};
}

} // namespace

KeptEvents::KeptEvents(std::string ofFolder, int32_t rank, int32_t attempt, int64_t first, int64_t startedAt)
    : folder(std::move(ofFolder)), rank(rank), attempt(attempt), startedAt(startedAt), origin(startedAt) {
  std::error_code error;
  for (const std::string &name : files())
    if (attempt == 0 || stepOf(name) > first)
      fs::remove(pathOf(name), error);
  const std::vector<std::string> kept = files();
  Part part;
  if (!kept.empty() && read(pathOf(kept.front()), rank, part).ok())
    origin = part.startedAt;
}

/// The step in a file's name; -1: it is no file of this rank's.
int64_t KeptEvents::stepOf(const std::string &name) const {
  int64_t step = -1;
  if (name.starts_with(kPrefix) && name.ends_with(fmt::format("-rank-{}.events", rank)))
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  return step;
}

std::string KeptEvents::pathOf(const std::string &name) const { return (fs::path(folder) / name).string(); }

std::vector<std::string> KeptEvents::files() const {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder, error))
    if (std::string name = entry.path().filename().string(); stepOf(name) >= 0)
      names.push_back(std::move(name));
  std::sort(names.begin(), names.end(),
            [&](const std::string &a, const std::string &b) { return stepOf(a) < stepOf(b); });
  return names;
}

Status KeptEvents::keep(int64_t step, const std::vector<trace::Event> &events) const {
  const nlohmann::json json{{"attempt", attempt}, {"started_at", startedAt}, {"events", packEvents(events)}};
  return replaceFolderFile(pathOf(fmt::format("{}{}-rank-{}.events", kPrefix, step, rank)),
                           nlohmann::json::to_cbor(json));
}

void KeptEvents::add(const std::vector<trace::Event> &from, int32_t ofAttempt, int64_t time0,
                     std::vector<trace::Event> &events) const {
  const plan::Time later = (time0 - origin) * 1000;
  for (trace::Event event : from) {
    event.start += later;
    event.end += later;
    event.attempt = ofAttempt;
    events.push_back(event);
  }
}

Status KeptEvents::all(const std::vector<trace::Event> &last, std::vector<trace::Event> &events) const {
  for (const std::string &name : files()) {
    Part part;
    if (Status status = read(pathOf(name), rank, part); !status.ok())
      return status;
    add(part.events, part.attempt, part.startedAt, events);
  }
  add(last, attempt, startedAt, events);
  return {};
}

void KeptEvents::clear() const {
  std::error_code error;
  for (const std::string &name : files())
    fs::remove(pathOf(name), error);
}

} // namespace pipec::runtime
