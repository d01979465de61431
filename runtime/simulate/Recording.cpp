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
  ranks.assign(of.programs.size(), {});
  transferAt.assign(of.programs.size(), {});
  collectives.clear();
  transfers.clear();
  ends.clear();
  endAt.clear();
  for (size_t r = 0; r != ranks.size(); ++r) {
    const plan::Program &program = of.programs[r];
    std::vector<std::vector<Executed>> queues(program.queues.size());
    transferAt[r].resize(queues.size());
    for (plan::Cursor cursor(program); !cursor.done(); cursor.next()) {
      const plan::Step step = cursor.at();
      const uint32_t q = step.instruction->queue;
      const auto index = int64_t(queues[q].size());
      if (plan::isTransfer(step.operation->kind)) {
        const bool sends = step.operation->kind == Kind::Send;
        const int32_t rank = int32_t(r), peer = step.operation->peer;
        Ends &ends = transfers[sends ? std::pair(rank, peer) : std::pair(peer, rank)];
        auto &side = sends ? ends.sends : ends.recvs;
        transferAt[r][q].push_back(int64_t(side.size()));
        side.emplace_back(q, index);
      } else {
        transferAt[r][q].push_back(-1);
        if (plan::isCollective(step.operation->kind))
          collectives[step.operation->group].push_back({int32_t(r), q, index});
      }
      queues[q].push_back({step.instruction, step.operation, step.trip});
    }
    for (std::vector<Executed> &queue : queues)
      ranks[r].emplace_back(size_t(stepCount), queue);
  }
}

/// The ends of each rank in the order of issue.
void Recording::prepareEnds() {
  ends.resize(ranks.size());
  endAt.resize(ranks.size());
  for (size_t r = 0; r != ranks.size(); ++r) {
    endAt[r].resize(ranks[r].size());
    for (plan::Cursor cursor(variant->programs[r]); !cursor.done(); cursor.next()) {
      const plan::Step step = cursor.at();
      std::vector<int64_t> &places = endAt[r][step.instruction->queue];
      places.push_back(int64_t(ends[r].size()));
      if (plan::isCommunication(step.operation->kind))
        ends[r].emplace_back(step.instruction->queue, int64_t(places.size()) - 1);
    }
  }
}

Status Recording::run(const plan::Variant &of, Options options) {
  prepare(of, options.steps);
  if (startsInOrder(of, options.launch))
    prepareEnds();
  measured = false;
  // Events come in the order of each queue.
  std::vector<std::vector<std::pair<int64_t, size_t>>> next(ranks.size()); // step and index of each queue
  for (size_t r = 0; r != ranks.size(); ++r)
    next[r].resize(ranks[r].size());
  options.idealLinks = false;
  options.observe = [&](const Event &event) {
    auto &[step, index] = next[size_t(event.rank)][event.queue];
    if (step != event.step) {
      step = event.step;
      index = 0;
    }
    std::vector<Executed> &queue = ranks[size_t(event.rank)][event.queue][size_t(step)];
    Executed &executed = queue[index];
    executed.start = event.start;
    executed.end = event.end;
    executed.completed = index == 0 ? event.end : std::max(event.end, queue[index - 1].completed);
    ++index;
  };
  return simulate(of, options, result);
}

Status Recording::replay(const plan::Variant &of, const Ran &ran) {
  prepare(of, 1);
  measured = true;
  result = {};
  for (size_t r = 0; r != ranks.size(); ++r)
    for (size_t q = 0; q != ranks[r].size(); ++q) {
      std::vector<Executed> &queue = ranks[r][q][0];
      for (size_t i = queue.size(); i-- != 0;) { // a pair's header, which no trace has, begins with what follows it
        Executed &executed = queue[i];
        if (executed.operation->kind == Kind::Overlapped && i + 1 != queue.size()) {
          executed.start = executed.end = queue[i + 1].start;
          continue;
        }
        const auto times = ran(int32_t(r), *executed.operation, executed.microbatch());
        if (!times)
          return Status::input(fmt::format("has no {}, which the plan has",
                                           plan::describe(int32_t(r), *executed.operation, executed.microbatch())));
        std::tie(executed.start, executed.end) = *times;
      }
      Time completed = 0;
      for (Executed &executed : queue)
        completed = executed.completed = std::max(completed, executed.end);
      if (of.programs[r].queues[q].kind == plan::QueueKind::Device)
        result.makespan = std::max(result.makespan, completed);
    }
  return {};
}

Occurrence Recording::peerOf(const Occurrence &transfer) const {
  const plan::Operation &operation = *at(transfer).operation;
  const bool sends = operation.kind == Kind::Send;
  const Ends &ends =
      transfers.at(sends ? std::pair(transfer.rank, operation.peer) : std::pair(operation.peer, transfer.rank));
  const int64_t n = transferAt[size_t(transfer.rank)][transfer.queue][size_t(transfer.index)];
  auto [queue, index] = (sends ? ends.recvs : ends.sends)[size_t(n)];
  return {operation.peer, queue, transfer.step, index};
}

void Recording::consider(Cause &best, Why why, Occurrence by, Time start) const {
  // A receive ends with its data's arrival; its queue and link are free when its send ends.
  if (why == Why::Queue && at(by).operation->kind == Kind::Recv)
    by = peerOf(by);
  const Time end = at(by).end, latest = measured && best.by ? at(*best.by).end : end;
  if (measured ? !best.by || end > latest || (end == latest && why < best.why)
               : end == start && (best.why == Why::Begin || why < best.why))
    best = {why, by};
}

std::optional<Occurrence> Recording::before(const Occurrence &place) const {
  if (place.index > 0)
    return Occurrence{place.rank, place.queue, place.step, place.index - 1};
  if (place.step == 0)
    return std::nullopt;
  return Occurrence{place.rank, place.queue, place.step - 1,
                    int64_t(queue(place.rank, place.queue, place.step - 1).size()) - 1};
}

Occurrence Recording::meets(Occurrence waited, Time when) const {
  while (waited.index > 0 && at(waited).end != when)
    --waited.index;
  return waited;
}

/// What holds up one side of a start: what stands before it on its queue, and its waits.
void Recording::considerSide(Cause &best, const Occurrence &place, Time start) const {
  const plan::Program &program = variant->programs[size_t(place.rank)];
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
    Occurrence waited{place.rank, wait.queue, step, count - 1};
    if (!measured && at(waited).completed != start)
      continue;
    waited = meets(waited, at(waited).completed);
    const bool weights = program.queues[wait.queue].priority == plan::Priority::Weights;
    const bool reuses = wait.previousStep || kind == Kind::Recv || at(waited).operation->kind == Kind::Send;
    consider(best, reuses ? Why::Buffer : weights && computes ? Why::Memory : Why::Data, waited, start);
  }
}

/// In launch order an end that nothing of its own holds up is held up by what holds up an earlier one.
void Recording::considerLaunch(Cause &best, const Occurrence &place, Time start) const {
  if (ends.empty() || best.by)
    return;
  const std::vector<std::pair<uint32_t, int64_t>> &all = ends[size_t(place.rank)];
  int64_t n = endAt[size_t(place.rank)][place.queue][size_t(place.index)];
  for (int64_t step = place.step; step >= 0 && !best.by; --step, n = int64_t(all.size()))
    while (n-- > 0 && !best.by) {
      const auto &[queue, index] = all[size_t(n)];
      considerSide(best, {place.rank, queue, step, index}, start);
    }
  if (best.by)
    best.why = Why::Launch;
}

/// A pass that begins with the header of its pair is held up by what held up the header.
Occurrence Recording::headOf(const Occurrence &place) const {
  for (int64_t back = 1; back <= std::min<int64_t>(place.index, 2); ++back)
    if (const Occurrence head{place.rank, place.queue, place.step, place.index - back};
        at(head).operation->kind == Kind::Overlapped)
      return head;
  return place;
}

std::optional<Occurrence> Recording::overlappedWith(const Occurrence &place) const {
  const Occurrence head = headOf(place);
  if (head == place)
    return std::nullopt;
  return Occurrence{place.rank, place.queue, place.step, 2 * head.index + 3 - place.index};
}

Cause Recording::causeOf(const Occurrence &of) const {
  const Occurrence place = headOf(of);
  Cause best;
  const Executed &own = at(place);
  considerSide(best, place, own.start);
  if (plan::isTransfer(own.operation->kind)) {
    const Occurrence peer = peerOf(place);
    considerSide(best, peer, own.start);
    // The link: where transfers of a pair of ranks are on several queues of one side, the queue alone does not say what
    // held it.
    const bool sends = own.operation->kind == Kind::Send;
    const Occurrence send = sends ? place : peer;
    const auto &all = transfers.at({send.rank, at(send).operation->peer}).sends;
    const int64_t n = transferAt[size_t(send.rank)][send.queue][size_t(send.index)];
    if (n > 0)
      consider(best, Why::Queue, {send.rank, all[size_t(n - 1)].first, send.step, all[size_t(n - 1)].second},
               own.start);
    considerLaunch(best, place, own.start);
    considerLaunch(best, peer, own.start);
  } else if (plan::isCollective(own.operation->kind)) {
    for (const auto &[rank, q, index] : collectives.at(own.operation->group))
      considerSide(best, {rank, q, place.step, index}, own.start);
    for (const auto &[rank, q, index] : collectives.at(own.operation->group))
      considerLaunch(best, {rank, q, place.step, index}, own.start);
  } else if (best.why != Why::Memory) {
    // A device that queues share. (A W whose memory is waited for holds it too.)
    const plan::Program &program = variant->programs[size_t(place.rank)];
    for (uint32_t q = 0; q != program.queues.size(); ++q) {
      if (q == place.queue || program.queues[q].kind != plan::QueueKind::Device)
        continue;
      for (int64_t step : {place.step - 1, place.step}) {
        if (step < 0)
          continue;
        const std::vector<Executed> &other = queue(place.rank, q, step);
        auto it = std::lower_bound(other.begin(), other.end(), own.start,
                                   [](const Executed &e, Time time) { return e.end < time; });
        if (measured && (it == other.end() || it->end > own.start)) {
          if (it == other.begin())
            continue;
          --it;
        }
        if (it != other.end() && (measured || it->end == own.start) && it->start < own.start)
          consider(best, Why::Order, {place.rank, q, step, it - other.begin()}, own.start);
      }
    }
  }
  return best;
}

std::vector<Occurrence> Recording::chain(Occurrence place) const {
  std::vector<Occurrence> path{place};
  const int64_t step = place.step;
  while (true) {
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
  for (size_t rank = 0; rank != ranks.size(); ++rank)
    for (uint32_t q = 0; q != ranks[rank].size(); ++q) {
      const std::vector<Executed> &own = queue(int32_t(rank), q, step);
      if (own.empty() || variant->programs[rank].queues[q].kind != plan::QueueKind::Device)
        continue;
      Occurrence place{int32_t(rank), q, step, int64_t(own.size()) - 1};
      if (!last || at(place).end > at(*last).end)
        last = place;
    }
  return last ? chain(*last) : std::vector<Occurrence>{};
}

} // namespace pipec::simulate
