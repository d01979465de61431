#include "runtime/launch/Permits.h"

#include "runtime/device/Clock.h"

#include <fmt/format.h>

namespace pipec::runtime {

Permits::Permits(std::string process, int64_t first, int64_t every, plan::Time deadline, Failure &failure, Hooks hooks)
    : process(std::move(process)), first(first), every(every), deadline(deadline), failure(failure),
      hooks(std::move(hooks)) {
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
  if (deadline == 0) {
    changed.wait(lock, isKnown);
  } else if (!changed.wait_for(lock, std::chrono::nanoseconds(deadline / 1000), isKnown)) {
    lock.unlock();
    failure.raise(Status::run(fmt::format("{}: no permit for step {} came from the controller within {:g} s", process,
                                          step, double(deadline) / 1e12)));
    return std::nullopt;
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
