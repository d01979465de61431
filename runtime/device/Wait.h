// What keeps a process from going on. Watch (runtime/launch/waits) reads these structs; messages name them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace pipec::runtime {

/// Something that a process waits for.
struct Wait {
  /// Makes the message for a wait that has lasted too long: "rank 1: recv F stage 1 microbatch 0 from rank 0: rank 0
  /// did not come to it"; the caller appends "within 5 s". Call this function before the queues go on: afterwards the
  /// instruction that the message names may be another.
  std::function<std::string()> late;
  /// The processes that can end the wait: world ranks, or kController. Empty: this process alone.
  std::vector<int32_t> whom = {};
  int64_t since = 0; // nanoseconds of CLOCK_MONOTONIC
  /// Whether the wait may last for ever, as long as the processes in `whom` answer.
  bool patient = false;
  /// Whether this process does not know which process is missing. Another process may know.
  bool vague = false;
};

/// In place of a world rank: the controller.
inline constexpr int32_t kController = -1;

/// A computation that a process is in.
struct Pass {
  std::string what;  // "computes F stage 1 microbatch 3"
  int64_t since = 0; // nanoseconds of CLOCK_MONOTONIC; it may have begun a little earlier
  /// Whether the process is in a call of a driver. Such a call is short, also while a state is saved or stages are
  /// made.
  bool isCall = false;
};

} // namespace pipec::runtime
