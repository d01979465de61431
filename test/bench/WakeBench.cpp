// How long after a message arrives a parked rank goes on. The message is a transfer's data on a TCP connection, sent by
// a peer that does no more than write it once the receive has been posted and its rank sleeps; from that write to the
// return of the rank's synchronize() the kernel delivers it, the transport's thread wakes and reads it, and wakes the
// rank. Printed: median and quantiles in microseconds, beside the same on plain blocking sockets, where the reader
// itself wakes: what the system takes. Exit code 1 if a transfer fails.
//   ninja -C build/release bench-wake && build/release/bin/bench-wake
#include "runtime/device/host/Punctual.h"
#include "runtime/transport/host/HostTransport.h"
#include "test/runtime/Plans.h"

#include <algorithm>
#include <fmt/format.h>
#include <thread>

using namespace pipec;
using namespace pipec::runtime;
using asio::ip::tcp;

namespace {

constexpr int64_t kMessages = 3000;
constexpr plan::Bytes kBytes = 64;
constexpr plan::Time kAsleep = 200'000'000; // by then whoever was to sleep does
constexpr QueueId kQueue = 1;               // rank 1 receives activations

struct Pair {
  explicit Pair(asio::io_context &io) : sender(io), receiver(io) {
    tcp::acceptor acceptor(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    sender.connect(acceptor.local_endpoint());
    acceptor.accept(receiver);
    for (tcp::socket *each : {&sender, &receiver})
      each->set_option(tcp::no_delay(true));
  }
  tcp::socket sender, receiver;
};

void print(const char *what, std::vector<double> times) {
  std::sort(times.begin(), times.end());
  auto at = [&](double part) { return times[size_t(part * double(times.size() - 1))]; };
  fmt::print("{:<15} median {:6.1f} us   p10 {:6.1f}   p90 {:6.1f}   p99 {:6.1f}\n", what, at(0.5), at(0.1), at(0.9),
             at(0.99));
}

bool transport(const Clock &clock) {
  test::Pipeline pipeline;
  pipeline.bytes = kBytes;
  plan::Plan plan = test::makePlan(pipeline);
  const plan::Program &program = plan.variants.front().programs[1];
  const plan::Operation &operation = program.operations.front(); // the receive
  asio::io_context io;
  auto guard = asio::make_work_guard(io);
  Failure failure;
  HostDevice device(program, clock, failure, false);
  Pair pair(io);
  Sockets sockets;
  sockets.emplace(0, std::move(pair.receiver));
  HostTransport transport(program, std::move(sockets), io, device, clock, failure, {.pace = Pace::Real});
  transport.start();
  std::thread runs([&] { io.run(); });

  std::vector<std::atomic<plan::Time>> written(kMessages);
  std::thread peer([&, &socket = pair.sender] {
    std::byte payload[kBytes] = {};
    std::error_code error;
    for (int64_t n = 0; n < kMessages && !error; ++n) {
      wire::Frame frame; // its credit; the data's tag is the same
      asio::read(socket, asio::buffer(&frame, sizeof frame), error);
      frame.type = wire::Type::Data;
      frame.bytes = kBytes;
      clock.sleepUntil(clock.now() + kAsleep);
      frame.start = frame.end = frame.arrival = clock.now();
      written[size_t(n)] = frame.start;
      std::array<asio::const_buffer, 2> buffers{asio::buffer(&frame, sizeof frame), asio::buffer(payload)};
      asio::write(socket, buffers, error);
    }
  });
  std::vector<double> times;
  std::byte memory[kBytes];
  for (int64_t n = 0; n < kMessages; ++n) {
    transport.recv(kQueue, {&operation, n, 0, 0}, {memory, kBytes});
    if (!device.synchronize(kQueue, n + 1))
      break;
    times.push_back(double(clock.now() - written[size_t(n)]) / 1e6);
  }
  io.stop();
  runs.join();
  pair.sender.shutdown(tcp::socket::shutdown_both);
  peer.join();
  if (failure.raised()) {
    fmt::print(stderr, "{}\n", failure.status().message);
    return false;
  }
  print("host transport", std::move(times));
  return true;
}

void plainSockets(const Clock &clock) {
  asio::io_context io;
  Pair pair(io);
  std::vector<double> times;
  std::thread reader([&] {
    for (int64_t n = 0; n < kMessages; ++n) {
      plan::Time written = 0;
      asio::read(pair.receiver, asio::buffer(&written, sizeof written));
      times.push_back(double(clock.now() - written) / 1e6);
      asio::write(pair.receiver, asio::buffer(&written, 1));
    }
  });
  for (int64_t n = 0; n < kMessages; ++n) {
    char answer = 0;
    clock.sleepUntil(clock.now() + kAsleep);
    plan::Time now = clock.now();
    asio::write(pair.sender, asio::buffer(&now, sizeof now));
    asio::read(pair.sender, asio::buffer(&answer, 1));
  }
  reader.join();
  print("plain sockets", std::move(times));
}

} // namespace

int main() {
  bePunctual(); // as a rank does
  Clock clock(Clock::monotonic());
  for (int round = 0; round < 3; ++round) {
    plainSockets(clock);
    if (!transport(clock))
      return 1;
  }
}
