// Collectives of layers between ranks or replicas, and reshards: a queue's head comes to one and leaves it. And frames
// of the calls between shards.
#include "runtime/transport/host/HostTransport.h"

#include <fmt/format.h>

namespace pipec::runtime {

void HostTransport::joinExchange(Stream &stream) {
  Replicas &of = replicas.at(stream.group());
  of.stream = &stream;
  const Label label = stream.work.label();
  of.exchange.begin(label, stream.work.summand->layersOf(plan::ownerOf(*label.operation)), stream.ready);
}

void HostTransport::joinReshard(Stream &stream) {
  Reshards &of = reshards.at(stream.group());
  of.stream = &stream;
  const plan::Operation &operation = stream.work.operation();
  const auto widthOf = [this](int32_t stage) { return options.widths[size_t(stage)]; };
  of.exchange.begin(stream.work.label(),
                    {options.batch, widthOf(operation.stage), widthOf(plan::takerOf(operation.stage, operation.of))},
                    stream.work.in(), stream.work.out(), stream.ready);
}

/// Ends the collectives and reshards that are done, as far as the sockets are concerned.
void HostTransport::exchanged() {
  concludeAll(replicas);
  concludeAll(reshards);
}

template <typename Exchanges> void HostTransport::concludeAll(Exchanges &exchanges) {
  for (auto &[group, of] : exchanges) {
    if (!of.exchange.done() || stopped)
      continue;
    Stream &stream = *of.stream;
    stream.start = of.exchange.latest();
    stream.end = stream.arrival = collectiveEnd(stream);
    stream.written = true;
    of.exchange.end();
    holdWire(stream);
  }
}

plan::Time HostTransport::collectiveEnd(const Stream &stream) const {
  const plan::Operation &operation = stream.work.operation();
  if (options.network)
    return options.network->exchangeEnd(operation, stream.start);
  return stream.start + (real() ? 0 : operation.cost);
}

/// Gives a frame to the exchange of its group. False: there is no such group, which the peer is told.
template <typename Heard> bool HostTransport::hear(const wire::Tag &tag, Heard heard) {
  if (stopped)
    return false;
  const int32_t group = wire::groupOf(tag);
  if (const auto of = reshards.find(group); wire::isReshard(tag) && of != reshards.end())
    heard(of->second.exchange);
  else if (const auto with = replicas.find(group); !wire::isReshard(tag) && with != replicas.end())
    heard(with->second.exchange);
  else
    return false;
  return true;
}

void HostTransport::refuse(int32_t process, const std::string &wrong) {
  failure.raise(Status::run(fmt::format("{}: {} {}", where(process), nameOf(process), wrong)));
}

void HostTransport::onAsk(int32_t process, const wire::Frame &frame) {
  if (!hear(frame.tag, [&](auto &exchange) { exchange.onAsk(process, frame); }) && !stopped)
    refuse(process, "is at " + wire::describe(frame.tag) + ", of a group that this rank is not in");
}

ShardExchange *HostTransport::shardsWith(int32_t process, const wire::Frame &frame) const {
  return frame.type == wire::Type::Part && options.shards && options.shards->has(process) ? options.shards : nullptr;
}

const std::vector<asio::mutable_buffer> *HostTransport::onBlock(int32_t process, const wire::Frame &frame) {
  if (ShardExchange *shards = shardsWith(process, frame))
    return shards->onPart(process, frame);
  const std::vector<asio::mutable_buffer> *landing = nullptr;
  if (!hear(frame.tag, [&](auto &exchange) { landing = exchange.onBlock(process, frame); }) && !stopped)
    refuse(process, "is at " + wire::describe(frame.tag) + ", of a group that this rank is not in");
  return landing;
}

void HostTransport::onBlockArrived(int32_t process, const wire::Frame &frame) {
  if (ShardExchange *shards = shardsWith(process, frame))
    return shards->onArrived(process, frame);
  hear(frame.tag, [&](auto &exchange) { exchange.onArrived(process, frame); });
}

} // namespace pipec::runtime
