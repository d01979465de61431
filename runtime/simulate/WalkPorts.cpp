// Turns of transfers and collectives on the ports of ranks (data_parallel.port: shared).
#include "runtime/simulate/Walk.h"

#include <algorithm>

namespace pipec::simulate {

using plan::Time;

void Walk::noteLink(uint32_t at) {
  const Link &link = links[at];
  for (const uint32_t queue : {link.send.queue, link.recv.queue})
    ports[size_t(queues[queue].place)].waiting.push_back(at);
  turns.push({startOf(link), 0, Turn::Of::Link, at});
}

void Walk::noteCollective(uint32_t at) {
  const Collective &collective = collectives[at];
  Time start = collective.ready;
  for (const uint32_t queue : collective.queues) {
    const Port &port = ports[size_t(queues[queue].place)];
    start = std::max({start, port.outward, port.inward});
  }
  turns.push({start, 0, Turn::Of::Collective, at});
}

/// Runs the transfer of a link, unless others have used its ports since the turn was noted.
void Walk::takeLink(const Turn &noted) {
  const auto at = uint32_t(noted.number);
  const Link &link = links[at];
  const Time start = startOf(link);
  if (start != noted.start) {
    turns.push({start, 0, Turn::Of::Link, at});
    return;
  }
  const uint32_t ends[] = {link.send.queue, link.recv.queue};
  cross(at, start);
  for (const uint32_t queue : ends) {
    Port &port = ports[size_t(queues[queue].place)];
    port.waiting.erase(std::find(port.waiting.begin(), port.waiting.end(), at));
    for (const uint32_t collective : std::exchange(port.yielding, {}))
      noteCollective(collective);
    pending.push_back(queue);
  }
}

void Walk::takeCollective(const Turn &noted) {
  const auto at = uint32_t(noted.number);
  Collective &collective = collectives[at];
  for (const uint32_t queue : collective.queues) {
    const Port &port = ports[size_t(queues[queue].place)];
    if (std::max(port.outward, port.inward) > noted.start)
      return noteCollective(at);
  }
  if (!yields(at, noted.start))
    meet(collective, noted.start);
}

/// Whether a transfer waits for one of a collective's ports. The collective is noted again when that transfer has run.
bool Walk::yields(uint32_t at, Time start) {
  for (const uint32_t queue : collectives[at].queues) {
    Port &port = ports[size_t(queues[queue].place)];
    const bool waits = std::any_of(port.waiting.begin(), port.waiting.end(), [&](uint32_t link) {
      return std::max(links[link].send.ready, links[link].recv.ready) <= start;
    });
    if (!waits)
      continue;
    port.yielding.push_back(at);
    return true;
  }
  return false;
}

} // namespace pipec::simulate
