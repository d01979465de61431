// A pipe or terminal is opened again for each message: setting O_NONBLOCK on the descriptor itself would affect all
// programs that share the stream.
#include "runtime/launch/MessageStream.h"

#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <fmt/format.h>
#include <memory>
#include <poll.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace pipec::runtime {

namespace {

/// Opens the stream of a descriptor again, so that a write does not block.
class Handle {
public:
  explicit Handle(int given) : descriptor(given) {
    struct stat what{};
    if (::fstat(given, &what) != 0)
      return;
    isSocket = S_ISSOCK(what.st_mode);
    if (S_ISFIFO(what.st_mode) || S_ISCHR(what.st_mode))
      opened = ::open(fmt::format("/proc/self/fd/{}", given).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (opened >= 0)
      descriptor = opened;
  }
  ~Handle() {
    if (opened >= 0)
      ::close(opened);
  }
  Handle(const Handle &) = delete;

  /// Writes the beginning of a text, at most PIPE_BUF bytes. If the stream could not be opened again (it may be another
  /// user's), writes only if poll() reports room for them.
  ssize_t write(std::string_view text) const {
    text = text.substr(0, PIPE_BUF);
    if (isSocket)
      return ::send(descriptor, text.data(), text.size(), MSG_DONTWAIT);
    if (opened >= 0 || await(std::chrono::milliseconds(0)))
      return ::write(descriptor, text.data(), text.size());
    errno = EAGAIN;
    return -1;
  }
  bool await(std::chrono::milliseconds patience) const {
    pollfd waiting{descriptor, POLLOUT, 0};
    return ::poll(&waiting, 1, int(patience.count())) > 0;
  }

private:
  int descriptor, opened = -1;
  bool isSocket = false;
};

class Sink : public spdlog::sinks::base_sink<std::mutex> {
public:
  explicit Sink(MessageStream &stream) : stream(stream) {}

protected:
  void sink_it_(const spdlog::details::log_msg &message) override {
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    stream.write({text.data(), text.size()});
  }
  void flush_() override {}

private:
  MessageStream &stream;
};

} // namespace

/// Writes `rest`, waiting until `until` at most. What could not be written stays in `rest`.
void MessageStream::drain(Clock::time_point until) {
  const Handle handle(descriptor);
  while (!rest.empty()) {
    const ssize_t written = handle.write(rest);
    if (written > 0)
      rest.erase(0, size_t(written));
    else if (written < 0 && errno != EAGAIN && errno != EINTR)
      rest.clear(); // nobody will read it
    else if (const auto patience = std::chrono::ceil<Milliseconds>(until - Clock::now());
             patience <= Milliseconds(0) || !handle.await(patience))
      return;
  }
}

void MessageStream::put(std::string_view text, Milliseconds patience) {
  const auto until = Clock::now() + patience;
  drain(until);
  if (rest.empty() && leftOut > 0) {
    const std::string note = fmt::format("{}: {} left out here: nobody read standard error\n", name,
                                         leftOut == 1 ? "1 message was" : fmt::format("{} messages were", leftOut));
    rest = note;
    drain(until);
    if (rest == note)
      rest.clear();
    else
      leftOut = 0;
  }
  if (!rest.empty() || leftOut > 0) {
    leftOut += text.empty() ? 0 : 1;
    return;
  }
  rest = text;
  drain(until);
  if (rest == text && !text.empty()) {
    rest.clear();
    ++leftOut;
  }
}

void MessageStream::write(std::string_view text) {
  std::lock_guard lock(mutex);
  put(text, rest.empty() && leftOut == 0 ? kAmid : Milliseconds(0));
}

void MessageStream::finish(std::string_view text) {
  std::lock_guard lock(mutex);
  put(text, kAtEnd);
}

MessageStream &standardError(const std::string &name) {
  static auto *stream = new MessageStream(STDERR_FILENO, name); // never freed: threads may outlast static objects
  return *stream;
}

void logToStandardError(const std::string &name) {
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(name, std::make_shared<Sink>(standardError(name))));
  spdlog::set_pattern("%n: %v");
}

} // namespace pipec::runtime
