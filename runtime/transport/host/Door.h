// The one way in for whoever connects to a port of this job. It shakes hands, lets in those that hold the job's secret,
// and shows all others out without letting them take anything from the job. A port is open to the whole network:
// scanners, other jobs and the curious come, in any number, and talk nonsense or say nothing.
#pragma once

#include "runtime/transport/host/Handshake.h"

#include <functional>
#include <list>
#include <memory>

namespace pipec::runtime {

class Door : public std::enable_shared_from_this<Door> {
public:
  /// Limits on guests whose handshake is not over: how many at once, the oldest being shown out first, and for how long
  /// each. An honest handshake takes three trips.
  static constexpr size_t kGuests = 256;
  static constexpr std::chrono::seconds kPatience{3};

  /// `acceptor` listens. Everything happens on its io_context.
  Door(asio::ip::tcp::acceptor acceptor, const Identity &self);

  /// `onGuest` hears of everybody who has proven to belong to the job; greeting.status says what differs, if anything
  /// does. `onBroken`: the port accepts no more. `onRefused` hears at once why a stranger who spoke the protocol was
  /// shown out.
  void open(std::function<void(Greeting, asio::ip::tcp::socket)> onGuest, std::function<void(Status)> onBroken,
            std::function<void(const std::string &)> onRefused = {});

  /// Nothing is heard from then on.
  void close();

  /// Why the last stranger who spoke the protocol was shown out; empty: there was none.
  const std::string &refused() const { return lastRefused; }

private:
  struct Guest {
    asio::ip::tcp::socket socket;
    std::chrono::steady_clock::time_point until;
  };
  using Place = std::list<Guest>::iterator;

  static asio::awaitable<void> accept(std::shared_ptr<Door> me);
  static asio::awaitable<void> welcome(std::shared_ptr<Door> me, Place guest);
  void showOutOldest();
  void watch();

  const Identity self;
  asio::ip::tcp::acceptor acceptor;
  asio::steady_timer patience;
  asio::steady_timer pause;
  std::function<void(Greeting, asio::ip::tcp::socket)> onGuest;
  std::function<void(Status)> onBroken;
  std::function<void(const std::string &)> onRefused;
  std::list<Guest> guests; // the oldest first
  std::string lastRefused;
  bool closed = false;
};

} // namespace pipec::runtime
