// The traces of several ranks as one. Their events are joined as they are: each rank has its own process number, and
// the two ends of an arrow have the same id wherever they were written.
#include "runtime/trace/Trace.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace pipec::trace {

Status merge(const std::vector<std::string> &jsons, std::string &merged) {
  constexpr const char *kEvents = "traceEvents";
  std::string events;
  for (size_t i = 0; i < jsons.size(); ++i) {
    const nlohmann::json one = nlohmann::json::parse(jsons[i], nullptr, /*allow_exceptions=*/false);
    if (!one.is_object() || !one.contains(kEvents) || !one[kEvents].is_array())
      return Status::input(fmt::format("trace {} is damaged: expected a JSON object with \"{}\"", i, kEvents));
    for (const nlohmann::json &event : one[kEvents]) {
      events += events.empty() ? "" : ",\n";
      // Text that is not UTF-8 is replaced, never thrown at.
      events += event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    }
  }
  merged = fmt::format("{{\"displayTimeUnit\":\"ms\",\"{}\":[\n{}\n]}}\n", kEvents, events);
  return {};
}

} // namespace pipec::trace
