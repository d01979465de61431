#include "test/tensor/TensorShards.h"

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <functional>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <thread>

#include <stdlib.h>

namespace pipec::test {

/// Threads that wait for each other, unless one of them gives up.
class Meeting {
public:
  explicit Meeting(int shards) : shown(size_t(shards)), sizes(size_t(shards)), shards(shards) {}

  /// 0: all have come.
  int meet(PipecError *error) {
    std::unique_lock lock(mutex);
    int64_t now = round;
    if (++here == shards) {
      here = 0;
      ++round;
      changed.notify_all();
    } else {
      changed.wait(lock, [&] { return round != now || given; });
    }
    if (round != now)
      return 0;
    snprintf(error->message, sizeof error->message, "another shard has failed");
    return 1;
  }
  void begin() {
    given = false;
    here = 0;
  }
  void giveUp() {
    std::unique_lock lock(mutex);
    given = true;
    changed.notify_all();
  }

  std::vector<const void *> shown;
  std::vector<const int64_t *> sizes;
  std::atomic<int64_t> exchanges{0};

private:
  std::mutex mutex;
  std::condition_variable changed;
  int shards, here = 0;
  int64_t round = 0;
  bool given = false;
};

namespace {

Meeting &of(PipecGroup *group) { return *static_cast<Meeting *>(group->own); }

int sum(PipecGroup *group, void *values, int64_t count, int32_t type, PipecError *error) {
  Meeting &meeting = of(group);
  if (type != PIPEC_FLOAT64)
    throw std::logic_error("sums are of float64");
  meeting.shown[size_t(group->shard)] = values;
  meeting.sizes[size_t(group->shard)] = &count;
  if (meeting.meet(error))
    return 1;
  std::vector<double> all(size_t(count), 0.0);
  for (int i = 0; i < group->shards; ++i) {
    if (*meeting.sizes[size_t(i)] != count)
      throw std::logic_error("shards sum different counts");
    for (int64_t k = 0; k < count; ++k)
      all[size_t(k)] += static_cast<const double *>(meeting.shown[size_t(i)])[k];
  }
  if (meeting.meet(error))
    return 1;
  memcpy(values, all.data(), all.size() * sizeof(double));
  return 0;
}

int exchange(PipecGroup *group, const void *out, const int64_t *sent, void *in, const int64_t *received,
             PipecError *error) {
  Meeting &meeting = of(group);
  size_t self = size_t(group->shard);
  meeting.shown[self] = out;
  meeting.sizes[self] = sent;
  ++meeting.exchanges;
  if (meeting.meet(error))
    return 1;
  char *to = static_cast<char *>(in);
  for (size_t i = 0; i < size_t(group->shards); ++i) {
    const int64_t *sizes = meeting.sizes[i];
    if (sizes[self] != received[i])
      throw std::logic_error("a shard sends another size than is expected");
    const char *from = static_cast<const char *>(meeting.shown[i]);
    for (size_t k = 0; k < self; ++k)
      from += sizes[k];
    if (received[i] > 0)
      memcpy(to, from, size_t(received[i]));
    to += received[i];
  }
  return meeting.meet(error);
}

std::vector<std::vector<PipecUnits>> ranges(int64_t units, const std::vector<int64_t> &parts) {
  std::vector<std::vector<PipecUnits>> found;
  int64_t first = 0;
  for (int64_t part : parts) {
    found.push_back(part > 0 ? std::vector<PipecUnits>{{first, part}} : std::vector<PipecUnits>{});
    first += part;
  }
  if (first != units)
    throw std::logic_error("parts are not all units");
  return found;
}

void describe(std::vector<PipecPortion> &to, const char *name, int64_t units, const SplitPortions &split,
              const Portions &all, const Setting &run, int rank) {
  for (size_t shard = 0; shard < split.owned.size(); ++shard) {
    const auto &owned = split.owned[shard], &worked = split.worked[shard];
    PipecPortion portion = {};
    portion.size = sizeof portion;
    portion.stage = rank;
    portion.shard = int32_t(shard);
    portion.split = name;
    portion.units = units;
    portion.owned = owned.data();
    portion.owned_count = int64_t(owned.size());
    portion.worked = worked.data();
    portion.worked_count = int64_t(worked.size());
    for (const PipecUnits &range : worked)
      portion.kept += range.count;
    if (shard < split.kept.size() && split.kept[shard] >= 0)
      portion.kept = split.kept[shard];
    portion.balance = all.balance.c_str();
    portion.first_layer = all.firstLayer;
    portion.layers = all.layers > 0 ? all.layers : run.layers;
    to.push_back(portion);
  }
}

} // namespace

SplitPortions cut(int64_t units, const std::vector<int64_t> &owned, const std::vector<int64_t> &worked,
                  const std::vector<int64_t> &kept) {
  return {ranges(units, owned), ranges(units, worked.empty() ? owned : worked), kept};
}

Shards::Shards(const Setting &run) : run(run), objects(size_t(run.ranks * run.shards)) {
  std::string pattern = (std::filesystem::temp_directory_path() / "tensor-XXXXXX").string();
  folder = mkdtemp(pattern.data());
  std::string values = R"({"log": ")" + (folder / "log.csv").string() + '"';
  for (auto [key, value] : {std::pair("width", run.width), std::pair("columns", run.columns),
                            std::pair("patch", run.patch), std::pair("samples", run.samples)})
    values += ", \"" + std::string(key) + "\": " + std::to_string(value);
  values += (run.values.empty() ? "" : ", " + run.values) + "}";
  boundary = run.width * run.samples * (20 / run.patch) * (20 / run.patch) * int64_t(sizeof(float));
  groups.resize(objects.size());
  for (int rank = 0; rank < run.ranks; ++rank) {
    meetings.push_back(std::make_unique<Meeting>(run.shards));
    for (int shard = 0; shard < run.shards; ++shard) {
      PipecStageFacts facts = {};
      facts.size = sizeof facts;
      facts.stage = rank;
      facts.first_layer = rank * run.layers;
      facts.layers = run.layers;
      facts.input_bytes = rank > 0 ? boundary : 0;
      facts.output_bytes = rank + 1 < run.ranks ? boundary : 0;
      facts.input_gradient_bytes = facts.input_bytes;
      facts.output_gradient_bytes = facts.output_bytes;
      PipecGroup &group = groups[size_t(rank * run.shards + shard)];
      group = {sizeof group, shard, run.shards, meetings.back().get(), sum, nullptr, nullptr, exchange};
      PipecSetup setup = {};
      setup.size = sizeof setup;
      setup.rank = rank;
      setup.ranks = setup.stages = run.ranks;
      setup.layers = run.ranks * run.layers;
      setup.own_count = 1;
      setup.own = &facts;
      setup.microbatches = run.microbatches;
      setup.provider = values.c_str();
      setup.device = -1;
      setup.replicas = 1;
      setup.shard = shard;
      setup.shards = run.shards;
      setup.group = run.shards > 1 ? &group : nullptr;
      PipecError error = {};
      if (pipec_stage_create(&setup, &objects[size_t(rank * run.shards + shard)], &error) && failure.empty())
        failure = error.message;
    }
  }
}

Shards::~Shards() {
  for (PipecStage *object : objects)
    if (object)
      pipec_stage_destroy(object);
  std::filesystem::remove_all(folder);
}

template <typename Work> std::string Shards::onEach(Work work) {
  for (auto &meeting : meetings)
    meeting->begin();
  std::vector<std::thread> threads;
  std::string first;
  std::mutex mutex;
  for (int shard = 0; shard < run.shards; ++shard)
    threads.emplace_back([&, shard] {
      std::string error = work(shard);
      if (error.empty())
        return;
      for (auto &meeting : meetings)
        meeting->giveUp();
      std::lock_guard lock(mutex);
      if (first.empty() || first == "another shard has failed")
        first = error;
    });
  for (std::thread &thread : threads)
    thread.join();
  return first;
}

std::string Shards::portions(const std::vector<Portions> &portions) {
  return onEach([&](int shard) -> std::string {
    for (int rank = 0; rank < run.ranks; ++rank) {
      std::vector<PipecPortion> all;
      for (const Portions &each : portions) {
        describe(all, "heads", 8, each.heads, each, run, rank);
        describe(all, "columns", run.columns, each.columns, each, run, rank);
      }
      PipecError error = {};
      if (pipec_stage_portions(object(shard, rank), all.data(), int32_t(all.size()), &error))
        return error.message;
    }
    return {};
  });
}

std::string Shards::call(int shard, int64_t step, bool update) {
  using Function = int (*)(PipecStage *, const PipecCall *, PipecError *);
  PipecError error = {};
  auto make = [&](Function function, int rank, int64_t microbatch, const void *in, void *out) {
    PipecCall call = {};
    call.size = sizeof call;
    call.stage = rank;
    call.microbatch = microbatch;
    call.step = step;
    call.input = in;
    call.output = out;
    call.input_bytes = in ? boundary : 0;
    call.output_bytes = out ? boundary : 0;
    return function(object(shard, rank), &call, &error);
  };
  std::vector<std::vector<char>> room(size_t(run.ranks), std::vector<char>(size_t(boundary)));
  auto between = [&](int rank) { return rank >= 0 && rank + 1 < run.ranks ? room[size_t(rank)].data() : nullptr; };
  int failed = 0;
  for (int64_t m = 0; m < run.microbatches; ++m) {
    for (int rank = 0; rank < run.ranks; ++rank)
      failed = failed || make(pipec_stage_forward, rank, m, between(rank - 1), between(rank));
    for (int rank = run.ranks; rank-- > 0;)
      failed = failed || make(run.splitBackward ? pipec_stage_backward_input : pipec_stage_backward, rank, m,
                              between(rank), between(rank - 1));
  }
  for (int rank = 0; rank < run.ranks; ++rank) {
    for (int64_t m = 0; m < run.microbatches && run.splitBackward; ++m)
      failed = failed || make(pipec_stage_backward_weight, rank, m, nullptr, nullptr);
    failed = failed || (update && make(pipec_stage_optimizer_step, rank, 0, nullptr, nullptr));
  }
  return failed ? error.message : "";
}

std::string Shards::step(int64_t step) {
  return onEach([&](int shard) { return call(shard, step, true); });
}
std::string Shards::passes(int64_t step) {
  return onEach([&](int shard) { return call(shard, step, false); });
}

double Shards::accuracy() {
  std::vector<double> found(size_t(run.shards), -1.0);
  onEach([&](int shard) -> std::string {
    found[size_t(shard)] = accuracyOf(object(shard));
    return {};
  });
  return found.front();
}

std::filesystem::path Shards::file(int rank, int shard) const {
  return folder / ("state-" + std::to_string(rank) + "-" + std::to_string(shard));
}

std::string Shards::save(int64_t steps) {
  return onEach([&](int shard) -> std::string {
    PipecError error = {};
    for (int rank = 0; rank < run.ranks; ++rank)
      if (pipec_stage_save(object(shard, rank), file(rank, shard).c_str(), steps, &error))
        return error.message;
    return {};
  });
}

std::string Shards::load(int64_t steps) {
  return onEach([&](int shard) -> std::string {
    PipecError error = {};
    for (int rank = 0; rank < run.ranks; ++rank)
      if (pipec_stage_load(object(shard, rank), file(rank, shard).c_str(), steps, &error))
        return error.message;
    return {};
  });
}

void Shards::takeFiles(const Shards &other) {
  for (int rank = 0; rank < run.ranks; ++rank)
    for (int shard = 0; shard < run.shards; ++shard)
      std::filesystem::copy_file(other.file(rank, shard), file(rank, shard));
}

Said Shards::said() const {
  std::ifstream log(folder / "log.csv");
  std::vector<std::string> lines;
  for (std::string line; std::getline(log, line);)
    lines.push_back(line);
  Said said;
  for (size_t i = lines.size() - size_t(run.ranks * run.shards); i < lines.size(); ++i) {
    std::istringstream line(lines[i]);
    std::string step, stage, shard, hash, loss, accuracy;
    for (std::string *part : {&step, &stage, &shard, &hash, &loss, &accuracy})
      std::getline(line, *part, ',');
    said.hash += std::stoull(hash, nullptr, 16);
    if (!loss.empty())
      said.loss = std::stod(loss);
    if (!accuracy.empty())
      said.accuracy = std::stod(accuracy);
  }
  return said;
}

int64_t Shards::exchanges() const {
  int64_t all = 0;
  for (const auto &meeting : meetings)
    all += meeting->exchanges;
  return all / run.shards;
}

} // namespace pipec::test
