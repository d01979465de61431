#include "runtime/launch/Mailbox.h"

#include <fmt/format.h>

namespace pipec::runtime {

Mailbox::Mailbox(std::string process, Failure &failure) : process(std::move(process)), failure(failure) {
  failure.listen([this] {
    std::lock_guard lock(mutex);
    arrived.notify_all();
  });
}

void Mailbox::put(Message message) {
  std::lock_guard lock(mutex);
  messages.push_back(std::move(message));
  arrived.notify_all();
}

std::optional<Message> Mailbox::expect(const std::string &type) {
  std::unique_lock lock(mutex);
  arrived.wait(lock, [&] { return !messages.empty() || failure.raised(); });
  if (failure.raised())
    return std::nullopt;
  Message message = std::move(messages.front());
  messages.pop_front();
  lock.unlock();
  if (message.value("type", "") == type)
    return message;
  failure.raise(Status::run(
      fmt::format("{}: the controller said {} where {} was due", process, message.value("type", "nothing"), type)));
  return std::nullopt;
}

} // namespace pipec::runtime
