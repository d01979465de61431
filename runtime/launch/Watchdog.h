// Sees to it that no wait of a rank lasts longer than the deadline. One that does ends the run with a message that says
// what did not come. That holds for every kind of device.
#pragma once

#include "runtime/device/Failure.h"
#include "runtime/plan/Plan.h"

#include <asio.hpp>
#include <optional>
#include <string>

namespace pipec::runtime {

class Watchdog {
public:
  /// Says what has waited for longer than `limit`, and for whom; nothing if nothing has. It may set another limit.
  using Overdue = std::function<std::optional<std::string>(plan::Time &limit)>;

  /// Calls `overdue` time and again on the thread of `io`; an answer raises `failure`. `deadline`: picoseconds; 0:
  /// never. All outlive the watchdog. Destroy it only when `io` runs nothing more.
  Watchdog(asio::io_context &io, plan::Time deadline, Failure &failure, Overdue overdue);

  // From any thread.

  void start();
  /// Ends the watch: from now on nothing is overdue.
  void rest();

private:
  void watch();

  asio::io_context &io;
  const plan::Time deadline;
  Failure &failure;
  const Overdue overdue;
  asio::steady_timer timer;
  bool resting = false;
};

} // namespace pipec::runtime
