// What a library is told of its rank's shards, and what it may ask of them.
#include "runtime/stage/library/LibraryObject.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>

namespace pipec::runtime {

namespace {

/// Leaves a message, if there is one, where the library finds it.
int answer(const std::string &wrong, PipecError *error) {
  if (error && !wrong.empty()) {
    const size_t length = wrong.copy(error->message, sizeof error->message - 1);
    error->message[length] = '\0';
  }
  return wrong.empty() ? 0 : 1;
}

/// What is wrong with so many numbers of a type, of each of some shards; empty: nothing.
std::string wrongNumbers(int64_t count, int32_t type, int32_t shards) {
  if (type != PIPEC_FLOAT32 && type != PIPEC_FLOAT64)
    return fmt::format("the numbers of a sum are of type {}, expected {} or {}", type, PIPEC_FLOAT32, PIPEC_FLOAT64);
  if (count < 0 || count > std::numeric_limits<int64_t>::max() / 8 / shards)
    return fmt::format("a sum of {} numbers", count);
  return {};
}

/// A call between shards is no time of its own.
template <typename Call> int between(PipecGroup *group, PipecError *error, Call call) {
  const auto &shards = *static_cast<const RankShards *>(group->own);
  shards.time->pause();
  const std::string wrong = call(*shards.group);
  shards.time->resume();
  return answer(wrong, error);
}

std::byte *bytes(void *values) { return static_cast<std::byte *>(values); }
const std::byte *bytes(const void *values) { return static_cast<const std::byte *>(values); }

int sum(PipecGroup *group, void *values, int64_t count, int32_t type, PipecError *error) {
  if (const std::string wrong = wrongNumbers(count, type, group->shards); !wrong.empty())
    return answer(wrong, error);
  return between(group, error, [&](ShardGroup &shards) { return shards.sum(bytes(values), count, Number(type)); });
}

int scatter(PipecGroup *group, const void *values, int64_t count, int32_t type, void *share, PipecError *error) {
  if (const std::string wrong = wrongNumbers(count, type, group->shards); !wrong.empty())
    return answer(wrong, error);
  return between(group, error,
                 [&](ShardGroup &shards) { return shards.scatter(bytes(values), count, Number(type), bytes(share)); });
}

int gather(PipecGroup *group, const void *share, int64_t count, int32_t type, void *values, PipecError *error) {
  if (const std::string wrong = wrongNumbers(count, type, group->shards); !wrong.empty())
    return answer(wrong, error);
  return between(group, error,
                 [&](ShardGroup &shards) { return shards.gather(bytes(share), count, Number(type), bytes(values)); });
}

int exchange(PipecGroup *group, const void *out, const int64_t *sent, void *in, const int64_t *received,
             PipecError *error) {
  const std::span<const int64_t> goes(sent, size_t(group->shards)), comes(received, size_t(group -> shards));
  for (const std::span<const int64_t> &each : {goes, comes})
    if (std::any_of(each.begin(), each.end(), [](int64_t size) { return size < 0; }))
      return answer("an exchange of less than no bytes", error);
  return between(group, error, [&](ShardGroup &shards) { return shards.exchange(bytes(out), goes, bytes(in), comes); });
}

std::vector<PipecUnits> unitsOf(const std::vector<plan::Range> &ranges) {
  std::vector<PipecUnits> units;
  for (const plan::Range &each : ranges)
    units.push_back({each.first, each.count});
  return units;
}

} // namespace

void LibraryObject::openGroup() {
  group = {.size = sizeof(PipecGroup),
           .shard = own.shard,
           .shards = own.shards,
           .own = const_cast<RankShards *>(&shards),
           .sum = sum,
           .scatter = scatter,
           .gather = gather,
           .exchange = exchange};
}

Status LibraryObject::share(const Portions &portions, int64_t step) {
  if (portions == shared)
    return {};
  std::vector<PipecPortion> told;
  std::vector<std::vector<PipecUnits>> units; // stay where they are
  units.reserve(2 * portions.all.size());
  for (const plan::Portion &each : portions.all) {
    const std::vector<PipecUnits> &owned = units.emplace_back(unitsOf(each.owned));
    const std::vector<PipecUnits> &worked = units.emplace_back(unitsOf(each.worked));
    told.push_back({.size = sizeof(PipecPortion),
                    .stage = each.stage,
                    .shard = each.shard,
                    .split = each.split.c_str(),
                    .units = each.units,
                    .owned = owned.data(),
                    .owned_count = int64_t(owned.size()),
                    .worked = worked.data(),
                    .worked_count = int64_t(worked.size()),
                    .kept = each.kept,
                    .balance = portions.balance.c_str(),
                    .first_layer = each.firstLayer,
                    .layers = each.layers});
  }
  shards.group->begin({nullptr, 0, step, 0});
  shards.time->begin();
  const std::string error = callPortions(told);
  shards.group->end();
  if (!error.empty())
    return Status::run(fmt::format("{}: portions for step {}: {}", plan::nameOf(own), step, error));
  shared = portions;
  return {};
}

} // namespace pipec::runtime
