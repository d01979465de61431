#include "compiler/pictures/html/Frame.h"

#include "compiler/pictures/html/Columns.h"
#include "runtime/plan/TransferBuffers.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

namespace pipec::emit::page {

using plan::Operation;
using plan::Time;
using simulate::Cause;
using simulate::Executed;
using simulate::Occurrence;
using simulate::Recording;

namespace {

/// The greatest unit that all times are whole multiples of, and at least one in which a double tells them apart.
class Unit {
public:
  void take(Time time) {
    divisor = std::gcd(divisor, time);
    largest = std::max(largest, std::abs(time));
  }
  Time get() const {
    constexpr Time kExact = Time(1) << 53;
    Time unit = std::max<Time>(divisor, 1);
    while (largest / unit >= kExact)
      unit *= 2;
    return unit;
  }

private:
  Time divisor = 0, largest = 0;
};

/// Operations that look alike are one, whichever process they are of.
class Operations {
public:
  size_t indexOf(const Operation &o) {
    const auto [found, isNew] =
        indices.try_emplace({o.kind, o.of, o.stage, o.cost, o.latency, o.bytes, o.activation, o.context}, list.size());
    if (isNew)
      list.push_back(o);
    return found->second;
  }
  const Operation &at(size_t index) const { return list[index]; }
  nlohmann::ordered_json json() const {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const Operation &o : list)
      rows.push_back({int(o.kind), int(o.of), o.stage, o.cost, o.latency, o.bytes, plan::Bytes(plan::takenBy(o)),
                      plan::Bytes(plan::freedBy(o))});
    return rows;
  }

private:
  std::map<std::tuple<plan::Kind, plan::Payload, int32_t, Time, Time, plan::Bytes, plan::Bytes, plan::Bytes>, size_t>
      indices;
  std::vector<Operation> list;
};

struct Item {
  Occurrence place; // of a transfer: its send
  size_t operation = 0;
  size_t group = 0; // a box's rank, a transfer's link
};

class FrameOf {
public:
  FrameOf(const plan::Variant &variant, const Recording &recording, int64_t step, const RunStep *run)
      : variant(variant), recording(recording), step(step), run(run) {
    gather();
    measure();
  }

  nlohmann::ordered_json json(const Pieces &pieces) {
    writeBoxes();
    writeTransfers();
    if (run)
      writeRun();
    nlohmann::ordered_json head = {{"step", step},
                                   {"unit", unit},
                                   {"shards", variant.shards()},
                                   {"boxes", boxes.size()},
                                   {"transfers", transfers.size()},
                                   {"operations", operations.json()}};
    addPieces(pieces);
    head["ranks"] = std::move(ranks);
    head["links"] = std::move(links);
    if (run) {
      head["run"] = {{"step", run->step}, {"unit", runUnit}, {"length", run->end - run->begin}};
      for (const trace::Decision &d : run->decisions)
        head["run"]["decisions"].push_back(
            {{"at", d.at}, {"step", d.step}, {"from", d.from}, {"to", d.to}, {"policy", d.policy}, {"why", d.why}});
    }
    head["columns"] = columns.text();
    return head;
  }

private:
  /// Those that stand in this step, all of them or in part.
  void addPieces(const Pieces &pieces) {
    Time end = begin;
    for (const Item &item : boxes)
      end = std::max(end, recording.at(item.place).end);
    for (size_t place = 0; place != pieces.size(); ++place)
      for (const auto &[from, to] : pieces[place])
        if (from < end && to > begin)
          ranks[place]["pieces"].push_back({std::max(from, begin) - begin, std::min(to, end) - begin});
    for (size_t place = 0; run && place != run->pieces.size(); ++place)
      for (const auto &[from, to] : run->pieces[place])
        ranks[place]["ran"].push_back({from - run->begin, to - run->begin});
  }

  void gather() {
    std::map<std::pair<int32_t, int32_t>, std::vector<Occurrence>> sends;
    const int32_t shards = variant.shards();
    number.resize(variant.places());
    for (size_t p = 0; p != variant.places(); ++p) {
      const plan::Program &program = variant.programOf(p);
      std::vector<Occurrence> device, collectives;
      number[p].resize(program.queues.size());
      for (uint32_t q = 0; q != program.queues.size(); ++q) {
        const std::vector<Executed> &queue = recording.queue(int32_t(p), q, step);
        number[p][q].resize(queue.size());
        for (int64_t i = 0; i != int64_t(queue.size()); ++i) {
          const Operation &o = *queue[size_t(i)].operation;
          const Occurrence place{int32_t(p), q, step, i};
          if (plan::sends(o.kind))
            sends[{int32_t(p), o.peer * shards + int32_t(p) % shards}].push_back(place);
          else if (plan::isBusy(o.kind) || plan::isCollective(o.kind)) // of a pair, its two are there
            (program.queues[q].kind == plan::QueueKind::Device ? device : collectives).push_back(place);
        }
      }
      byStart(device);
      byStart(collectives);
      if (!device.empty()) {
        const Time first = recording.at(device.front()).start;
        begin = begin < 0 ? first : std::min(begin, first);
      }
      const simulate::PlaceResult &result = recording.result.places[p];
      const plan::Own *own = variant.ownOf(p);
      ranks.push_back({{"boxes", device.size()},
                       {"collectives", collectives.size()},
                       {"stages", program.stages},
                       {"base", result.peak - result.peakActivation},
                       {"static", own ? own->staticBytes : program.staticBytes},
                       {"workspace", own ? own->workspace : program.workspace},
                       {"rings", plan::Bytes(plan::bufferBytes(variant, program))},
                       {"peak", result.peak},
                       {"limit", variant.limitOf(program)}});
      for (const std::vector<Occurrence> *each : {&device, &collectives})
        for (const Occurrence &place : *each)
          add(boxes, place, p);
    }
    begin = std::max<Time>(begin, 0);
    size_t link = 0;
    for (auto &[pair, places] : sends) {
      byStart(places);
      links.push_back({pair.first, pair.second, places.size()});
      for (const Occurrence &place : places)
        add(transfers, place, link);
      ++link;
    }
  }

  void byStart(std::vector<Occurrence> &places) const {
    std::sort(places.begin(), places.end(), [&](const Occurrence &a, const Occurrence &b) {
      const Executed &x = recording.at(a), &y = recording.at(b);
      return std::tuple(x.start, x.end, a.queue, a.index) < std::tuple(y.start, y.end, b.queue, b.index);
    });
  }

  void add(std::vector<Item> &items, const Occurrence &place, size_t group) {
    number[size_t(place.place)][place.queue][size_t(place.index)] = items.size();
    items.push_back({place, operations.indexOf(shownOf(place)), group});
  }

  /// What a process takes and holds of its operation; of sums as if it never waited.
  Operation shownOf(const Occurrence &place) const {
    const Operation &o = *recording.at(place).operation;
    Operation shown = plan::operationOf(variant, size_t(place.place), o);
    if (const plan::Own *own = variant.ownOf(size_t(place.place)))
      shown.cost += own->operations[size_t(&o - variant.programOf(size_t(place.place)).operations.data())].own();
    return shown;
  }

  void measure() {
    Unit simulated, real;
    for (const std::vector<Item> *items : {&boxes, &transfers})
      for (const Item &item : *items) {
        const Executed &e = recording.at(item.place);
        const Operation &shown = operations.at(item.operation);
        for (Time time : {e.start - begin, e.end - begin, e.came - begin, e.met - begin, shown.cost, shown.latency})
          simulated.take(time);
        if (items == &transfers)
          simulated.take(recording.at(recording.peerOf(item.place)).end - begin);
      }
    unit = simulated.get();
    if (!run)
      return;
    for (const auto &[key, event] : run->events) {
      real.take(event->start - run->begin);
      real.take(event->end - run->begin);
    }
    runUnit = real.get();
  }

  Time ticks(Time time) const { return time / unit; }

  /// What a column holds of each item from the last one of the same operation and group.
  void writeMicrobatches(const std::vector<Item> &items) {
    std::map<std::pair<size_t, size_t>, int64_t> last;
    for (const Item &item : items) {
      int64_t &before = last[{item.group, item.operation}];
      const int64_t microbatch = recording.at(item.place).microbatch();
      columns.difference(microbatch - before);
      before = microbatch;
    }
  }

  void writeCauses(const std::vector<Item> &items) {
    constexpr uint64_t kNothing = 0, kBox = 1, kSend = 2, kRecv = 3;
    std::vector<std::pair<uint64_t, uint64_t>> referred;
    for (const Item &item : items) {
      const Cause cause = recording.causeOf(item.place);
      uint64_t what = kNothing, which = 0;
      if (cause.by && cause.by->step == step) {
        const plan::Kind kind = recording.at(*cause.by).operation->kind;
        what = plan::sends(kind) ? kSend : plan::receives(kind) ? kRecv : kBox;
        const Occurrence of = what == kRecv ? recording.peerOf(*cause.by) : *cause.by;
        which = number[size_t(of.place)][of.queue][size_t(of.index)];
      }
      columns.number(uint64_t(cause.why) * 4 + what);
      referred.emplace_back(what, which);
    }
    std::array<uint64_t, 4> last{};
    for (const auto &[what, which] : referred)
      if (what != kNothing) {
        columns.difference(int64_t(which - last[what]));
        last[what] = which;
      }
  }

  void writeOperations(const std::vector<Item> &items) {
    for (const Item &item : items)
      columns.number(item.operation);
  }

  /// Starts from the end before in the group, lengths from the operation's cost.
  void writeTimes(const std::vector<Item> &items) {
    size_t group = std::numeric_limits<size_t>::max();
    Time last = 0;
    for (const Item &item : items) {
      const Executed &e = recording.at(item.place);
      const Time start = ticks(e.start - begin);
      if (item.group != group)
        last = 0;
      group = item.group;
      columns.difference(start - last);
      last = ticks(e.end - begin);
    }
    for (const Item &item : items) {
      const Executed &e = recording.at(item.place);
      columns.difference(ticks(e.end - begin) - ticks(e.start - begin) - ticks(operations.at(item.operation).cost));
    }
  }

  void writeBoxes() {
    writeOperations(boxes);
    writeMicrobatches(boxes);
    writeTimes(boxes);
    writeCauses(boxes);
    if (variant.shards() > 1)
      writeSums();
  }

  /// How long before its end each box came to its first sum and met the others there, and which shard was the last.
  void writeSums() {
    for (const Item &item : boxes) {
      const Executed &e = recording.at(item.place);
      const std::optional<Cause> held = recording.heldBy(item.place);
      columns.number(held ? uint64_t(held->by->place % variant.shards()) + 1 : 0);
      if (!held)
        continue;
      columns.number(uint64_t(ticks(e.end - begin) - ticks(e.came - begin)));
      columns.number(uint64_t(ticks(e.end - begin) - ticks(e.met - begin)));
    }
  }

  void writeTransfers() {
    writeOperations(transfers);
    writeMicrobatches(transfers);
    writeTimes(transfers);
    for (const Item &item : transfers) {
      const Executed &send = recording.at(item.place), &recv = recording.at(recording.peerOf(item.place));
      columns.difference(ticks(recv.end - begin) - ticks(send.end - begin) - ticks(send.operation->latency));
    }
    writeCauses(transfers);
  }

  void writeRun() {
    writeRunOf(boxes, [](const Occurrence &place) { return place; });
    writeRunOf(transfers, [](const Occurrence &place) { return place; });
    writeRunOf(transfers, [this](const Occurrence &place) { return recording.peerOf(place); });
  }

  template <typename Side> void writeRunOf(const std::vector<Item> &items, Side side) {
    std::vector<const trace::Event *> ran;
    for (const Item &item : items) {
      const Occurrence place = side(item.place);
      const Executed &e = recording.at(place);
      const trace::Event *event = run->find(place.place, *e.operation, e.microbatch());
      columns.number(event ? 1 : 0);
      if (event)
        ran.push_back(event);
    }
    Time last = 0;
    for (const trace::Event *event : ran) {
      columns.difference((event->start - run->begin) / runUnit - last);
      last = (event->start - run->begin) / runUnit;
    }
    for (const trace::Event *event : ran)
      columns.difference((event->end - event->start) / runUnit);
  }

  const plan::Variant &variant;
  const Recording &recording;
  const int64_t step;
  const RunStep *run;
  Time begin = -1, unit = 1, runUnit = 1;
  Operations operations;
  std::vector<Item> boxes, transfers;
  std::vector<std::vector<std::vector<size_t>>> number; // place, queue, index → item
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array(), links = nlohmann::ordered_json::array();
  Columns columns;
};

} // namespace

int64_t items(const plan::Variant &variant) {
  int64_t count = 0;
  for (const plan::Program &program : variant.programs)
    count += plan::executed(program) * variant.shards();
  return count;
}

nlohmann::ordered_json frame(const plan::Variant &variant, const Recording &recording, int64_t step, const RunStep *run,
                             const Pieces &pieces) {
  return FrameOf(variant, recording, step, run).json(pieces);
}

} // namespace pipec::emit::page
