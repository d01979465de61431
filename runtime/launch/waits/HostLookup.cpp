// asio's own resolver joins its thread when its io_context ends, so a getaddrinfo that hangs would hold the process.
#include "runtime/launch/waits/HostLookup.h"

#include <algorithm>
#include <asio/ip/tcp.hpp>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <fmt/format.h>
#include <mutex>
#include <netdb.h>
#include <optional>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <thread>
#include <utility>

namespace pipec::runtime {

using Clock = std::chrono::steady_clock;

static constexpr auto kReminder = std::chrono::seconds(5);

struct HostLookup::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Answer> answer; // to the last question
  bool stopped = false;
};

HostLookup::HostLookup(std::string host, Resolver resolver, std::chrono::nanoseconds pause)
    : host(std::move(host)), resolver(std::move(resolver)), pause(pause), shared(std::make_shared<Shared>()) {}

HostLookup::Answer HostLookup::askSystem(const std::string &host) {
  addrinfo hints{}, *first = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  Answer answer;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &first);
  if (error != 0) {
    answer.error = error == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(error);
    constexpr int kFinal[] = {EAI_BADFLAGS, EAI_FAMILY, EAI_SOCKTYPE, EAI_SERVICE};
    answer.mayPass = std::ranges::find(kFinal, error) == std::end(kFinal);
    return answer;
  }
  for (const addrinfo *each = first; each; each = each->ai_next) {
    asio::ip::tcp::endpoint endpoint;
    if (each->ai_addrlen > endpoint.capacity())
      continue;
    std::memcpy(endpoint.data(), each->ai_addr, each->ai_addrlen);
    endpoint.resize(each->ai_addrlen);
    answer.addresses.push_back(endpoint.address());
  }
  ::freeaddrinfo(first);
  if (answer.addresses.empty())
    answer.error = "it has no address of IPv4 or IPv6";
  return answer;
}

std::function<void()> HostLookup::stopper() const {
  return [shared = shared] {
    std::lock_guard lock(shared->mutex);
    shared->stopped = true;
    shared->changed.notify_all();
  };
}

void HostLookup::ask() const {
  std::thread([shared = shared, resolver = resolver, host = host] {
    Answer answer = resolver(host);
    std::lock_guard lock(shared->mutex);
    shared->answer = std::move(answer);
    shared->changed.notify_all();
  }).detach();
}

Status HostLookup::failed(const std::string &why) const {
  return Status::run(fmt::format("the host of rank 0, {}, is not known: {}", host, why));
}

Status HostLookup::await(plan::Time patience, std::vector<asio::ip::address> &addresses) {
  const Clock::time_point begin = Clock::now();
  const Clock::time_point end =
      patience == 0 ? Clock::time_point::max() : begin + std::chrono::nanoseconds(patience / 1000);
  Clock::time_point reminder = begin + kReminder, question = begin;
  const std::string none = "the resolver has not answered";
  std::string last = none;
  bool asking = false;
  std::unique_lock lock(shared->mutex);
  for (;;) {
    if (const std::optional<Answer> answer = std::exchange(shared->answer, std::nullopt)) {
      asking = false;
      last = answer->error;
      question = Clock::now() + pause;
      if (last.empty()) {
        addresses = answer->addresses;
        return {};
      }
      if (!answer->mayPass)
        return failed(last);
    }
    if (shared->stopped)
      return failed("nobody waits for it any more");
    const Clock::time_point now = Clock::now();
    const auto seconds = [&] { return std::chrono::duration_cast<std::chrono::seconds>(now - begin).count(); };
    if (now >= end)
      return failed(fmt::format("{}{} for {:g} s", last, last == none ? "" : ", asked", double(patience) / 1e12));
    if (now >= reminder) {
      spdlog::warn("{} s: waiting for the host of rank 0, {}, to be known: {}", seconds(), host, last);
      reminder = now + kReminder;
    }
    if (!asking && now >= question) {
      ask();
      asking = true;
    }
    shared->changed.wait_until(lock, std::min({end, reminder, asking ? end : question}));
  }
}

} // namespace pipec::runtime
