#include "runtime/simulate/Recording.h"

#include "runtime/plan/Disassemble.h"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>

namespace pipec::simulate {

using plan::Kind;
using plan::Time;

void Recording::prepare(const plan::Variant &of, int64_t steps) {
  variant = &of;
  stepCount = steps;
  places.assign(of.places(), {});
  transferAt.assign(of.places(), {});
  const int32_t shards = of.shards();
  collectives.clear();
  transfers.clear();
  ends.clear();
  endAt.clear();
  for (size_t p = 0; p != places.size(); ++p) {
    const plan::Program &program = of.programOf(p);
    std::vector<std::vector<Executed>> queues(program.queues.size());
    transferAt[p].resize(queues.size());
    for (plan::Cursor cursor(program); !cursor.done(); cursor.next()) {
      const plan::Step step = cursor.at();
      const uint32_t q = step.instruction->queue;
      const auto index = int64_t(queues[q].size());
      if (plan::isTransfer(step.operation->kind)) {
        const bool sends = plan::sends(step.operation->kind);
        const int32_t place = int32_t(p), peer = step.operation->peer * shards + place % shards;
        Ends &ends = transfers[sends ? std::pair(place, peer) : std::pair(peer, place)];
        auto &side = sends ? ends.sends : ends.recvs;
        transferAt[p][q].push_back(int64_t(side.size()));
        side.emplace_back(q, index);
      } else {
        transferAt[p][q].push_back(-1);
        if (plan::isCollective(step.operation->kind))
          collectives[step.operation->group].push_back({int32_t(p), q, index});
      }
      queues[q].push_back({step.instruction, step.operation, step.trip});
    }
    for (std::vector<Executed> &queue : queues)
      places[p].emplace_back(size_t(stepCount), queue);
  }
}

/// The ends of each process in the order of issue.
void Recording::prepareEnds() {
  ends.resize(places.size());
  endAt.resize(places.size());
  for (size_t p = 0; p != places.size(); ++p) {
    endAt[p].resize(places[p].size());
    for (plan::Cursor cursor(variant->programOf(p)); !cursor.done(); cursor.next()) {
      const plan::Step step = cursor.at();
      std::vector<int64_t> &before = endAt[p][step.instruction->queue];
      before.push_back(int64_t(ends[p].size()));
      if (plan::isCommunication(step.operation->kind))
        ends[p].emplace_back(step.instruction->queue, int64_t(before.size()) - 1);
    }
  }
}

Status Recording::run(const plan::Variant &of, Options options) {
  prepare(of, options.steps);
  if (startsInOrder(of, options.launch))
    prepareEnds();
  measured = false;
  // Events come in the order of each queue.
  std::vector<std::vector<std::pair<int64_t, size_t>>> next(places.size()); // by queue: step and index
  for (size_t p = 0; p != places.size(); ++p)
    next[p].resize(places[p].size());
  options.idealLinks = false;
  options.observe = [&](const Event &event) {
    auto &[step, index] = next[size_t(event.place)][event.queue];
    if (step != event.step) {
      step = event.step;
      index = 0;
    }
    std::vector<Executed> &queue = places[size_t(event.place)][event.queue][size_t(step)];
    Executed &executed = queue[index];
    executed.start = event.start;
    executed.end = event.end;
    executed.came = event.came;
    executed.met = event.met;
    executed.completed = index == 0 ? event.end : std::max(event.end, queue[index - 1].completed);
    ++index;
  };
  return simulate(of, options, result);
}

Status Recording::replay(const plan::Variant &of, const Ran &ran) {
  prepare(of, 1);
  measured = true;
  result = {};
  for (size_t p = 0; p != places.size(); ++p)
    for (size_t q = 0; q != places[p].size(); ++q) {
      std::vector<Executed> &queue = places[p][q][0];
      for (size_t i = queue.size(); i-- != 0;) { // a pair's header is in no trace; it begins with the next pass
        Executed &executed = queue[i];
        if (plan::isHeader(executed.operation->kind) && i + 1 != queue.size()) {
          executed.start = executed.end = executed.came = executed.met = queue[i + 1].start;
          continue;
        }
        const auto times = ran(int32_t(p), *executed.operation, executed.microbatch());
        if (!times)
          return Status::input(
              fmt::format("has no {}, which the plan has", plan::describe(plan::placeOf(int32_t(p), {1, of.shards()}),
                                                                          *executed.operation, executed.microbatch())));
        std::tie(executed.start, executed.end) = *times;
        executed.came = executed.met = executed.end;
      }
      Time completed = 0;
      for (Executed &executed : queue)
        completed = executed.completed = std::max(completed, executed.end);
      if (of.programOf(p).queues[q].kind == plan::QueueKind::Device)
        result.makespan = std::max(result.makespan, completed);
    }
  return {};
}

Occurrence Recording::peerOf(const Occurrence &transfer) const {
  const plan::Operation &operation = *at(transfer).operation;
  const bool sends = plan::sends(operation.kind);
  const int32_t shards = variant->shards(), peer = operation.peer * shards + transfer.place % shards;
  const Ends &ends = transfers.at(sends ? std::pair(transfer.place, peer) : std::pair(peer, transfer.place));
  const int64_t n = transferAt[size_t(transfer.place)][transfer.queue][size_t(transfer.index)];
  auto [queue, index] = (sends ? ends.recvs : ends.sends)[size_t(n)];
  return {peer, queue, transfer.step, index};
}

void Recording::consider(Cause &best, Why why, Occurrence by, Time start) const {
  // A receive ends with its data's arrival; its queue and link are free when its send ends.
  if (why == Why::Queue && plan::receives(at(by).operation->kind))
    by = peerOf(by);
  const Time end = at(by).end, latest = measured && best.by ? at(*best.by).end : end;
  if (measured ? !best.by || end > latest || (end == latest && why < best.why)
               : end == start && (best.why == Why::Begin || why < best.why))
    best = {why, by};
}

std::optional<Occurrence> Recording::before(const Occurrence &place) const {
  if (place.index > 0)
    return Occurrence{place.place, place.queue, place.step, place.index - 1};
  if (place.step == 0)
    return std::nullopt;
  return Occurrence{place.place, place.queue, place.step - 1,
                    int64_t(queue(place.place, place.queue, place.step - 1).size()) - 1};
}

Occurrence Recording::meets(Occurrence waited, Time when) const {
  while (waited.index > 0 && at(waited).end != when)
    --waited.index;
  return waited;
}

/// Considers the causes of one side of a start: the instruction before it on its queue, and its waits.
void Recording::considerSide(Cause &best, const Occurrence &place, Time start) const {
  const plan::Program &program = variant->programOf(size_t(place.place));
  const Executed &own = at(place);
  const Kind kind = own.operation->kind;
  const bool computes = plan::isCompute(kind) || plan::classOf(kind) == plan::Class::Header;
  const bool device = program.queues[place.queue].kind == plan::QueueKind::Device;
  if (std::optional<Occurrence> previous = before(place))
    consider(best, device ? Why::Order : Why::Queue, *previous, start);
  for (uint32_t w = own.instruction->firstWait; w != own.instruction->firstWait + own.instruction->waits; ++w) {
    const plan::Wait &wait = program.waits[w];
    const int64_t count = wait.base + wait.stride * own.trip, step = place.step - (wait.previousStep ? 1 : 0);
    if (count <= 0 || step < 0)
      continue;
    Occurrence waited{place.place, wait.queue, step, count - 1};
    if (!measured && at(waited).completed != start)
      continue;
    waited = meets(waited, at(waited).completed);
    const bool weights = program.queues[wait.queue].priority == plan::Priority::Weights;
    const Kind by = at(waited).operation->kind;
    const bool exchanged = plan::isCollective(by) || plan::does(by, plan::kUpdate); // in the step before
    const bool reuses = !exchanged && (wait.previousStep || plan::receives(kind) || plan::sends(by));
    consider(best, reuses ? Why::Buffer : weights && computes ? Why::Memory : Why::Data, waited, start);
  }
}

/// In launch order, an end without a cause of its own has the cause of an earlier end.
void Recording::considerLaunch(Cause &best, const Occurrence &place, Time start) const {
  if (ends.empty() || best.by)
    return;
  const std::vector<std::pair<uint32_t, int64_t>> &all = ends[size_t(place.place)];
  int64_t n = endAt[size_t(place.place)][place.queue][size_t(place.index)];
  for (int64_t step = place.step; step >= 0 && !best.by; --step, n = int64_t(all.size()))
    while (n-- > 0 && !best.by) {
      const auto &[queue, index] = all[size_t(n)];
      considerSide(best, {place.place, queue, step, index}, start);
    }
  if (best.by)
    best.why = Why::Launch;
}

/// With shared ports (and so without shards): considers what used a port of this rank until the start.
void Recording::considerPorts(Cause &best, const Occurrence &place, Time start) const {
  const plan::Operation &own = *at(place).operation;
  if (!variant->sharedPort || best.by)
    return;
  for (const int32_t port : {place.place, plan::isTransfer(own.kind) ? own.peer : place.place})
    for (uint32_t q = 0; q != places[size_t(port)].size(); ++q)
      for (int64_t step = std::max<int64_t>(place.step - 1, 0); step <= place.step; ++step)
        for (size_t i = 0; i != queue(port, q, step).size(); ++i) {
          const Executed &other = queue(port, q, step)[i];
          if (plan::isCommunication(other.operation->kind) && other.start < start)
            consider(best, Why::Queue, {port, q, step, int64_t(i)}, start);
        }
}

/// The header of a pass's pair, if the pass begins with one: the pass has the header's cause.
Occurrence Recording::headOf(const Occurrence &place) const {
  for (int64_t back = 1; back <= std::min<int64_t>(place.index, 2); ++back)
    if (const Occurrence head{place.place, place.queue, place.step, place.index - back};
        plan::isHeader(at(head).operation->kind))
      return head;
  return place;
}

std::optional<Occurrence> Recording::overlappedWith(const Occurrence &place) const {
  const Occurrence head = headOf(place);
  if (head == place)
    return std::nullopt;
  return Occurrence{place.place, place.queue, place.step, 2 * head.index + 3 - place.index};
}

Cause Recording::causeOf(const Occurrence &of) const {
  const Occurrence place = headOf(of);
  Cause best;
  const Executed &own = at(place);
  considerSide(best, place, own.start);
  if (plan::isTransfer(own.operation->kind)) {
    const Occurrence peer = peerOf(place);
    considerSide(best, peer, own.start);
    // The link. If transfers of a pair of processes are on several queues of one side, the queue alone does not tell
    // what held the link.
    const bool sends = plan::sends(own.operation->kind);
    const Occurrence send = sends ? place : peer;
    const auto &all = transfers.at({send.place, (sends ? peer : place).place}).sends;
    const int64_t n = transferAt[size_t(send.place)][send.queue][size_t(send.index)];
    if (n > 0)
      consider(best, Why::Queue, {send.place, all[size_t(n - 1)].first, send.step, all[size_t(n - 1)].second},
               own.start);
    considerLaunch(best, place, own.start);
    considerLaunch(best, peer, own.start);
    considerPorts(best, place, own.start);
  } else if (plan::isOfLayers(*own.operation) && !plan::isOfShared(*own.operation)) {
    considerPorts(best, place, own.start); // replicas are alike: the others come to the collective when this one does
  } else if (plan::isCollective(own.operation->kind)) {
    for (const auto &[member, q, index] : collectives.at(own.operation->group))
      considerSide(best, {member, q, place.step, index}, own.start);
    for (const auto &[member, q, index] : collectives.at(own.operation->group))
      considerLaunch(best, {member, q, place.step, index}, own.start);
  } else if (best.why != Why::Memory) {
    // A device that queues share. (A W with a Memory cause holds the device too.)
    const plan::Program &program = variant->programOf(size_t(place.place));
    for (uint32_t q = 0; q != program.queues.size(); ++q) {
      if (q == place.queue || program.queues[q].kind != plan::QueueKind::Device)
        continue;
      for (int64_t step : {place.step - 1, place.step}) {
        if (step < 0)
          continue;
        const std::vector<Executed> &other = queue(place.place, q, step);
        auto it = std::lower_bound(other.begin(), other.end(), own.start,
                                   [](const Executed &e, Time time) { return e.end < time; });
        if (measured && (it == other.end() || it->end > own.start)) {
          if (it == other.begin())
            continue;
          --it;
        }
        if (it != other.end() && (measured || it->end == own.start) && it->start < own.start)
          consider(best, Why::Order, {place.place, q, step, it - other.begin()}, own.start);
      }
    }
  }
  return best;
}

std::optional<Cause> Recording::heldBy(const Occurrence &place) const {
  if (at(place).met <= at(place).came)
    return std::nullopt;
  const int32_t shards = variant->shards();
  Occurrence last = place;
  for (int32_t shard = 0; shard != shards; ++shard) {
    Occurrence other = place;
    other.place = place.place / shards * shards + shard;
    if (at(other).came > at(last).came)
      last = other;
  }
  return Cause{Why::Sum, last};
}

std::vector<Occurrence> Recording::chain(Occurrence place) const {
  std::vector<Occurrence> path{place};
  const int64_t step = place.step;
  while (true) {
    if (const std::optional<Cause> held = heldBy(path.back()))
      path.push_back(*held->by);
    Cause cause = causeOf(path.back());
    if (!cause.by || cause.by->step != step)
      break;
    path.push_back(*cause.by);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<Occurrence> Recording::criticalPath(int64_t step) const {
  std::optional<Occurrence> last;
  for (size_t p = 0; p != places.size(); ++p)
    for (uint32_t q = 0; q != places[p].size(); ++q) {
      const std::vector<Executed> &own = queue(int32_t(p), q, step);
      if (own.empty() ||
          (variant->programOf(p).queues[q].kind != plan::QueueKind::Device && !plan::isOfLayers(*own.back().operation)))
        continue;
      Occurrence place{int32_t(p), q, step, int64_t(own.size()) - 1};
      if (!last || at(place).end > at(*last).end)
        last = place;
    }
  return last ? chain(*last) : std::vector<Occurrence>{};
}

} // namespace pipec::simulate
