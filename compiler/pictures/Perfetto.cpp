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
  options.pieces = !variant.jobs.empty();
  options.observePieces = [&](const simulate::Resume &at, int64_t filled) {
    const plan::Program &program = variant.programOf(size_t(at.place));
    for (int64_t n = 0; n != filled; ++n) {
      trace::Event &piece = events.emplace_back();
      piece.rank = at.place;
      piece.queue = uint32_t(program.queues.size());
      piece.step = at.step;
      piece.start = at.free + n * at.piece;
      piece.end = piece.start + at.piece;
      piece.atoms = program.piece;
    }
  };
  simulate::Result result;
  if (Status status = simulate::simulate(variant, options, result); !status.ok())
    return status;
  json = trace::toJson(variant, events);
  return {};
}

} // namespace pipec::emit
