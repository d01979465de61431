// What keeps a process from going on. Who watches the process asks for it; messages say it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace pipec::runtime {

/// Something that a process waits for.
struct Wait {
  /// What is said once the wait has lasted too long; "within 5 s" follows: "rank 1: recv F stage 1 microbatch 0 from
  /// rank 0: rank 0 did not come to it". To call at once: what it speaks of goes on.
  std::function<std::string()> late;
  /// The processes that it is up to: world ranks, or kController. Empty: this process alone.
  std::vector<int32_t> whom = {};
  int64_t since = 0; // nanoseconds of CLOCK_MONOTONIC
  /// Whether it may last for ever, as long as those that it is up to run.
  bool patient = false;
  /// Whether it is not known who is missing. Another process may know.
  bool vague = false;
};

/// In place of a world rank: who leads the run.
inline constexpr int32_t kController = -1;

/// A computation that a process is in.
struct Pass {
  std::string what;  // "computes F stage 1 microbatch 3"
  int64_t since = 0; // nanoseconds of CLOCK_MONOTONIC; it may have begun a little earlier
  /// Whether it is a call of a driver: that is short, whatever the process does.
  bool isCall = false;
};

} // namespace pipec::runtime
