#include "compiler/pictures/Perfetto.h"

#include "runtime/simulate/Simulate.h"
#include "runtime/trace/Trace.h"

namespace pipec::emit {

Status perfetto(const plan::Variant &variant, int64_t steps, std::string &json) {
  std::vector<trace::Event> events;
  simulate::Options options;
  options.steps = steps;
  options.observe = [&](const simulate::Event &event) {
    if (event.operation->kind == plan::Kind::Overlapped)
      return; // the two behind it speak for it
    events.push_back({event.place, event.queue, event.operation->kind, event.operation->of, event.operation->stage,
                      event.operation->peer, event.microbatch, event.step, 0, event.start, event.end, 0, 0, 0,
                      trace::scopeOf(*event.operation)});
  };
  simulate::Result result;
  if (Status status = simulate::simulate(variant, options, result); !status.ok())
    return status;
  json = trace::toJson(variant, events);
  return {};
}

} // namespace pipec::emit
