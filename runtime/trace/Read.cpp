#include "runtime/trace/Read.h"

#include "runtime/plan/Limits.h"
#include "runtime/plan/Load.h"
#include "runtime/plan/Units.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string>

namespace pipec::trace {
namespace {

using Json = nlohmann::json;
using plan::Time;

/// A whole number from 0 to most, if that is what stands there.
std::optional<int64_t> numberOf(const Json &object, const char *key, int64_t most) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer())
    return std::nullopt;
  if (found->is_number_unsigned() && found->get<uint64_t>() > uint64_t(most))
    return std::nullopt;
  const int64_t value = found->get<int64_t>();
  return value >= 0 && value <= most ? std::optional(value) : std::nullopt;
}

/// Microseconds, with decimals, as picoseconds.
std::optional<Time> timeOf(const Json &object, const char *key) {
  constexpr double kPicoseconds = 1e6;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number())
    return std::nullopt;
  const double value = std::round(found->get<double>() * kPicoseconds);
  return std::abs(value) <= double(limits::kTime) ? std::optional(Time(value)) : std::nullopt;
}

std::optional<plan::Kind> kindOf(const Json &arguments) {
  const auto found = arguments.find("kind");
  if (found == arguments.end() || !found->is_string())
    return std::nullopt;
  for (const plan::KindRow &row : plan::kKindTable)
    if (found->get_ref<const std::string &>() == row.name)
      return row.kind;
  return std::nullopt;
}

std::optional<std::string> textOf(const Json &object, const char *key) {
  const auto found = object.find(key);
  return found == object.end() || !found->is_string() ? std::nullopt : std::optional(found->get<std::string>());
}

/// Whether an event has at least two of these arguments: other tools' events have others.
bool hasTwo(const Json &object, std::initializer_list<const char *> names) {
  const auto arguments = object.find("args");
  return arguments != object.end() && arguments->is_object() &&
         std::count_if(names.begin(), names.end(), [&](const char *name) { return arguments->contains(name); }) >= 2;
}

bool says(const Json &object, const char *key, std::string_view text) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() && found->get_ref<const std::string &>() == text;
}

bool isInstruction(const Json &object) {
  return says(object, "ph", "X") && hasTwo(object, {"step", "stage", "kind", "microbatch"});
}

bool isPiece(const Json &object) {
  return says(object, "ph", "X") && says(object, "cat", "job") && hasTwo(object, {"step", "kind", "atoms"});
}

bool isDecision(const Json &object) {
  return says(object, "ph", "i") && says(object, "cat", "decision") &&
         hasTwo(object, {"step", "from", "to", "policy", "why"});
}

std::string foundIn(const Json &object, const char *key) {
  constexpr size_t kLongest = 40;
  const auto found = object.find(key);
  if (found == object.end())
    return "none";
  std::string text = found->dump(-1, ' ', true);
  if (text.size() > kLongest)
    text = text.substr(0, kLongest) + "...";
  return text;
}

constexpr int64_t kMostSteps = int64_t(1) << 40;

/// Takes the parts of an event; the first that is not as `what` has it is said in `wrong`.
struct Parts {
  const char *what; // "an instruction"
  std::string &wrong;

  template <typename Value>
  Value need(std::optional<Value> value, const Json &in, const char *key, std::string_view expected) const {
    if (!value && wrong.empty())
      wrong = fmt::format("expected {} as \"{}\" of {}, found {}", expected, key, what, foundIn(in, key));
    return value.value_or(Value{});
  }
  int64_t whole(const Json &in, const char *key, int64_t most) const {
    return need(numberOf(in, key, most), in, key, fmt::format("a whole number from 0 to {}", most));
  }
  std::string text(const Json &in, const char *key) const { return need(textOf(in, key), in, key, "a text"); }
  Time begin(const Json &in) const { return need(timeOf(in, "ts"), in, "ts", "microseconds, of at most 11 days,"); }
};

/// Two whole numbers, 0 where there are none.
std::pair<int64_t, int64_t> pairOf(const Json &arguments, const char *key, int64_t most) {
  const auto found = arguments.find(key);
  if (found == arguments.end() || !found->is_array() || found->size() != 2)
    return {};
  const Json both{{"first", (*found)[0]}, {"second", (*found)[1]}};
  return {numberOf(both, "first", most).value_or(0), numberOf(both, "second", most).value_or(0)};
}

Scope scopeOf(const Json &arguments) {
  const auto [first, layers] = pairOf(arguments, "layers", limits::kStages);
  const auto [begin, end] = pairOf(arguments, "bytes", limits::kBytes);
  return {int32_t(first), int32_t(layers), begin, end};
}

/// Whose it is, in which step and when.
Event timesOf(const Json &object, const Parts &take) {
  const Json &arguments = object["args"];
  Event event;
  event.rank = int32_t(take.whole(object, "pid", limits::kRanks - 1));
  event.step = take.whole(arguments, "step", kMostSteps);
  event.start = take.begin(object);
  std::optional<Time> duration = timeOf(object, "dur");
  if (duration && *duration < 0)
    duration.reset();
  event.end = event.start + take.need(duration, object, "dur", "microseconds from 0 on, of at most 11 days,");
  event.attempt = int32_t(numberOf(arguments, "attempt", limits::kRanks).value_or(0));
  return event;
}

Event pieceOf(const Json &object, std::string &wrong) {
  const Parts take{"a job's piece", wrong};
  Event event = timesOf(object, take);
  event.atoms = take.whole(object["args"], "atoms", limits::kTime);
  return event;
}

Event eventOf(const Json &object, std::string &wrong) {
  const Parts take{"an instruction", wrong};
  const Json &arguments = object["args"];
  const plan::Kind kind = take.need(kindOf(arguments), arguments, "kind", "F, B, W or another kind");
  Event event = timesOf(object, take);
  event.kind = kind;
  event.stage = int32_t(take.whole(arguments, "stage", limits::kStages - 1));
  event.microbatch = take.whole(arguments, "microbatch", limits::kMicrobatches - 1);
  event.epoch = numberOf(arguments, "epoch", kMostSteps).value_or(0);
  event.scope = scopeOf(arguments);
  const Json of = arguments.value("of", Json());
  if (plan::isTransfer(event.kind))
    event.of = of == "B" ? plan::Payload::Backward : plan::Payload::Forward;
  else if (plan::isCollective(event.kind)) // traces of before 1.3 do not say
    event.of = of == "gradients" ? plan::Payload::Gradients
               : of == "weights" ? plan::Payload::Weights
               : of == "shared"  ? plan::Payload::Shared
                                 : plan::Payload::Norm;
  return event;
}

Decision decisionOf(const Json &object, std::string &wrong) {
  const Parts take{"a decision", wrong};
  const Json &arguments = object["args"];
  Decision decision;
  decision.at = take.begin(object);
  decision.step = take.whole(arguments, "step", kMostSteps);
  decision.from = take.text(arguments, "from");
  decision.to = take.text(arguments, "to");
  decision.policy = take.text(arguments, "policy");
  decision.why = take.text(arguments, "why");
  return decision;
}

/// Counts what has been read, which is all that a position can be told from.
struct Counting {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char *;
  using reference = const char &;

  const char *at;
  size_t *read;

  const char &operator*() const { return *at; }
  Counting &operator++() { return ++at, ++*read, *this; }
  bool operator==(const Counting &other) const { return at == other.at; }
  bool operator!=(const Counting &other) const { return at != other.at; }
};

/// Takes each event as its object ends. Of all else it keeps nothing, and of an event only what is asked for: a tree
/// could be many times its text.
class Taker : public nlohmann::json_sax<Json> {
public:
  Run found;
  bool hasEvents = false;
  size_t read = 0;    // of the text
  size_t wrongAt = 0; // its last byte that was read, or where an event that is damaged begins; from 1
  std::string wrong;  // with that event

  bool null() override { return value(nullptr); }
  bool boolean(bool given) override { return value(given); }
  bool number_integer(number_integer_t given) override { return value(given); }
  bool number_unsigned(number_unsigned_t given) override { return value(given); }
  bool number_float(number_float_t given, const string_t &) override { return value(given); }
  bool string(string_t &given) override { return value(std::move(given)); }
  bool binary(binary_t &) override { return true; }
  bool start_object(size_t) override { return start(true); }
  bool start_array(size_t) override {
    isPair = known == depth && depth == kArguments && (name == "layers" || name == "bytes");
    if (isPair)
      event["args"][name] = Json::array();
    return start(false);
  }
  bool end_object() override { return end(); }
  bool end_array() override {
    isPair = false;
    return end();
  }
  bool key(string_t &given) override {
    if (known == depth)
      name = std::move(given);
    return true;
  }
  bool parse_error(size_t position, const std::string &, const nlohmann::detail::exception &) override {
    wrongAt = position;
    return false;
  }

private:
  // {"traceEvents": [{…, "args": {…}}]}
  static constexpr int kEvents = 2, kEvent = 3, kArguments = 4;
  int depth = 0, known = 0; // open objects and arrays, and how many of them lead to an event's arguments
  std::string name;         // of what comes next
  size_t begins = 0;        // the event
  Json event;
  bool isPair = false; // what comes are the two numbers of an argument

  bool start(bool isObject) {
    const bool leads =
        known == depth && (depth == 0             ? isObject
                           : depth + 1 == kEvents ? !isObject && name == "traceEvents"
                           : depth + 1 == kEvent  ? isObject
                                                  : isObject && depth + 1 == kArguments && name == "args");
    ++depth;
    if (!leads)
      return true;
    known = depth;
    hasEvents |= depth == kEvents;
    if (depth == kEvent) {
      event = Json::object();
      begins = read;
    } else if (depth == kArguments)
      event["args"] = Json::object();
    return true;
  }
  bool end() {
    if (known == depth-- && known-- == kEvent) {
      if (isPiece(event))
        found.pieces.push_back(pieceOf(event, wrong));
      else if (isInstruction(event))
        found.events.push_back(eventOf(event, wrong));
      else if (isDecision(event))
        found.decisions.push_back(decisionOf(event, wrong));
      wrongAt = wrong.empty() ? 0 : begins;
    }
    return wrong.empty();
  }
  bool value(Json given) {
    static constexpr std::string_view kKeys[] = {"ph",      "pid",   "ts",   "dur",    "cat",        "args",
                                                 "step",    "stage", "kind", "of",     "microbatch", "epoch",
                                                 "attempt", "from",  "to",   "policy", "why",        "atoms"};
    if (isPair && depth == kArguments + 1) {
      if (Json &pair = event["args"][name]; pair.size() < 2)
        pair.push_back(std::move(given));
      return true;
    }
    if (known != depth || depth < kEvent || std::find(std::begin(kKeys), std::end(kKeys), name) == std::end(kKeys))
      return true;
    (depth == kEvent ? event : event["args"])[name] = std::move(given);
    return true;
  }
};

} // namespace

Status fromJson(std::string_view json, Run &run) {
  Taker taker;
  const Counting begin{json.data(), &taker.read}, end{json.data() + json.size(), &taker.read};
  if (!Json::sax_parse(begin, end, &taker)) {
    const std::string_view before = json.substr(0, std::max<size_t>(taker.wrongAt, 1) - 1);
    const size_t line = size_t(std::count(before.begin(), before.end(), '\n')), first = before.rfind('\n') + 1;
    return Status::input(fmt::format("the trace is damaged at line {}, column {}: {}", line + 1,
                                     before.size() - first + 1, taker.wrong.empty() ? "expected JSON" : taker.wrong));
  }
  if (!taker.hasEvents)
    return Status::input("the trace is damaged: expected a JSON object with \"traceEvents\"");
  if (taker.found.events.empty())
    return Status::input("the trace has no instruction, expected what piperun --trace writes");
  run = std::move(taker.found);
  return {};
}

Status read(const std::string &path, Run &run) {
  std::vector<uint8_t> bytes;
  Status status = plan::readBytes(path, kReadBytes, bytes);
  if (status.message == plan::tooLong(path, kReadBytes).message)
    status.message += "; a run of fewer steps has a shorter trace";
  if (status.ok()) {
    status = fromJson({reinterpret_cast<const char *>(bytes.data()), bytes.size()}, run);
    if (!status.ok())
      status.message = fmt::format("{}: {}", units::escaped(path), status.message);
  }
  return status;
}

} // namespace pipec::trace
