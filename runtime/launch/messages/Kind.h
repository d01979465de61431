// What every message has: a kind, and fields with names.
#pragma once

#include "runtime/plan/Limits.h"

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace pipec::runtime {

using Message = nlohmann::json; // the fields of a message, or JSON that a message carries for others

namespace messages {

/// Directions of a message, one bit each. ToRun and ToClient: over the control socket. ToPeer: between two processes
/// that exchange data.
enum Way : uint8_t { ToController = 1, ToRank = 2, ToRun = 4, ToClient = 8, ToPeer = 16 };

struct Kind {
  std::string_view name;
  uint64_t most; // bytes
  uint8_t ways;
};

/// A field of a struct, and its name in the message. Optional fields may be absent.
template <typename Struct, typename T> struct Field {
  const char *name;
  T Struct::*member;
};
template <typename Struct, typename T> Field(const char *, T Struct::*) -> Field<Struct, T>;

inline constexpr uint64_t kSmall = 64 << 10, kText = 1 << 20, kAnswer = 16 << 20;
inline constexpr uint64_t kPlan = uint64_t(limits::kPlanBytes) + kSmall;
inline constexpr uint64_t kEvents = uint64_t(limits::kTraceBytes); // with the events of a trace
inline constexpr uint64_t kFiles = 256 << 20;                      // names, sizes and hashes of a checkpoint's files
inline constexpr uint64_t kEach = uint64_t(limits::kRanks);        // factor for messages with an entry per rank
/// Deepest nesting of arrays and objects in a message.
inline constexpr int kDepth = 8;

using Bytes = std::vector<uint8_t>;
using Numbers = std::vector<int64_t>;

} // namespace messages
} // namespace pipec::runtime
