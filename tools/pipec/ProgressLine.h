// What a command that takes long says on a terminal while it runs.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace pipec {

/// When a line about a command is shown: at once, or once it has taken PIPEC_PROGRESS, a duration (default: 10s).
enum class Shown { AtOnce, IfLong };

/// A line on standard error that is rewritten in place: what is done, and for how many seconds the command has run.
/// Where standard error is no terminal, nothing. The line is gone when the object is.
class ProgressLine {
public:
  /// `shown` is false for output that is for programs.
  ProgressLine(bool shown, Shown when);
  ~ProgressLine();
  ProgressLine(const ProgressLine &) = delete;

  /// What is done now.
  void operator()(const std::string &what);

private:
  void tell();

  std::mutex mutex;
  std::condition_variable changed;
  std::string what;
  bool isOver = false;
  std::thread thread;
};

} // namespace pipec
