#include "runtime/launch/Gathering.h"

#include "runtime/backend/Backend.h"
#include "runtime/device/Clock.h"
#include "runtime/transport/host/Socket.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <numeric>

namespace pipec::runtime {

using asio::ip::tcp;

namespace {

Status openPort(const WorkerSetup &setup, tcp::acceptor &acceptor) {
  const std::error_code error = listenAt(acceptor, {setup.listenOn, 0});
  return error ? Status::run(fmt::format("{}: cannot listen on {}: {}", setup.identity.name(),
                                         setup.listenOn.to_string(), error.message()))
               : Status{};
}

/// Calls `add` with both neighbours of `self` in the ring of a collective.
template <typename Add> void addNeighbours(const std::vector<int32_t> &members, int32_t self, Add add) {
  const auto at = std::lower_bound(members.begin(), members.end(), self);
  if (at == members.end() || *at != self || members.size() == 1)
    return;
  const size_t own = size_t(at - members.begin()), count = members.size();
  add(members[(own + 1) % count]);
  add(members[(own + count - 1) % count]);
}

/// The processes that this one exchanges data with, and where they listen.
std::map<int32_t, tcp::endpoint> peersOf(const WorkerSetup &setup, bool reduces, const messages::Table &table) {
  std::map<int32_t, tcp::endpoint> peers;
  auto add = [&](int32_t rank) {
    const messages::Endpoint &peer = table.endpoints.at(size_t(rank));
    peers[rank] = tcp::endpoint(asio::ip::make_address(peer.address), peer.port);
  };
  if (!needsSockets(setup.options))
    return peers;
  const int32_t self = setup.identity.rank, world = setup.identity.world;
  const plan::Place place = plan::placeOf(self, *setup.plan);
  for (const plan::Variant &variant : setup.plan->variants)
    for (const plan::Operation &op : variant.programs[size_t(place.rank)].operations)
      if (plan::isTransfer(op.kind))
        add(place.worldOf(op.peer));
  std::vector<int32_t> all(static_cast<size_t>(world));
  std::iota(all.begin(), all.end(), 0);
  if (reduces)
    addNeighbours(all, self, add);
  const bool reshards = setup.plan->variants.front().sharesStages();
  for (const plan::Group &group : setup.plan->groups)
    if (!reshards)
      addNeighbours(group.members, self, add);
    else if (std::binary_search(group.members.begin(), group.members.end(), self)) // all members connect to each other
      for (const int32_t member : group.members)
        if (member != self)
          add(member);
  for (int32_t shard = 0; shard < place.shards; ++shard) // all shards of a rank connect to each other
    if (shard != place.shard)
      add(self - place.shard + shard);
  return peers;
}

/// Measures by how many nanoseconds this clock is ahead of the controller's, from the fastest of kQuestions round
/// trips. False if the run has failed.
bool findClockOffset(Channel &channel, Mailbox &mailbox, int64_t &offset) {
  constexpr int kQuestions = 16;
  int64_t best = INT64_MAX;
  for (int i = 0; i < kQuestions; ++i) {
    int64_t asked = Clock::monotonic();
    channel.send(messages::Clock{});
    const std::optional<messages::Clock> answer = mailbox.expect<messages::Clock>();
    if (!answer)
      return false;
    int64_t heard = Clock::monotonic();
    if (heard - asked < best) {
      best = heard - asked;
      offset = asked + best / 2 - answer->now.value_or(0);
    }
  }
  return true;
}

} // namespace

Status gather(const WorkerSetup &setup, bool reduces, asio::io_context &io, Channel &channel, Mailbox &mailbox,
              Failure &failure, Gathering &gathering) {
  tcp::acceptor acceptor(io);
  Status status = openPort(setup, acceptor);
  if (!status.ok())
    return status;
  channel.send(messages::Listening{setup.listenOn.to_string(), acceptor.local_endpoint().port()});
  std::optional<messages::Table> table = mailbox.expect<messages::Table>();
  if (!table)
    return failure.status();
  gathering.table = std::move(*table);
  auto deadline = std::chrono::milliseconds(setup.options.rendezvous / 1'000'000'000);
  status = meet(setup.identity, std::move(acceptor), peersOf(setup, reduces, gathering.table), deadline,
                gathering.sockets, &failure);
  if (status.ok() && gathering.table.boot != bootId() && !findClockOffset(channel, mailbox, gathering.clockOffset))
    return failure.status();
  return status;
}

} // namespace pipec::runtime
