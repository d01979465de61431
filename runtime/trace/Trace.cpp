// Events → Chrome's JSON trace events (the "Trace Event Format" document of the Chromium project). Times there are
// microseconds; written as decimals they keep our picoseconds. The text is formatted directly: it is large, and all
// strings in it are our own, but for those of decisions.
#include "runtime/trace/Trace.h"

#include "runtime/plan/Disassemble.h"
#include "runtime/plan/Write.h"
#include "runtime/trace/Tracks.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

namespace pipec::trace {
namespace {

using plan::Kind;
using plan::Payload;
using plan::Time;

std::string microseconds(Time time) {
  constexpr Time kMicrosecond = 1'000'000;
  const bool negative = time < 0;
  const uint64_t size = negative ? uint64_t(0) - uint64_t(time) : uint64_t(time);
  return fmt::format("{}{}.{:06}", negative ? "-" : "", size / kMicrosecond, size % kMicrosecond);
}

/// In quotes; what is not UTF-8 is replaced.
std::string quoted(const std::string &text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// "F3", "send F3", "optimizer"; `number` is the microbatch's.
std::string sliceName(const Event &e, int64_t number) {
  if (plan::isTransfer(e.kind))
    return fmt::format("{} {}{}", plan::name(e.kind), plan::name(e.of), number);
  return plan::isCompute(e.kind) ? fmt::format("{}{}", plan::name(e.kind), number) : plan::name(e.kind);
}

/// The same number at both ends of a transfer, also when each rank writes its own trace: the sender's stage, the
/// microbatch, what is carried and the step, which together fit.
uint64_t flowId(const Event &e) {
  const int32_t toSender = plan::sends(e.kind) ? 0 : e.of == Payload::Forward ? -1 : 1;
  const uint64_t stage = uint64_t(uint32_t(e.stage + toSender)) & 0xfffff;
  return uint64_t(e.step) << 41 | stage << 21 | (uint64_t(e.microbatch) & 0xfffff) << 1 |
         uint64_t(e.of == Payload::Backward);
}

/// `,"layers":[0,2],"bytes":[0,4096]`, as far as there are any.
std::string scopeText(const Scope &scope) {
  std::string text;
  if (scope.layers != 0)
    text += fmt::format(",\"layers\":[{},{}]", scope.firstLayer, scope.layers);
  if (scope.end != 0)
    text += fmt::format(",\"bytes\":[{},{}]", scope.begin, scope.end);
  return text;
}

std::string shardText(const Event &e, const plan::Place &place) {
  std::string text = fmt::format(",\"shard\":{}", place.shard);
  if (plan::isBusy(e.kind))
    text += fmt::format(",\"own_ms\":{},\"wait_ms\":{}", double(e.own) / 1e9, double(e.waited) / 1e9);
  return text;
}

class Writer {
public:
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";

  template <typename... Args> void event(fmt::format_string<Args...> format, Args &&...args) {
    if (!first)
      text += ",\n";
    first = false;
    fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
  }

  void rankNames(int32_t rank, const Rank &known, const std::vector<Track> &tracks, const Tracks &all) {
    const std::vector<std::string> &queues = known.queues;
    event(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":"{}"}}}})", rank, plan::nameOf(known.place));
    event(R"({{"ph":"M","name":"process_sort_index","pid":{},"args":{{"sort_index":{}}}}})", rank, rank);
    for (const Track &track : tracks) {
      std::string name = track.queue < queues.size()    ? queues[track.queue]
                         : track.queue == queues.size() ? "jobs"
                                                        : fmt::format("queue {}", track.queue);
      if (track.lane > 0)
        name += fmt::format(" ({})", track.lane + 1);
      const int64_t thread = all.thread(track);
      event(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}}}})", rank, thread, name);
      event(R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})", rank, thread,
            int64_t(track.queue) * 1000 + track.lane);
    }
  }

  void piece(const Event &e, int64_t thread) {
    event(R"({{"ph":"X","name":"job","cat":"job","pid":{},"tid":{},"ts":{},"dur":{},)"
          R"("args":{{"step":{},"kind":"job","atoms":{}{}}}}})",
          e.rank, thread, microseconds(e.start), microseconds(e.end - e.start), e.step, e.atoms,
          e.attempt > 0 ? fmt::format(",\"attempt\":{}", e.attempt) : "");
  }

  void slice(const Event &e, const plan::Place &place, int64_t number, int64_t thread) {
    if (e.atoms > 0)
      return piece(e, thread);
    const bool transfer = plan::isTransfer(e.kind);
    event(R"({{"ph":"X","name":"{}","cat":"{}","pid":{},"tid":{},"ts":{},"dur":{},)"
          R"("args":{{"step":{},"stage":{},"kind":"{}",{}"microbatch":{},"epoch":{}{}{}{}{}}}}})",
          sliceName(e, number), transfer ? "transfer" : "compute", e.rank, thread, microseconds(e.start),
          microseconds(e.end - e.start), e.step, e.stage, plan::name(e.kind),
          e.of != Payload::None ? fmt::format("\"of\":\"{}\",", plan::name(e.of)) : "", e.microbatch, e.epoch,
          scopeText(e.scope), place.degree > 1 ? fmt::format(",\"replica\":{}", place.replica) : "",
          place.shards > 1 ? shardText(e, place) : "", e.attempt > 0 ? fmt::format(",\"attempt\":{}", e.attempt) : "");
    if (!transfer)
      return;
    // An arrow binds to the slice around its end: of a send its start, of a receive its middle, which comes later.
    const bool send = plan::sends(e.kind);
    event(R"({{"ph":"{}",{}"name":"transfer","cat":"flow","id":"{:#x}{}","pid":{},"tid":{},"ts":{}}})",
          send ? "s" : "f", send ? "" : "\"bp\":\"e\",", flowId(e),
          place.replica + place.shard > 0 ? fmt::format(".{}", place.replica + place.shard) : "", e.rank, thread,
          microseconds(send ? e.start : e.start + (e.end - e.start) / 2));
  }

  void counter(int32_t rank, Time at, __int128 bytes) {
    event(R"({{"ph":"C","name":"live bytes","pid":{},"ts":{},"args":{{"bytes":{}}}}})", rank, microseconds(at), bytes);
  }

  /// Of all ranks, so it is drawn across them; `pid` and `tid` have to be there all the same.
  void decision(const Decision &d) {
    event(R"({{"ph":"i","s":"g","name":{},"cat":"decision","pid":0,"tid":0,"ts":{},)"
          R"("args":{{"step":{},"from":{},"to":{},"policy":{},"why":{}}}}})",
          quoted(fmt::format("{} -> {}", d.from, d.to)), microseconds(d.at), d.step, quoted(d.from), quoted(d.to),
          quoted(d.policy), quoted(d.why));
  }

private:
  bool first = true;
};

/// Activations and contexts of a rank over time: what holds memory does so from its start, what frees it at its end.
class LiveBytes {
public:
  void add(const Event &e) {
    if (e.taken != 0)
      changes[e.rank][e.start] += e.taken;
    if (e.freed != 0)
      changes[e.rank][e.end] -= e.freed;
  }
  void write(Writer &out) const {
    for (const auto &[rank, ofRank] : changes) {
      __int128 live = 0;
      for (const auto &[time, change] : ofRank)
        out.counter(rank, time, live += change);
    }
  }

private:
  std::map<int32_t, std::map<Time, __int128>> changes;
};

/// `numberOf`: an event's microbatch as people count it.
template <typename NumberOf>
std::string toJson(const std::vector<Rank> &ranks, const std::vector<Event> &events,
                   const std::vector<Decision> &decisions, NumberOf numberOf) {
  std::map<int32_t, Rank> known;
  for (const Rank &rank : ranks)
    known[rank.place.world()] = rank;
  const auto knownOf = [&](int32_t rank) -> const Rank & { // where nothing is known of it, at least its number
    return known.try_emplace(rank, Rank{{.rank = rank}, {}}).first->second;
  };
  Writer out;
  const Tracks tracks(events);
  for (const auto &[rank, used] : tracks.used())
    out.rankNames(rank, knownOf(rank), used, tracks);
  LiveBytes live;
  for (size_t i = 0; i < events.size(); ++i) {
    out.slice(events[i], knownOf(events[i].rank).place, numberOf(events[i]), tracks.thread(tracks.of(i)));
    live.add(events[i]);
  }
  live.write(out);
  for (const Decision &decision : decisions)
    out.decision(decision);
  out.text += "\n]}\n";
  return std::move(out.text);
}

} // namespace

std::vector<Rank> describe(const plan::Variant &variant) {
  std::vector<Rank> ranks;
  const int32_t shards = variant.shards();
  ranks.reserve(variant.places());
  for (size_t place = 0; place < variant.places(); ++place)
    ranks.push_back({plan::placeOf(int32_t(place), plan::Grid{1, shards}), plan::queueNames(variant.programOf(place))});
  return ranks;
}

std::string toJson(const std::vector<Rank> &ranks, const std::vector<Event> &events,
                   const std::vector<Decision> &decisions) {
  return toJson(ranks, events, decisions, [](const Event &e) { return e.microbatch; });
}

std::string toJson(const plan::Variant &variant, std::vector<Event> events) {
  std::map<std::tuple<int32_t, Kind, int32_t>, std::pair<plan::Bytes, plan::Bytes>> held;
  for (size_t place = 0; place < variant.places(); ++place)
    for (const plan::Operation &each : variant.programOf(place).operations)
      if (plan::isCompute(each.kind)) {
        const plan::Operation o = plan::operationOf(variant, place, each);
        held[{int32_t(place), o.kind, o.stage}] = {plan::Bytes(plan::takenBy(o)), plan::Bytes(plan::freedBy(o))};
      }
  for (Event &e : events)
    if (const auto found = held.find({e.rank, e.kind, e.stage}); e.atoms == 0 && found != held.end())
      std::tie(e.taken, e.freed) = found->second;
  return toJson(describe(variant), events, {}, [&](const Event &e) { return variant.numberOf(e.stage, e.microbatch); });
}

Status write(const std::string &path, const std::string &json) {
  return plan::writeFile(path, {reinterpret_cast<const uint8_t *>(json.data()), json.size()});
}

} // namespace pipec::trace
