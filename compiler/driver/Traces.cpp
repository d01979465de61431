#include "compiler/driver/Traces.h"

#include "runtime/plan/Units.h"
#include "runtime/trace/Read.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <glob.h>
#include <map>
#include <set>
#include <tuple>

namespace pipec {

Status traceFiles(const std::string &name, std::vector<std::string> &files) {
  std::error_code error;
  files = {name};
  if (name.find_first_of("*?[") == name.npos || std::filesystem::exists(name, error))
    return {};
  glob_t found = {};
  const int wrong = glob(name.c_str(), 0, nullptr, &found);
  files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return wrong == 0 ? Status() : Status::input(fmt::format("{}: no file has such a name", units::escaped(name)));
}

Status readTraces(const std::string &name, trace::Run &run) {
  std::vector<std::string> files;
  if (Status status = traceFiles(name, files); !status.ok())
    return status;
  std::map<int32_t, std::string> fileOf; // rank → where its events are
  uintmax_t bytes = 0;
  run = {};
  for (const std::string &file : files) {
    std::error_code error;
    if (const uintmax_t more = std::filesystem::file_size(file, error); !error)
      bytes += more;
    if (files.size() > 1 && bytes > uintmax_t(trace::kReadBytes))
      return Status::input(fmt::format("{}: longer than {} bytes in all, which is the most; a run of fewer steps has "
                                       "shorter traces",
                                       units::escaped(name), trace::kReadBytes));
    trace::Run own;
    if (Status status = trace::read(file, own); !status.ok())
      return status;
    std::set<int32_t> ranks;
    for (const trace::Event &event : own.events)
      ranks.insert(event.rank);
    for (const int32_t rank : ranks)
      if (const auto [known, first] = fileOf.emplace(rank, file); !first)
        return Status::input(fmt::format("{}: rank {} is in {} too: expected one file a rank, of one run",
                                         units::escaped(file), rank, units::escaped(known->second)));
    run.events.insert(run.events.end(), own.events.begin(), own.events.end());
    run.pieces.insert(run.pieces.end(), own.pieces.begin(), own.pieces.end());
    run.decisions.insert(run.decisions.end(), own.decisions.begin(), own.decisions.end());
  }
  return {};
}

void keepFirstReplica(trace::Run &run, int32_t degree) {
  if (degree == 1)
    return;
  for (std::vector<trace::Event> *events : {&run.events, &run.pieces}) {
    std::erase_if(*events, [&](const trace::Event &event) { return event.rank % degree != 0; });
    for (trace::Event &event : *events)
      event.rank /= degree;
  }
}

std::string missingRanks(const std::vector<trace::Event> &events, const plan::Plan &plan) {
  constexpr size_t kNamed = 8;
  const int32_t ranks = plan.ranks(), shards = plan.shards();
  std::vector<bool> there(size_t(ranks * shards), false);
  for (const trace::Event &event : events)
    if (size_t(event.rank) < there.size())
      there[size_t(event.rank)] = true;
  std::vector<std::string> missing;
  for (int32_t place = 0; place < ranks * shards; ++place)
    if (!there[size_t(place)] && !plan.variants.front().programOf(size_t(place)).instructions.empty())
      missing.push_back(shards > 1 ? fmt::format("{} shard {}", place / shards, place % shards)
                                   : std::to_string(place));
  if (missing.empty())
    return {};
  if (missing.size() == 1)
    return "rank " + missing.front();
  std::string last = missing.back();
  if (missing.size() > kNamed) {
    last = fmt::format("{} more", missing.size() - kNamed + 1);
    missing.resize(kNamed);
  }
  missing.pop_back();
  return fmt::format("ranks {} and {}", fmt::join(missing, ", "), last);
}

Status haveAllRanks(const std::vector<trace::Event> &events, const plan::Plan &plan) {
  const std::string missing = missingRanks(events, plan);
  return missing.empty() ? Status()
                         : Status::input(fmt::format("the trace has nothing of {}: where each process has written its "
                                                     "own, name all of them, as in --trace 'run.*.json'",
                                                     missing));
}

Status replay(const plan::Variant &variant, const std::vector<trace::Event> &events, int64_t step,
              simulate::Recording &recording) {
  using Identity = std::tuple<int32_t, plan::Kind, plan::Payload, int32_t, int64_t, trace::Scope>;
  std::map<int64_t, int32_t> attempts; // step → the last attempt that ran it
  for (const trace::Event &event : events)
    attempts[event.step] = std::max(attempts[event.step], event.attempt);
  if (step >= 0 && !attempts.contains(step))
    return Status::usage(
        fmt::format("the trace has no step {}, but {} to {}", step, attempts.begin()->first, attempts.rbegin()->first));
  Status status;
  for (auto each = attempts.rbegin(); each != attempts.rend(); ++each) {
    if (step >= 0 && each->first != step)
      continue;
    std::map<Identity, std::pair<plan::Time, plan::Time>> times;
    plan::Time begin = 0;
    bool any = false;
    for (const trace::Event &e : events) {
      if (e.step != each->first || e.attempt != each->second)
        continue;
      times[{e.rank, e.kind, e.of, e.stage, e.microbatch, e.scope}] = {e.start, e.end};
      if (!plan::isTransfer(e.kind)) {
        begin = any ? std::min(begin, e.start) : e.start;
        any = true;
      }
    }
    status = recording.replay(variant,
                              [&](int32_t place, const plan::Operation &o,
                                  int64_t microbatch) -> std::optional<std::pair<plan::Time, plan::Time>> {
                                const auto found =
                                    times.find({place, o.kind, o.of, o.stage, microbatch, trace::scopeOf(o)});
                                if (found == times.end())
                                  return std::nullopt;
                                return std::pair(found->second.first - begin, found->second.second - begin);
                              });
    if (status.ok())
      return {};
    status.message = fmt::format("step {} of the trace {}; expected a trace of this plan", each->first, status.message);
  }
  return status;
}

} // namespace pipec
