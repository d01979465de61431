#include "runtime/transport/host/Socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace pipec::runtime {

using asio::ip::tcp;

void closeOnExec(int descriptor) { ::fcntl(descriptor, F_SETFD, FD_CLOEXEC); }

std::error_code listenAt(tcp::acceptor &acceptor, const tcp::endpoint &endpoint, bool reuses) {
  std::error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (error)
    return error;
  closeOnExec(acceptor.native_handle());
  if (reuses)
    acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error)
    acceptor.bind(endpoint, error);
  if (!error)
    acceptor.listen(asio::socket_base::max_listen_connections, error);
  return error;
}

asio::awaitable<std::error_code> connectTo(tcp::socket &socket, tcp::endpoint endpoint) {
  std::error_code error;
  socket.open(endpoint.protocol(), error);
  if (error)
    co_return error;
  closeOnExec(socket.native_handle());
  co_await socket.async_connect(endpoint, asio::redirect_error(asio::use_awaitable, error));
  co_return error;
}

// The send buffer's size is left to the system, since a fixed one stalls on delayed acknowledgements. Congestion
// control is cubic, since one that paces (bbr may be the default) would hold back small messages.
void prepareSocket(tcp::socket &socket) {
  std::error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  auto set = [&](int option, int value) {
    setsockopt(socket.native_handle(), IPPROTO_TCP, option, &value, sizeof value);
  };
  set(TCP_KEEPIDLE, 1);
  set(TCP_KEEPINTVL, 1);
  set(TCP_KEEPCNT, kSilence);
  set(TCP_USER_TIMEOUT, 1000 * kSilence);
  setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
}

std::string interfaceOf(const asio::ip::address &address) {
  ifaddrs *all = nullptr;
  if (getifaddrs(&all) != 0)
    return "";
  std::string found;
  for (const ifaddrs *each = all; each && found.empty(); each = each->ifa_next) {
    char text[INET6_ADDRSTRLEN] = "";
    const int family = each->ifa_addr ? each->ifa_addr->sa_family : AF_UNSPEC;
    if (family == AF_INET)
      inet_ntop(family, &reinterpret_cast<const sockaddr_in *>(each->ifa_addr)->sin_addr, text, sizeof text);
    else if (family == AF_INET6)
      inet_ntop(family, &reinterpret_cast<const sockaddr_in6 *>(each->ifa_addr)->sin6_addr, text, sizeof text);
    std::error_code error;
    const asio::ip::address own = asio::ip::make_address(text, error);
    if (!error &&
        (own == address || (address.is_v6() && own.is_v6() && own.to_v6().to_bytes() == address.to_v6().to_bytes())))
      found = each->ifa_name;
  }
  freeifaddrs(all);
  return found;
}

void muteSocket(tcp::socket &socket) {
  sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0); // lets in 0 bytes of each packet
  sock_fprog program{1, &nothing};
  setsockopt(socket.native_handle(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

} // namespace pipec::runtime
