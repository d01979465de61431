// No wait of a rank lasts longer than the deadline: what does, whatever it waits for and on whatever kind of device,
// ends the run with a message that says what did not come.
#pragma once

#include "runtime/device/Failure.h"
#include "runtime/plan/Plan.h"

#include <asio.hpp>
#include <optional>
#include <string>

namespace pipec::runtime {

class Watchdog {
public:
  /// What has waited for longer than `limit`, and for whom.
  using Overdue = std::function<std::optional<std::string>(plan::Time limit)>;

  /// `overdue` is asked time and again, on the thread of `io`, and its answer raises `failure`. `deadline` 0: never.
  /// All outlive the watchdog, which outlives what `io` still runs.
  Watchdog(asio::io_context &io, plan::Time deadline, Failure &failure, Overdue overdue);

  // From any thread.

  void start();
  /// Nothing is overdue any more.
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
