// The one table of what a spec may hold. The reader, its unknown-key errors and the JSON Schema are all made from it.
#pragma once

#include "compiler/spec/Spec.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pipec::spec {

enum class Type : uint8_t {
  Map,       // its keys stand in the table
  Maps,      // a list of such maps
  Duration,  // ps
  Size,      // bytes, or one of `choices`
  Bandwidth, // bytes a second
  Integer,   // within least and most
  Integers,  // a list of them, or one of `choices`
  Decimal,   // within least and most, in millionths; or one of `choices`
  Boolean,
  Choice,    // one of `choices`
  Text,      // any scalar of at most kTextBytes
  Name,      // one that stands in plans: at most limits::kNameBytes, without control characters
  Placement, // one of `choices`, or for each rank the list of its stages
  Schedule,  // a name, or a map with a name and whatever parameters the schedule takes
  Free,      // any map
  Variants,  // a list of partial specs, or a map of one parameter of the schedule
};

inline constexpr int64_t kLayers = int64_t(1) << 20;              // of one kind
inline constexpr int64_t kUnits = int64_t(1) << 20;               // of a split
inline constexpr int64_t kWholePart = 1'000'000;                  // of decimals: 1
inline constexpr int64_t kAmplification = 1'000'000 * kWholePart; // that a plan of burst may be limited to
inline constexpr int64_t kFactor = 1000 * kWholePart;             // of a slow shard
inline constexpr size_t kTextBytes = 4096;
inline constexpr size_t kParameterBytes = 64; // of an item of a list

struct Key {
  std::string_view path; // "costs.link.latency"; "[]" stands for the maps of a list
  Type type = Type::Map;
  std::string_view description = {};                 // one sentence, no full stop
  std::string_view fallback = {};                    // what holds if it is absent, for people
  bool perStage = false;                             // one value for all stages, or a list of one for each
  std::optional<plan::Figure> figure = std::nullopt; // of each stage, where the key gives one
  std::string_view byLayer = {}; // with `layers`, the key of a layer that says it so that it moves with the layer
  bool perRank = false;          // the same of ranks
  bool perTensor = false;        // one value, or a list of one for each tensor
  bool perLayer = false;         // one value, or a list of one for each layer
  bool perSample = false;        // may be {fixed, per_sample}
  bool bySamples = false;        // or {samples: {1: …}}
  bool percent = false;          // a decimal that may be a percentage
  bool mayBeEmpty = false;       // a list of none has a meaning
  bool required = false;
  int64_t least = 0;
  int64_t most = 0;
  std::vector<std::string_view> choices = {};

  /// "latency" of "costs.link.latency".
  std::string_view name() const { return path.substr(path.rfind('.') + 1); }
  /// Path of the map that it stands in; empty for a top-level key.
  std::string_view parent() const { return path.substr(0, path.rfind('.') == path.npos ? 0 : path.rfind('.')); }
};

std::span<const Key> keys();
/// Null if the table has none of that path.
const Key *findKey(std::string_view path);
/// The keys of the map at `path` ("" for the whole spec), in the table's order.
std::vector<const Key *> keysOf(std::string_view path);

/// The word nearest to `word` by edits; empty if none is near.
std::string_view nearest(std::string_view word, std::span<const std::string_view> words);
/// The message for an unknown key, with what was probably meant: a key of a similar name, one of that name elsewhere,
/// else all that are known at that place.
std::string unknownKey(std::string_view path, std::string_view name);

} // namespace pipec::spec
