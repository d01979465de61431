#include "runtime/launch/waits/Inquiry.h"

#include <algorithm>

namespace pipec::runtime {

void Inquiry::begin(const std::vector<int32_t> &whom, int64_t now) {
  end();
  ++number;
  for (const int32_t each : whom)
    if (each != self && asked.try_emplace(each, now).second)
      ask({self, number, each});
}

void Inquiry::hear(int32_t from, const messages::Asks &asks) {
  if (asks.origin == self || !is(asks.origin) || !is(asks.of))
    return;
  Passed &last = passed[asks.origin];
  if (asks.number < last.number)
    return;
  if (asks.number > last.number)
    last = {asks.number, from, false};
  if (asks.of != self)
    return ask(asks);
  if (std::exchange(last.answered, true)) // the question has come along several paths
    return;
  messages::Does does = owner.does();
  does.origin = asks.origin;
  does.number = asks.number;
  does.process = self;
  owner.send(from, messages::encode(does));
  for (const int32_t each : does.whom)
    if (each != self && each != asks.origin && each != from)
      ask({asks.origin, asks.number, each});
}

void Inquiry::hear(int32_t, const messages::Does &does, int64_t now) {
  if (does.origin != self) {
    const auto found = passed.find(does.origin);
    if (found != passed.end() && found->second.number == does.number)
      owner.send(found->second.from, messages::encode(does));
    return;
  }
  if (does.number != number || asked.empty() || !is(does.process))
    return;
  constexpr int64_t kMost = INT64_MAX / 4; // wrong numbers must not overflow sums
  messages::Does &answer = answers.emplace(does.process, does).first->second;
  answer.lasts = std::clamp<int64_t>(answer.lasts, 0, kMost);
  answer.limit = std::clamp<int64_t>(answer.limit, 0, kMost);
  for (const int32_t each : does.whom)
    if (each != self && is(each))
      asked.try_emplace(each, now);
}

} // namespace pipec::runtime
