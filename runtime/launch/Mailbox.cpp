#include "runtime/launch/Mailbox.h"

#include <fmt/format.h>

namespace pipec::runtime {

Mailbox::Mailbox(std::string process, Failure &failure, Doing &doing)
    : process(std::move(process)), failure(failure), doing(doing) {
  failure.listen([this] {
    std::lock_guard lock(mutex);
    arrived.notify_all();
  });
}

void Mailbox::put(Mail mail) {
  std::lock_guard lock(mutex);
  arrivals.push_back(std::move(mail));
  arrived.notify_all();
}

std::optional<Mailbox::Mail> Mailbox::take() {
  std::unique_lock lock(mutex);
  arrived.wait(lock, [&] { return !arrivals.empty() || failure.raised(); });
  if (failure.raised())
    return std::nullopt;
  std::optional<Mail> mail = std::move(arrivals.front());
  arrivals.pop_front();
  return mail;
}

void Mailbox::raise(const Mail &came, std::string_view due) {
  const std::string_view name = std::visit([](const auto &each) { return each.kind.name; }, came);
  failure.raise(Status::run(fmt::format("{}: the controller said {} where {} was due", process, name, due)));
}

} // namespace pipec::runtime
