#include "runtime/launch/waits/Watch.h"

#include "runtime/device/Clock.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <spdlog/spdlog.h>

namespace pipec::runtime {

namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kReminder = 10 * kSecond; // time between log lines about the same wait

/// How long a process may take to answer, in nanoseconds. A running process answers at once.
int64_t patienceOf(int64_t deadline) { return std::clamp(deadline / 2, kSecond, 5 * kSecond); }

} // namespace

Watch::Watch(asio::io_context &io, Self watching, plan::Time deadline, Owner given)
    : self(std::move(watching)), deadline(deadline / 1000), owner(std::move(given)), timer(io),
      inquiry(self.process, self.processes, {owner.does, owner.send}) {}

void Watch::start() {
  asio::post(timer.get_executor(), [this] {
    due = Clock::monotonic();
    look();
  });
}

void Watch::rest() {
  asio::post(timer.get_executor(), [this] {
    resting = true;
    timer.cancel();
  });
}

void Watch::hear(int32_t from, const messages::Does &does) { inquiry.hear(from, does, Clock::monotonic()); }

/// Counts up to a second after the next look is due, no further: a process that was stopped may be asked before look()
/// has seen the gap.
int64_t Watch::ran(int64_t since) const {
  const int64_t now = Clock::monotonic();
  return own.between(since, due > 0 ? std::min(now, due + kSecond) : now);
}

/// Five times within the deadline, but not more often than every millisecond and not less often than every second.
void Watch::arm() {
  const int64_t period = std::clamp(deadline / 5, kSecond / 1000, kSecond);
  due = Clock::monotonic() + period;
  timer.expires_after(std::chrono::nanoseconds(period));
  timer.async_wait([this](std::error_code error) {
    if (!error)
      look();
  });
}

void Watch::look() {
  if (deadline == 0 || resting)
    return;
  own.tick(Clock::monotonic(), due);
  const std::vector<Wait> waits = owner.waits();
  if (const Wait *over = overdue(waits))
    judge(*over, waits);
  else
    inquiry.end();
  if (!resting)
    arm();
}

/// Finds a wait that has lasted too long, rather for another process than for this one. If no process can be asked, a
/// vague wait has twice the deadline, so that processes that know who is missing report first.
const Wait *Watch::overdue(const std::vector<Wait> &waits) const {
  const int64_t now = Clock::monotonic();
  const Wait *over = nullptr;
  for (const Wait &wait : waits) {
    const int64_t most = wait.vague && !owner.send ? 2 * deadline : deadline;
    if (own.between(wait.since, now) >= most && (!over || over->whom.empty() || !wait.whom.empty()))
      over = &wait;
  }
  return over;
}

std::string Watch::textOf(const messages::Does &does) const {
  return fmt::format("{} {} ({} s so far)", owner.title(does.process), does.what, does.lasts / kSecond);
}

/// Logs what another process does while this one waits: once, and again every kReminder.
void Watch::say(const messages::Does &does, int64_t now) {
  const std::string what = owner.title(does.process) + does.what.substr(0, does.what.find(' '));
  if (what == said && now - saidAt < kReminder)
    return;
  spdlog::warn("{} waits: {}", self.name, textOf(does));
  said = what;
  saidAt = now;
}

void Watch::judge(const Wait &over, const std::vector<Wait> &waits) {
  const int64_t now = Clock::monotonic();
  const auto end = [&](const std::string &why) {
    resting = true;
    owner.late(fmt::format("{} within {:g} s{}{}", over.late(), double(deadline) / double(kSecond),
                           why.empty() ? "" : ": ", why));
  };
  if (!owner.send)
    return end("");
  if (!inquiry.underWay()) {
    if (now < asksAgain)
      return;
    std::set<int32_t> whom;
    for (const Wait &wait : waits)
      whom.insert(wait.whom.begin(), wait.whom.end());
    inquiry.begin({whom.begin(), whom.end()}, now);
  }
  for (const auto &[process, since] : inquiry.askedAt()) {
    if (inquiry.answered().contains(process))
      continue;
    if (own.between(since, now) < patienceOf(deadline))
      return; // an answer may still come
    return end(owner.title(process) + " does not answer: its process stands still, or its machine does");
  }
  messages::Does itself = owner.does();
  itself.process = self.process;
  const messages::Does *longest = nullptr; // the longest activity; one over its limit comes first
  const auto isLate = [](const messages::Does &does) { return does.limit > 0 && does.lasts >= does.limit; };
  const auto take = [&](const messages::Does &does) {
    if (!does.what.empty() &&
        (!longest || std::pair(isLate(does), does.lasts) > std::pair(isLate(*longest), longest->lasts)))
      longest = &does;
  };
  take(itself);
  for (const auto &[process, does] : inquiry.answered())
    take(does);
  // If no process does anything, they may all wait for each other; or what they waited for has just ended.
  if (longest ? isLate(*longest) : !over.patient && own.between(over.since, now) >= deadline + deadline / 2)
    return end(longest && !(over.whom.empty() && longest->process == self.process) ? textOf(*longest) : "");
  int64_t pause = std::clamp(deadline / 2, kSecond / 1000, 10 * kSecond);
  if (longest && longest->process != self.process)
    say(*longest, now);
  if (longest && longest->limit > 0)
    pause = std::min(pause, longest->limit - longest->lasts);
  asksAgain = now + pause;
  inquiry.end();
}

} // namespace pipec::runtime
