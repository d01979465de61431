#include "runtime/trace/Read.h"

#include "runtime/plan/Limits.h"
#include "runtime/plan/Load.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <optional>

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
  for (int kind = 0; kind != plan::kKinds; ++kind)
    if (found->get_ref<const std::string &>() == plan::name(plan::Kind(kind)))
      return plan::Kind(kind);
  return std::nullopt;
}

/// An instruction, where the object is one of ours.
std::optional<Event> eventOf(const Json &object) {
  const auto phase = object.find("ph"), arguments = object.find("args");
  if (phase == object.end() || *phase != "X" || arguments == object.end() || !arguments->is_object())
    return std::nullopt;
  constexpr int64_t kMostSteps = int64_t(1) << 40;
  const auto kind = kindOf(*arguments);
  const auto rank = numberOf(object, "pid", limits::kRanks - 1);
  const auto start = timeOf(object, "ts"), duration = timeOf(object, "dur");
  const auto stage = numberOf(*arguments, "stage", limits::kStages - 1);
  const auto microbatch = numberOf(*arguments, "microbatch", limits::kMicrobatches - 1);
  const auto step = numberOf(*arguments, "step", kMostSteps);
  if (!kind || !rank || !start || !duration || *duration < 0 || !stage || !microbatch || !step)
    return std::nullopt;
  Event event;
  event.rank = int32_t(*rank);
  event.kind = *kind;
  event.stage = int32_t(*stage);
  event.microbatch = *microbatch;
  event.step = *step;
  event.start = *start;
  event.end = *start + *duration;
  event.epoch = numberOf(*arguments, "epoch", kMostSteps).value_or(0);
  event.attempt = int32_t(numberOf(*arguments, "attempt", limits::kRanks).value_or(0));
  if (plan::isTransfer(*kind))
    event.of = arguments->value("of", Json()) == "B" ? plan::Payload::Backward : plan::Payload::Forward;
  return event;
}

} // namespace

Status fromJson(std::string_view json, std::vector<Event> &events) {
  std::vector<Event> found;
  // Each event is taken as its object ends, and let go: a tree of a long run would be many times its text.
  constexpr int kDepth = 2; // {"traceEvents": [{…}]}
  const auto take = [&](int depth, Json::parse_event_t event, Json &parsed) {
    if (depth != kDepth || event != Json::parse_event_t::object_end)
      return true;
    if (const auto one = eventOf(parsed))
      found.push_back(*one);
    return false;
  };
  const Json rest = Json::parse(json, take, /*allow_exceptions=*/false);
  if (!rest.is_object() || !rest.contains("traceEvents") || !rest["traceEvents"].is_array())
    return Status::input("the trace is damaged: expected a JSON object with \"traceEvents\"");
  if (found.empty())
    return Status::input("the trace has no instruction, expected what piperun --trace writes");
  events = std::move(found);
  return {};
}

Status read(const std::string &path, std::vector<Event> &events) {
  std::vector<uint8_t> bytes;
  Status status = plan::readBytes(path, limits::kTraceBytes, bytes);
  if (status.ok()) {
    status = fromJson({reinterpret_cast<const char *>(bytes.data()), bytes.size()}, events);
    if (!status.ok())
      status.message = fmt::format("{}: {}", path, status.message);
  }
  return status;
}

} // namespace pipec::trace
