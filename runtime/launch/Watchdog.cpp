#include "runtime/launch/Watchdog.h"

#include <algorithm>
#include <fmt/format.h>

namespace pipec::runtime {

using namespace std::chrono_literals;

Watchdog::Watchdog(asio::io_context &io, plan::Time deadline, Failure &failure, Overdue overdue)
    : io(io), deadline(deadline), failure(failure), overdue(std::move(overdue)), timer(io) {}

void Watchdog::start() {
  asio::post(io, [this] { watch(); });
}

void Watchdog::rest() {
  asio::post(io, [this] {
    resting = true;
    timer.cancel();
  });
}

void Watchdog::watch() {
  if (deadline == 0 || resting || failure.raised())
    return;
  plan::Time limit = deadline;
  if (const std::optional<std::string> late = overdue(limit))
    return failure.raise(Status::run(fmt::format("{} within {:g} s", *late, double(limit) / 1e12)));
  // Ten times within the deadline, but not more often than every millisecond and not less often than every half second.
  timer.expires_after(std::clamp<std::chrono::nanoseconds>(std::chrono::nanoseconds(deadline / 10'000), 1ms, 500ms));
  timer.async_wait([this](std::error_code error) {
    if (!error)
      watch();
  });
}

} // namespace pipec::runtime
