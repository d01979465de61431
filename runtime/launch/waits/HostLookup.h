// The addresses of a host whose name a cluster may come to know late, from a resolver that may never answer.
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
    bool mayPass = true;    // whether the resolver may say something else later
  };
  using Resolver = std::function<Answer(const std::string &host)>;

  /// getaddrinfo, for TCP.
  static Answer askSystem(const std::string &host);

  /// `pause`: from an answer that may pass to the next question.
  explicit HostLookup(std::string host, Resolver resolver = askSystem,
                      std::chrono::nanoseconds pause = std::chrono::seconds(1));

  /// Asks until the host is known, for `patience` at most (0: no limit), and logs every 5 s what it waits for. Each
  /// question has a thread of its own, which nobody joins: a resolver that does not answer holds nobody. On failure the
  /// message is a clause: "the host of rank 0, first, is not known: …".
  Status await(plan::Time patience, std::vector<asio::ip::address> &addresses);

  /// What ends await() at once, with a failure. To be called from any thread, also when this object is gone.
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
