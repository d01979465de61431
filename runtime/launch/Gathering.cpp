#include "runtime/launch/Gathering.h"

#include "runtime/backend/Backend.h"
#include "runtime/device/Clock.h"

#include <fmt/format.h>
#include <map>

namespace pipec::runtime {

using asio::ip::tcp;

namespace {

Status listenAt(const WorkerSetup &setup, tcp::acceptor &acceptor) {
  std::error_code error;
  tcp::endpoint endpoint(setup.listenOn, 0);
  acceptor.open(endpoint.protocol(), error);
  if (!error)
    acceptor.bind(endpoint, error);
  if (!error)
    acceptor.listen(asio::socket_base::max_listen_connections, error);
  return error ? Status::run(fmt::format("rank {}: cannot listen on {}: {}", setup.identity.rank,
                                         setup.listenOn.to_string(), error.message()))
               : Status{};
}

/// The ranks that this one exchanges data with, and where they listen.
std::map<int32_t, tcp::endpoint> peersOf(const WorkerSetup &setup, bool reduces, const Message &table) {
  std::map<int32_t, tcp::endpoint> peers;
  auto add = [&](int32_t rank) {
    const Message &peer = table.at("endpoints").at(size_t(rank));
    peers[rank] = tcp::endpoint(asio::ip::make_address(peer.at("address").get<std::string>()), peer.at("port"));
  };
  if (!needsSockets(setup.options))
    return peers;
  int32_t self = setup.identity.rank, ranks = setup.plan->ranks();
  for (const plan::Variant &variant : setup.plan->variants)
    for (const plan::Operation &op : variant.programs[size_t(self)].operations)
      if (op.peer != -1) // of a transfer, or of an all-reduce of two ranks
        add(op.peer);
  if (reduces && ranks > 1) { // the neighbours in the ring of an all-reduce of all ranks
    add((self + 1) % ranks);
    add((self + ranks - 1) % ranks);
  }
  return peers;
}

/// Measures how many nanoseconds this clock is ahead of the controller's: asks several times, and takes the question
/// that was answered fastest. False if the run has failed.
bool findClockOffset(Channel &channel, Mailbox &mailbox, int64_t &offset) {
  constexpr int kQuestions = 16;
  int64_t best = INT64_MAX;
  for (int i = 0; i < kQuestions; ++i) {
    int64_t asked = Clock::monotonic();
    channel.send({{"type", "clock"}});
    std::optional<Message> answer = mailbox.expect("clock");
    if (!answer)
      return false;
    int64_t heard = Clock::monotonic();
    if (heard - asked < best) {
      best = heard - asked;
      offset = asked + best / 2 - answer->at("now").get<int64_t>();
    }
  }
  return true;
}

} // namespace

Status gather(const WorkerSetup &setup, bool reduces, asio::io_context &io, Channel &channel, Mailbox &mailbox,
              const Failure &failure, Gathering &gathering) {
  tcp::acceptor acceptor(io);
  Status status = listenAt(setup, acceptor);
  if (!status.ok())
    return status;
  channel.send(
      {{"type", "listening"}, {"address", setup.listenOn.to_string()}, {"port", acceptor.local_endpoint().port()}});
  std::optional<Message> table = mailbox.expect("table");
  if (!table)
    return failure.status();
  gathering.table = std::move(*table);
  auto deadline = std::chrono::milliseconds(setup.options.rendezvous / 1'000'000'000);
  status =
      meet(setup.identity, std::move(acceptor), peersOf(setup, reduces, gathering.table), deadline, gathering.sockets);
  if (status.ok() && gathering.table.at("boot") != bootId() &&
      !findClockOffset(channel, mailbox, gathering.clockOffset))
    return failure.status();
  return status;
}

} // namespace pipec::runtime
