// A run of the tensor stage library without a plan: each shard is an object in a thread of its own, and their group is
// a meeting of these threads. Stages are ranks, one behind the other, each with its own objects and group.
#pragma once
#include "test/tensor/Inside.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace pipec::test {

/// Of one split: by shard, who owns and works which units, and how many it keeps (-1: all that it works).
struct SplitPortions {
  std::vector<std::vector<PipecUnits>> owned, worked;
  std::vector<int64_t> kept;
};
struct Portions {
  SplitPortions heads, columns;
  std::string balance = R"({"name": "even"})";
  int firstLayer = 0, layers = 0; // of each rank; 0: all
};

/// Units cut by these parts, one a shard, from the first on.
SplitPortions cut(int64_t units, const std::vector<int64_t> &owned, const std::vector<int64_t> &worked = {},
                  const std::vector<int64_t> &kept = {});

struct Setting {
  int ranks = 1, shards = 1, layers = 2; // layers of each rank
  int64_t microbatches = 2, columns = 24, width = 16, patch = 5, samples = 16;
  std::string values; // of the provider, more
  bool splitBackward = false;
};

/// What a step said in the log.
struct Said {
  double loss = 0, accuracy = -1;
  uint64_t hash = 0;
  bool operator==(const Said &) const = default;
};

class Meeting;

class Shards {
public:
  explicit Shards(const Setting &run);
  ~Shards();
  /// On all shards and ranks at once; the first error, or none.
  std::string portions(const Portions &portions) { return this->portions(std::vector{portions}); }
  std::string portions(const std::vector<Portions> &portions);
  std::string step(int64_t step);
  std::string save(int64_t steps), load(int64_t steps);
  /// Takes what another run has saved.
  void takeFiles(const Shards &other);
  Said said() const; // of the last step
  double accuracy(); // now
  PipecStage *object(int shard, int rank = 0) { return objects[size_t(rank * run.shards + shard)]; }
  /// Forward and backward of all microbatches, without the update.
  std::string passes(int64_t step);
  const std::string &creation() const { return failure; }
  int64_t exchanges() const;

private:
  template <typename Work> std::string onEach(Work work);
  std::string call(int shard, int64_t step, bool update);
  std::filesystem::path file(int rank, int shard) const;

  Setting run;
  std::filesystem::path folder;
  std::vector<std::unique_ptr<Meeting>> meetings;
  std::vector<PipecGroup> groups;
  std::vector<PipecStage *> objects;
  std::string failure;
  int64_t boundary = 0;
};

} // namespace pipec::test
