#include "tools/pipec/ProgressLine.h"

#include "runtime/plan/Units.h"
#include "tools/commandline/Standard.h"

#include <chrono>
#include <cstdlib>
#include <fmt/format.h>
#include <unistd.h>

namespace pipec {

using Clock = std::chrono::steady_clock;

namespace {

/// The time from which a command counts as long.
std::chrono::milliseconds longFrom() {
  constexpr std::chrono::seconds kUsual(10);
  constexpr int64_t kPicoseconds = 1'000'000'000; // of a millisecond
  const char *asked = std::getenv("PIPEC_PROGRESS");
  const units::Quantity quantity = units::parseDuration(asked ? asked : "");
  return quantity.ok() ? std::chrono::milliseconds(quantity.value / kPicoseconds) : kUsual;
}

} // namespace

ProgressLine::ProgressLine(bool shown, Shown when) {
  if (!shown || !isatty(STDERR_FILENO))
    return;
  thread = std::thread([this, when] {
    const Clock::time_point begin = Clock::now();
    std::unique_lock lock(mutex);
    if (when == Shown::IfLong)
      changed.wait_until(lock, begin + longFrom(), [this] { return isOver; });
    while (!isOver) {
      const auto taken = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begin).count();
      // The next message begins at the start of the line and overwrites it.
      if (!what.empty())
        say("\r\x1b[K{}, {} s\r", what, taken);
      const std::string told = what;
      changed.wait_for(lock, std::chrono::seconds(1), [&] { return isOver || what != told; });
    }
  });
}

ProgressLine::~ProgressLine() {
  if (!thread.joinable())
    return;
  {
    const std::lock_guard lock(mutex);
    isOver = true;
  }
  changed.notify_one();
  thread.join();
  say("\r\x1b[K");
}

void ProgressLine::operator()(const std::string &now) {
  if (!thread.joinable())
    return;
  {
    const std::lock_guard lock(mutex);
    what = now;
  }
  changed.notify_one();
}

} // namespace pipec
