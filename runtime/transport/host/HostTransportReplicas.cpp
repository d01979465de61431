// Collectives of layers between the replicas of a rank: a queue's head comes to one, and leaves it. And what comes of
// the calls between its shards.
#include "runtime/transport/host/HostTransport.h"

#include <fmt/format.h>

namespace pipec::runtime {

void HostTransport::joinExchange(Stream &stream) {
  Replicas &of = replicas.at(stream.group());
  of.stream = &stream;
  const Label label = stream.work.label();
  of.exchange.begin(label, stream.work.summand->layersOf(label.operation->stage), stream.ready);
}

/// Ends the collectives that are done, as far as the sockets are concerned.
void HostTransport::exchanged() {
  for (auto &[group, of] : replicas) {
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

HostTransport::Replicas *HostTransport::replicasOf(const wire::Tag &tag) {
  const auto found = replicas.find(wire::groupOf(tag));
  return found == replicas.end() || stopped ? nullptr : &found->second;
}

void HostTransport::refuse(int32_t process, const std::string &wrong) {
  failure.raise(Status::run(fmt::format("{}: {} {}", where(process), nameOf(process), wrong)));
}

void HostTransport::onAsk(int32_t process, const wire::Frame &frame) {
  if (Replicas *of = replicasOf(frame.tag))
    of->exchange.onAsk(process, frame);
  else if (!stopped)
    refuse(process, "is at " + wire::describe(frame.tag) + ", of a group that this rank is not in");
}

ShardExchange *HostTransport::shardsWith(int32_t process, const wire::Frame &frame) const {
  return frame.type == wire::Type::Part && options.shards && options.shards->has(process) ? options.shards : nullptr;
}

const std::vector<asio::mutable_buffer> *HostTransport::onBlock(int32_t process, const wire::Frame &frame) {
  if (ShardExchange *shards = shardsWith(process, frame))
    return shards->onPart(process, frame);
  if (Replicas *of = replicasOf(frame.tag))
    return of->exchange.onBlock(process, frame);
  if (!stopped)
    refuse(process, "is at " + wire::describe(frame.tag) + ", of a group that this rank is not in");
  return nullptr;
}

void HostTransport::onBlockArrived(int32_t process, const wire::Frame &frame) {
  if (ShardExchange *shards = shardsWith(process, frame))
    return shards->onArrived(process, frame);
  if (Replicas *of = replicasOf(frame.tag))
    of->exchange.onArrived(frame);
}

} // namespace pipec::runtime
