// The line that a long command shows on a terminal while it runs.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace pipec {

/// When a line about a command is shown: at once, or once it has taken PIPEC_PROGRESS, a duration (default: 10s).
enum class Shown { AtOnce, IfLong };

/// A line on standard error that is rewritten in place: the current work, and for how many seconds the command has run.
/// Nothing is shown if standard error is no terminal. The line is erased when the object is destroyed.
class ProgressLine {
public:
  /// `shown`: false for output that programs read.
  ProgressLine(bool shown, Shown when);
  ~ProgressLine();
  ProgressLine(const ProgressLine &) = delete;

  /// Sets the text of the current work.
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
