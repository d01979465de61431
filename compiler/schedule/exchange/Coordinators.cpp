#include "compiler/schedule/exchange/Coordinators.h"

#include <algorithm>
#include <deque>
#include <set>
#include <tuple>

namespace pipec::schedule {

std::vector<Collective> horovodQueue(const ExchangeInput &input, const PolicyParameters &parameters, size_t rank) {
  const std::vector<Piece> pieces = tensorsOf(input, rank);
  const Time period = std::max<Time>({parameters.cycle, input.replicas.round, 1});
  std::vector<Collective> queue;
  Bundler bundler(queue);
  Time tick = 0; // the one at which what was added last goes
  for (const Piece &piece : pieces) {
    const Time own = (piece.ready + period - 1) / period;
    if (own != tick || bundler.bytes() + piece.bytes() > parameters.bundle)
      bundler.close();
    tick = own;
    bundler.add(piece);
  }
  bundler.close();
  return queue;
}

std::vector<Collective> byteSchedulerQueue(const ExchangeInput &input, const PolicyParameters &parameters,
                                           size_t rank) {
  std::vector<Piece> pieces;
  for (const Piece &tensor : tensorsOf(input, rank))
    for (Bytes begin = tensor.begin; begin < tensor.end; begin += parameters.piece) {
      pieces.push_back(tensor);
      pieces.back().begin = begin;
      pieces.back().end = std::min(begin + parameters.piece, tensor.end);
    }
  using Need = std::tuple<int32_t, Bytes, size_t>; // stage, where it begins, index
  std::set<Need> ready;
  std::deque<std::pair<Time, Bytes>> underWay; // when each has arrived, and its bytes
  Bytes credit = parameters.credit;
  std::vector<Collective> queue;
  Time now = 0, wire = 0;
  for (size_t next = 0; next != pieces.size() || !ready.empty();) {
    for (; next != pieces.size() && pieces[next].ready <= now; ++next)
      ready.emplace(pieces[next].stage, pieces[next].begin, next);
    for (; !underWay.empty() && underWay.front().first <= now; underWay.pop_front())
      credit += underWay.front().second;
    const bool may = !ready.empty() && (underWay.empty() || credit > 0);
    if (!may) { // until something arrives, or is ready
      const Time arrives = underWay.empty() ? INT64_MAX : underWay.front().first;
      now = next != pieces.size() ? std::min(arrives, std::max(now, pieces[next].ready)) : arrives;
      continue;
    }
    const Piece &piece = pieces[std::get<2>(*ready.begin())];
    ready.erase(ready.begin());
    queue.push_back({plan::Kind::AllReduce, piece.stage, piece.layer, 1, piece.begin, piece.end, input.replicas.round});
    wire = later(std::max(wire, now), input.replicas.round + input.replicas.times.allReduce.of(piece.bytes()));
    underWay.emplace_back(wire, piece.bytes());
    credit -= piece.bytes();
  }
  return queue;
}

} // namespace pipec::schedule
