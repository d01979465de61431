#include "runtime/launch/Permits.h"

#include "runtime/device/Clock.h"

#include <fmt/format.h>

namespace pipec::runtime {

Permits::Permits(int64_t first, int64_t every, Doing &doing, Failure &failure, Hooks hooks)
    : first(first), every(every), doing(doing), failure(failure), hooks(std::move(hooks)) {
  failure.listen([this] {
    std::lock_guard lock(mutex);
    changed.notify_all();
  });
}

void Permits::grant(Permit permit) {
  std::lock_guard lock(mutex);
  granted.push_back(std::move(permit));
  changed.notify_all();
}

std::optional<Pilot::Turn> Permits::turn(int64_t step, plan::Time rest) {
  const bool wanted = hooks.others || hooks.needed(step);
  std::unique_lock lock(mutex);
  int64_t begin = Clock::monotonic();
  auto isKnown = [&] { return wanted ? known(step) : failure.raised() || ended() <= step; };
  if (!isKnown()) {
    const Doing::While awaits = doing.awaits(fmt::format("permit for step {}", step), bool(hooks.others));
    changed.wait(lock, isKnown);
  }
  if (!hooks.others)
    waited.add((Clock::monotonic() - begin) * 1000 - rest);
  if (failure.raised())
    return std::nullopt;
  if (step >= ended()) {
    lock.unlock();
    if (hooks.others)
      hooks.others();
    return std::nullopt;
  }
  while (granted.front().until <= step)
    granted.pop_front();
  recut = std::exchange(granted.front().recut, nullptr);
  shares = std::exchange(granted.front().shares, nullptr);
  return Turn{granted.front().program, granted.front().epoch, recut || shares || saves(step)};
}

} // namespace pipec::runtime
