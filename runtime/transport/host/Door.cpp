#include "runtime/transport/host/Door.h"

#include "runtime/transport/host/Socket.h"

#include <fmt/format.h>

namespace pipec::runtime {

using asio::ip::tcp;

static constexpr auto kAwait = asio::use_awaitable;

Door::Door(tcp::acceptor acceptor, const Identity &self)
    : self(self), acceptor(std::move(acceptor)), patience(this->acceptor.get_executor()),
      pause(this->acceptor.get_executor()) {}

void Door::open(std::function<void(Greeting, tcp::socket)> guest, std::function<void(Status)> broken,
                std::function<void(const std::string &)> refused) {
  onGuest = std::move(guest);
  onBroken = std::move(broken);
  onRefused = std::move(refused);
  asio::co_spawn(acceptor.get_executor(), accept(shared_from_this()), asio::detached);
}

void Door::close() {
  closed = true;
  onGuest = nullptr;
  onBroken = nullptr;
  onRefused = nullptr;
  std::error_code ignored;
  acceptor.close(ignored);
  patience.cancel();
  pause.cancel();
  for (Guest &guest : guests)
    guest.socket.close(ignored); // its handshake ends with an error
}

asio::awaitable<void> Door::accept(std::shared_ptr<Door> me) {
  while (!me->closed) {
    std::error_code error;
    tcp::socket socket = co_await me->acceptor.async_accept(asio::redirect_error(kAwait, error));
    if (me->closed)
      co_return;
    if (!error) {
      closeOnExec(socket.native_handle());
      if (me->guests.size() >= kGuests)
        me->showOutOldest();
      Place guest =
          me->guests.insert(me->guests.end(), {std::move(socket), std::chrono::steady_clock::now() + kPatience});
      if (me->guests.size() == 1)
        me->watch();
      asio::co_spawn(me->acceptor.get_executor(), welcome(me, guest), asio::detached);
    } else if (error == asio::error::no_descriptors || error == std::errc::too_many_files_open_in_system ||
               error == asio::error::no_buffer_space || error == asio::error::no_memory) {
      // The machine lacks something for now. Strangers may hold it, so show one out; then try again.
      me->showOutOldest();
      me->pause.expires_after(std::chrono::milliseconds(10));
      co_await me->pause.async_wait(asio::redirect_error(kAwait, error));
    } else if (error != asio::error::connection_aborted) { // aborted: the caller has hung up
      me->onBroken(Status::run(fmt::format("{}: cannot accept a connection: {}", me->self.name(), error.message())));
      co_return;
    }
  }
}

asio::awaitable<void> Door::welcome(std::shared_ptr<Door> me, Place guest) {
  Greeting greeting = co_await greet(guest->socket, me->self, wire::Side::Accepts);
  tcp::socket socket = std::move(guest->socket);
  me->guests.erase(guest);
  if (me->closed)
    co_return;
  if (!greeting.stranger) {
    auto call = me->onGuest; // a copy: it may call close(), which drops onGuest
    call(std::move(greeting), std::move(socket));
  } else if (greeting.peer >= 0) {
    me->lastRefused = greeting.status.message;
    if (me->onRefused)
      me->onRefused(me->lastRefused);
  }
}

/// Closes the socket of the oldest guest, whose handshake then ends with an error.
void Door::showOutOldest() {
  std::error_code ignored;
  for (Guest &guest : guests)
    if (guest.socket.is_open()) {
      guest.socket.close(ignored);
      return;
    }
}

void Door::watch() {
  if (closed || guests.empty())
    return;
  patience.expires_at(guests.front().until);
  patience.async_wait([me = shared_from_this()](std::error_code error) {
    if (error || me->closed)
      return;
    std::error_code ignored;
    for (Guest &guest : me->guests)
      if (guest.until <= std::chrono::steady_clock::now())
        guest.socket.close(ignored);
    me->watch();
  });
}

} // namespace pipec::runtime
