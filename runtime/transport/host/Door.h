// Accepts the connections to a port of this job. A port is open to the whole network: scanners, other jobs and the
// curious come, in any number, and send nonsense or nothing. The door shakes hands with each guest and lets in those
// that hold the job's secret. The others are strangers: it closes their connections, and they cost the job no more than
// a place for a while.
#pragma once

#include "runtime/transport/host/Handshake.h"

#include <functional>
#include <list>
#include <memory>

namespace pipec::runtime {

class Door : public std::enable_shared_from_this<Door> {
public:
  /// Limits on guests during the handshake. If there are more than kGuests, the oldest is shown out. kPatience is the
  /// time for a handshake, which takes three messages each way.
  static constexpr size_t kGuests = 256;
  static constexpr std::chrono::seconds kPatience{3};

  /// `acceptor` must be listening. Everything happens on its io_context.
  Door(asio::ip::tcp::acceptor acceptor, const Identity &self);

  /// Begins to accept. `onGuest` is called for each guest that has proven to belong to the job; greeting.status then
  /// says what differs, if anything does. `onBroken` is called if the port can accept no more. `onRefused` is called
  /// with the reason for each stranger that spoke the protocol.
  void open(std::function<void(Greeting, asio::ip::tcp::socket)> onGuest, std::function<void(Status)> onBroken,
            std::function<void(const std::string &)> onRefused = {});

  /// Closes the port. Nothing is called from then on.
  void close();

  /// Why the last stranger that spoke the protocol was refused; empty: there was none.
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
  std::list<Guest> guests; // whose handshake is not over, the oldest first
  std::string lastRefused;
  bool closed = false;
};

} // namespace pipec::runtime
