#include "runtime/embed/Talk.h"

namespace pipec::embed {

using runtime::Message;

void Talk::open(std::function<void(const Message &)> sender) {
  std::lock_guard lock(mutex);
  send = std::move(sender);
  changed.notify_all();
}

void Talk::close() {
  std::lock_guard lock(mutex);
  send = nullptr;
  failed = true;
  changed.notify_all();
}

void Talk::fail() {
  std::lock_guard lock(mutex);
  failed = true;
  changed.notify_all();
}

void Talk::hear(const Message &message) {
  std::lock_guard lock(mutex);
  if (const std::string type = message.at("type"); type == "text")
    texts[message.at("key")] = message.at("text");
  else if (type == "swapped")
    swapped = message;
  else if (message.contains("report"))
    reported = message.at("report");
  changed.notify_all();
}

bool Talk::say(const Message &message) {
  if (send)
    send(message);
  return bool(send);
}

static Status unheard() { return Status::usage("the ranks have not met yet, or the run is over"); }

Status Talk::put(const std::string &key, const std::string &text) {
  constexpr size_t kMost = 64 << 10;
  if (key.size() + text.size() > kMost)
    return Status::usage("a key and its text have at most 64 KiB");
  std::lock_guard lock(mutex);
  return say({{"type", "put"}, {"key", key}, {"text", text}}) ? Status{} : unheard();
}

std::optional<std::string> Talk::get(const std::string &key, std::chrono::steady_clock::time_point until) {
  std::unique_lock lock(mutex);
  changed.wait_until(lock, until, [&] { return texts.count(key) > 0 || failed; });
  const auto found = texts.find(key);
  return found == texts.end() ? std::nullopt : std::optional(found->second);
}

Status Talk::swap(const std::string &variant, int64_t &from) {
  std::unique_lock lock(mutex);
  swapped.reset();
  if (!say({{"type", "swap"}, {"variant", variant}}))
    return unheard();
  changed.wait(lock, [&] { return swapped || failed; });
  if (!swapped)
    return unheard();
  from = swapped->at("from");
  return {Code(swapped->at("code").get<int>()), swapped->at("message")};
}

std::string Talk::report() const {
  std::lock_guard lock(mutex);
  return reported;
}

} // namespace pipec::embed
