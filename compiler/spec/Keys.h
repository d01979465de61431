// The table of all keys that a spec may have. The reader, its errors about unknown keys and the JSON Schema are all
// made from this table.
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
  Map,       // its keys are in the table
  Maps,      // a list of maps; their keys are in the table
  Duration,  // ps
  Size,      // bytes, or one of `choices`
  Bandwidth, // bytes per second
  Integer,   // within least and most
  Integers,  // a list of integers, or one of `choices`
  Decimal,   // within least and most, in millionths; or one of `choices`
  Boolean,
  Choice,    // one of `choices`
  Text,      // any scalar of at most kTextBytes
  Name,      // a name that goes into plans: at most limits::kNameBytes, without control characters
  Placement, // one of `choices`, or a list of stages for each rank
  Schedule,  // a name, or a map with a name and whatever parameters the schedule takes
  Free,      // any map
  Variants,  // a list of partial specs, or a map of one parameter of the schedule
};

inline constexpr int64_t kLayers = int64_t(1) << 20;              // most layers of one kind
inline constexpr int64_t kUnits = int64_t(1) << 20;               // most units of a split
inline constexpr int64_t kWholePart = 1'000'000;                  // the decimal 1, in millionths
inline constexpr int64_t kAmplification = 1'000'000 * kWholePart; // largest amplification limit of burst
inline constexpr int64_t kFactor = 1000 * kWholePart;             // largest factor of a slow shard
inline constexpr size_t kTextBytes = 4096;
inline constexpr size_t kParameterBytes = 64; // longest item of a list parameter

struct Key {
  std::string_view path; // "costs.link.latency"; "[]" stands for the maps of a list
  Type type = Type::Map;
  std::string_view description = {};                 // one sentence, no full stop
  std::string_view fallback = {};                    // the default, for people
  bool perStage = false;                             // one value for all stages, or a list with one for each
  std::optional<plan::Figure> figure = std::nullopt; // the figure of each stage that the key gives, if any
  /// With `layers`: the corresponding key of a layer, with which the value moves with the layer.
  std::string_view byLayer = {};
  bool perRank = false;    // one value for all ranks, or a list with one for each
  bool perTensor = false;  // one value, or a list with one for each tensor
  bool perLayer = false;   // one value, or a list with one for each layer
  bool perSample = false;  // may be {fixed, per_sample}
  bool bySamples = false;  // may be {samples: {1: …}}
  bool percent = false;    // a decimal that may be a percentage
  bool mayBeEmpty = false; // the list may be empty
  bool required = false;
  int64_t least = 0;
  int64_t most = 0;
  std::vector<std::string_view> choices = {};

  /// "latency" of "costs.link.latency".
  std::string_view name() const { return path.substr(path.rfind('.') + 1); }
  /// Path of the map that contains the key; empty for a top-level key.
  std::string_view parent() const { return path.substr(0, path.rfind('.') == path.npos ? 0 : path.rfind('.')); }
};

std::span<const Key> keys();
/// Null if the table has no key with that path.
const Key *findKey(std::string_view path);
/// The keys of the map at `path` ("" for the whole spec), in the table's order.
std::vector<const Key *> keysOf(std::string_view path);

/// The word nearest to `word` by edits; empty if none is near.
std::string_view nearest(std::string_view word, std::span<const std::string_view> words);
/// The message for an unknown key, with a suggestion: a key with a similar name, a key with this name elsewhere, or
/// else all keys known at that place.
std::string unknownKey(std::string_view path, std::string_view name);

} // namespace pipec::spec
