// One line, written over and over.
#include "tools/piperun/Progress.h"

#include "runtime/launch/MessageStream.h"

#include <fmt/format.h>
#include <unistd.h>

namespace pipec::piperun {

Progress::Progress(const plan::Plan &plan, bool wanted) : on(wanted && isatty(STDERR_FILENO)) {
  const plan::Variant &variant = plan.variants.front();
  predicted = double(variant.certificate.span) / 1e9;
  double sum = 0;
  for (size_t place = 0; place < variant.places(); ++place) {
    const plan::Program &program = variant.programOf(place);
    const plan::Own *own = variant.ownOf(place);
    for (const plan::Segment &segment : program.step)
      for (uint32_t i = 0; i < segment.count; ++i) {
        const uint32_t at = program.instructions[segment.first + i].operation;
        const plan::Operation &op = program.operations[at];
        if (own)
          sum += double(own->operations[at].before + own->operations[at].between + own->operations[at].after) *
                 segment.trips;
        else if (plan::isOfStage(op.kind))
          sum += double(op.cost) * segment.trips;
        if (plan::isHeader(op.kind))
          i += 2; // the pair's header has its time
      }
  }
  busy = sum / 1e9 / double(variant.places());
}

void Progress::reached(int64_t step, int64_t steps) {
  constexpr auto kBetween = std::chrono::milliseconds(200);
  Clock::time_point now = Clock::now();
  if (!on || (shownStep >= 0 && now - shown < kBetween))
    return;
  if (shownStep >= 0 && step > shownStep) {
    double each = std::chrono::duration<double, std::milli>(now - shown).count() / double(step - shownStep);
    runtime::standardError().write(
        fmt::format("\r\033[Kstep {} of {}: {:.3f} ms/step, predicted {:.3f}, bubble {:.1f} %", step, steps, each,
                    predicted, 100 * (1 - busy / each)));
  }
  shown = now;
  shownStep = step;
}

void Progress::clear() {
  if (on)
    runtime::standardError().write("\r\033[K");
}

} // namespace pipec::piperun
