// Makes a scenario from JSON: one small function per object of the format.
#include "runtime/simulate/ScenarioFile.h"

#include "runtime/plan/Load.h"
#include "runtime/plan/Units.h"

#include <algorithm>
#include <fmt/format.h>

namespace pipec::simulate {

using units::quoted;

namespace {

constexpr int64_t kMaxFile = int64_t(16) << 20;
constexpr int64_t kMaxPercent = 100'000;

/// An object without unknown keys. Values are checked for their kind when they are read.
class Fields {
public:
  Fields(const Json &json, std::initializer_list<std::string_view> known) : json(json) {
    expect(json, Json::Kind::Object);
    for (const Json &key : json.keys)
      if (std::find(known.begin(), known.end(), key.text) == known.end())
        throw Misplaced{key.place, fmt::format("unknown key {}, expected {}", quoted(key.text),
                                               fmt::join(known, known.size() == 2 ? " or " : ", "))};
  }

  static void expect(const Json &json, Json::Kind kind) {
    if (json.kind != kind)
      throw Misplaced{json.place, fmt::format("expected {}, found {}{}", nameOf(kind), nameOf(json.kind),
                                              json.text.empty() ? "" : " " + quoted(json.text))};
  }

  const Json *find(std::string_view key) const {
    for (size_t i = 0; i != json.keys.size(); ++i)
      if (json.keys[i].text == key)
        return &json.items[i];
    return nullptr;
  }
  const Json &at(std::string_view key) const {
    if (const Json *value = find(key))
      return *value;
    throw Misplaced{json.place, fmt::format("key '{}' is missing", key)};
  }
  const std::vector<Json> &list(std::string_view key) const {
    static const std::vector<Json> kNone;
    const Json *value = find(key);
    if (!value)
      return kNone;
    expect(*value, Json::Kind::Array);
    return value->items;
  }
  /// Reads a quantity; leaves `value` as it is if the key is missing.
  void quantity(std::string_view key, units::Quantity (*parse)(std::string_view), int64_t &value) const {
    const Json *given = find(key);
    if (!given)
      return;
    // A bare number is refused by the parser, which names the units.
    if (given->kind != Json::Kind::Integer && given->kind != Json::Kind::Number)
      expect(*given, Json::Kind::String);
    units::Quantity quantity = parse(given->text);
    if (!quantity.ok())
      throw Misplaced{given->place, fmt::format("{}: {}", key, quantity.error)};
    value = quantity.value;
  }

private:
  const Json &json;
};

int64_t integer(const Json &json, int64_t least, int64_t most) {
  Fields::expect(json, Json::Kind::Integer);
  if (json.integer < least || json.integer > most)
    throw Misplaced{json.place, fmt::format("expected an integer from {} to {}, found {}", least, most, json.integer)};
  return json.integer;
}

class Reader {
public:
  Reader(int32_t ranks, int32_t shards) : ranks(ranks), shards(shards) {}

  Scenario read(const Json &json) {
    Fields fields(json, {"scenario", "default", "links", "replicas", "faults"});
    integer(fields.at("scenario"), 1, 1);
    if (const Json *others = fields.find("default"))
      scenario.others = link(Fields(*others, {"bandwidth", "latency", "changes", "repeat"}));
    if (const Json *replicas = fields.find("replicas"))
      scenario.replicas = link(Fields(*replicas, {"bandwidth", "latency", "changes", "repeat"}));
    for (const Json &each : fields.list("links"))
      named(each);
    for (const Json &each : fields.list("faults"))
      fault(each);
    return std::move(scenario);
  }

private:
  int32_t rank(const Json &json) const {
    Fields::expect(json, Json::Kind::Integer);
    if (json.integer < 0 || json.integer >= ranks)
      throw Misplaced{json.place, fmt::format("there is no rank {}, the plan has {}", json.integer, ranks)};
    return int32_t(json.integer);
  }

  int32_t shardOf(const Json &json, int32_t rank) const {
    Fields::expect(json, Json::Kind::Integer);
    if (shards == 1 || json.integer < 0 || json.integer >= shards)
      throw Misplaced{json.place, fmt::format("there is no shard {} of rank {}, it has {}", json.integer, rank,
                                              shards == 1 ? "none" : std::to_string(shards))};
    return int32_t(json.integer);
  }

  void named(const Json &json) {
    Fields fields(json, {"from", "to", "bandwidth", "latency", "changes", "repeat"});
    std::pair ends{rank(fields.at("from")), rank(fields.at("to"))};
    if (ends.first == ends.second)
      throw Misplaced{json.place, fmt::format("from and to are both {}; a link joins two ranks", ends.first)};
    if (!scenario.links.emplace(ends, link(fields)).second)
      throw Misplaced{json.place, fmt::format("the link from {} to {} is given twice", ends.first, ends.second)};
  }

  Scenario::Link link(const Fields &fields) const {
    Scenario::Stretch now;
    if (scenario.others)
      now = scenario.others->stretches.front();
    update(fields, now);
    Scenario::Link link{now};
    for (const Json &each : fields.list("changes")) {
      Fields change(each, {"at", "bandwidth", "latency"});
      change.at("at");
      change.quantity("at", units::parseDuration, now.at);
      if (now.at <= link.stretches.back().at)
        throw Misplaced{change.at("at").place, "changes come in order of time, the first after 0s"};
      update(change, now);
      link.stretches.push_back(now);
    }
    if (const Json *repeat = fields.find("repeat")) {
      if (link.stretches.size() == 1)
        throw Misplaced{repeat->place, "repeat: there are no changes that could begin anew"};
      fields.quantity("repeat", units::parseDuration, link.repeat);
      if (link.repeat <= link.stretches.back().at)
        throw Misplaced{repeat->place, "repeat: expected a time after the last change"};
    }
    return link;
  }

  static void update(const Fields &fields, Scenario::Stretch &now) {
    fields.quantity("bandwidth", units::parseBandwidth, now.bandwidth);
    fields.quantity("latency", units::parseDuration, now.latency);
  }

  void fault(const Json &json) {
    Fields fields(json, {"cut", "slow", "shard", "percent", "at", "until"});
    if (fields.find("cut"))
      return cut(json);
    if (fields.find("slow"))
      return slow(json);
    throw Misplaced{json.place, "expected a fault: 'cut' or 'slow'"};
  }

  void cut(const Json &json) {
    Fields fields(json, {"cut", "at"});
    const Json &ends = fields.at("cut");
    Fields::expect(ends, Json::Kind::Array);
    if (ends.items.size() != 2)
      throw Misplaced{ends.place, fmt::format("expected two ranks, found {}", ends.items.size())};
    std::pair between = std::minmax({rank(ends.items[0]), rank(ends.items[1])});
    if (between.first == between.second)
      throw Misplaced{ends.place, fmt::format("both ranks are {}; a link joins two", between.first)};
    Time at = 0;
    fields.at("at");
    fields.quantity("at", units::parseDuration, at);
    auto [known, added] = scenario.cuts.emplace(between, at);
    known->second = std::min(known->second, at);
  }

  void slow(const Json &json) {
    Fields fields(json, {"slow", "shard", "percent", "at", "until"});
    Scenario::Slow slow;
    slow.percent = integer(fields.at("percent"), 1, kMaxPercent);
    fields.quantity("at", units::parseDuration, slow.at);
    fields.quantity("until", units::parseDuration, slow.until);
    if (slow.until <= slow.at)
      throw Misplaced{fields.at("until").place, "it ends before it begins"};
    const int32_t of = rank(fields.at("slow"));
    if (const Json *shard = fields.find("shard"))
      slow.shard = shardOf(*shard, of);
    scenario.slow[of].push_back(slow);
  }

  using Time = plan::Time;
  int32_t ranks, shards;
  Scenario scenario;
};

} // namespace

Status parseScenario(std::string_view text, int32_t ranks, Scenario &scenario, Place &place, int32_t shards) {
  try {
    scenario = Reader(ranks, shards).read(parseJson(text));
    return {};
  } catch (const Misplaced &wrong) {
    place = wrong.place;
    return Status::input(wrong.message);
  }
}

Status readScenario(const std::string &path, int32_t ranks, Scenario &scenario, Place &place, int32_t shards) {
  place = {};
  std::vector<uint8_t> bytes;
  Status status = plan::readBytes(path, kMaxFile, bytes);
  if (std::string named = path + ": "; status.message.starts_with(named))
    status.message.erase(0, named.size());
  if (!status.ok())
    return status;
  std::string_view text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  return parseScenario(text, ranks, scenario, place, shards);
}

} // namespace pipec::simulate
