// MessageStream writes messages for people from threads that a run waits for. A reader that has stopped reading blocks
// no thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace pipec::runtime {

/// If the descriptor cannot be written to, waits a short time and then drops the message. Before the next message that
/// can be written, writes how many were dropped. Errors are ignored.
class MessageStream {
public:
  using Milliseconds = std::chrono::milliseconds;
  static constexpr Milliseconds kAmid{100}; // while a run goes on
  static constexpr Milliseconds kAtEnd{10000};

  /// `name`: the program, for the line about dropped messages.
  MessageStream(int descriptor, std::string name) : descriptor(descriptor), name(std::move(name)) {}

  /// Waits for up to kAmid if the last message was written, else not at all.
  void write(std::string_view text);
  /// Writes the last message, or none. Waits for up to kAtEnd, and first writes how many messages were dropped.
  void finish(std::string_view text = "");

private:
  using Clock = std::chrono::steady_clock;
  void put(std::string_view text, Milliseconds patience);
  void drain(Clock::time_point until);

  const int descriptor;
  const std::string name;
  std::mutex mutex;
  std::string rest;    // of a message that was written in part
  int64_t leftOut = 0; // number of dropped messages
};

/// Standard error. `name`: the program; only the name of the first call counts.
MessageStream &standardError(const std::string &name = "pipec");

/// From now on spdlog writes to standardError(name): "NAME: MESSAGE".
void logToStandardError(const std::string &name);

} // namespace pipec::runtime
