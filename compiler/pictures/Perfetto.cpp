#include "compiler/pictures/Perfetto.h"

#include "runtime/simulate/Simulate.h"
#include "runtime/trace/Trace.h"

#include <algorithm>

namespace pipec::emit {

Status perfetto(const plan::Variant &variant, int64_t steps, std::string &json) {
  std::vector<trace::Event> events;
  simulate::Options options;
  options.steps = steps;
  options.observe = [&](const simulate::Event &event) {
    if (plan::isHeader(event.operation->kind))
      return; // the two behind it speak for it
    events.push_back({event.place, event.queue, event.operation->kind, event.operation->of, event.operation->stage,
                      event.operation->peer, event.microbatch, event.step, 0, event.start, event.end, 0, 0, 0,
                      trace::scopeOf(*event.operation)});
  };
  options.pieces = !variant.jobs.empty();
  const auto addPieces = [&](int32_t place, int64_t step, plan::Time from, int64_t count) {
    const plan::Program &program = variant.programOf(size_t(place));
    const plan::Time length = variant.pieceTime(program);
    for (int64_t n = 0; n != count; ++n, from += length)
      events.push_back(trace::pieceOf(place, program.queues.size(), step, from, from + length, program.piece));
  };
  options.observePieces = [&](const simulate::Resume &at, int64_t count) {
    addPieces(at.place, at.step, at.free, count);
  };
  simulate::Result result;
  if (Status status = simulate::simulate(variant, options, result); !status.ok())
    return status;
  plan::Time end = 0;
  for (const trace::Event &event : events)
    end = std::max(end, event.end);
  for (const plan::Program &program : variant.programs)
    if (program.runsJobAlone())
      addPieces(program.rank, 0, 0, end / variant.pieceTime(program));
  json = trace::toJson(variant, events);
  return {};
}

} // namespace pipec::emit
