#include "runtime/embed/Talk.h"

namespace pipec::embed {

using namespace runtime;

void Talk::open(std::function<void(const Encoded &)> sender) {
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

void Talk::hear(const messages::Text &text) {
  std::lock_guard lock(mutex);
  texts[text.key] = text.text;
  changed.notify_all();
}

void Talk::hear(const messages::Swapped &answer) {
  std::lock_guard lock(mutex);
  swapped = answer;
  changed.notify_all();
}

void Talk::hear(const messages::Finish &finish) {
  std::lock_guard lock(mutex);
  reported = finish.report.value_or("");
  changed.notify_all();
}

bool Talk::say(const Encoded &message) {
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
  return say(messages::encode(messages::Put{key, text})) ? Status{} : unheard();
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
  if (!say(messages::encode(messages::Swap{variant})))
    return unheard();
  changed.wait(lock, [&] { return swapped || failed; });
  if (!swapped)
    return unheard();
  from = swapped->from;
  return {Code(swapped->code), swapped->message};
}

Status Talk::stop(const std::string &why) {
  std::lock_guard lock(mutex);
  return say(messages::encode(messages::Stop{why})) ? Status{} : unheard();
}

std::string Talk::report() const {
  std::lock_guard lock(mutex);
  return reported;
}

} // namespace pipec::embed
