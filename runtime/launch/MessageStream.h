// Messages for people, from threads that a run waits for: a reader that stands still holds nobody.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace pipec::runtime {

/// Waits a short time at most for a descriptor that cannot be written to. A message that cannot be written then is left
/// out; how many were left out is said before the next one that can be written. Errors are ignored.
class MessageStream {
public:
  using Milliseconds = std::chrono::milliseconds;
  static constexpr Milliseconds kAmid{100}; // while a run goes on
  static constexpr Milliseconds kAtEnd{10000};

  /// `descriptor` stays the caller's. `name` says what was left out.
  MessageStream(int descriptor, std::string name) : descriptor(descriptor), name(std::move(name)) {}

  /// Waits for kAmid where the message before was written, else not at all.
  void write(std::string_view text);
  /// The last message, or none: waits for kAtEnd, and says first what was left out.
  void finish(std::string_view text = "");

private:
  using Clock = std::chrono::steady_clock;
  void put(std::string_view text, Milliseconds patience);
  void drain(Clock::time_point until);

  const int descriptor;
  const std::string name;
  std::mutex mutex;
  std::string rest;    // of a message that was begun
  int64_t leftOut = 0; // messages
};

/// Standard error. `name`, of the program, counts in the first call.
MessageStream &standardError(const std::string &name = "pipec");

/// From now on spdlog writes to standardError(name): "NAME: MESSAGE".
void logToStandardError(const std::string &name);

} // namespace pipec::runtime
