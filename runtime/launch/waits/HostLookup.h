// HostLookup finds the addresses of a host. A cluster may learn the host's name late, and the resolver may never
// answer.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"

#include <asio/ip/address.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace pipec::runtime {

class HostLookup {
public:
  struct Answer {
    std::vector<asio::ip::address> addresses;
    std::string error = {}; // empty: the host is known
    bool mayPass = true;    // whether a later question may succeed
  };
  using Resolver = std::function<Answer(const std::string &host)>;

  /// getaddrinfo, for TCP.
  static Answer askSystem(const std::string &host);

  /// `pause`: time from a failed question to the next one.
  explicit HostLookup(std::string host, Resolver resolver = askSystem,
                      std::chrono::nanoseconds pause = std::chrono::seconds(1));

  /// Asks until the host is known, for `patience` at most (0: no limit), and logs every 5 s what it waits for. Each
  /// question has a thread of its own, which nobody joins, so a resolver that never answers blocks nobody. On failure
  /// the message is a clause: "the host of rank 0, first, is not known: …".
  Status await(plan::Time patience, std::vector<asio::ip::address> &addresses);

  /// A function that ends await() at once, with a failure. It may be called from any thread, even after this object is
  /// gone.
  std::function<void()> stopper() const;

private:
  struct Shared; // with the thread that asks
  void ask() const;
  Status failed(const std::string &why) const;

  const std::string host;
  const Resolver resolver;
  const std::chrono::nanoseconds pause;
  const std::shared_ptr<Shared> shared;
};

} // namespace pipec::runtime
