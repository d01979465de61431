// A trace from a stranger: refused with a reason, or instructions within the limits that are the same once they have
// been written and read again.
#include "runtime/plan/Limits.h"
#include "runtime/trace/Read.h"
#include "test/fuzz/Mutate.h"

#include <cstdlib>
#include <tuple>

using namespace pipec;

namespace {

void require(bool right) {
  if (!right)
    std::abort();
}

/// What a double of microseconds holds to the picosecond.
bool isExact(const trace::Event &event) {
  constexpr plan::Time kExact = plan::Time(1) << 50;
  return event.start > -kExact && event.end < kExact;
}

auto identity(const trace::Event &event) {
  return std::tie(event.rank, event.kind, event.of, event.stage, event.microbatch, event.step, event.epoch,
                  event.attempt);
}

auto identity(const trace::Decision &d) { return std::tie(d.step, d.from, d.to, d.policy, d.why); }

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  trace::Run run, read;
  const Status status = trace::fromJson({reinterpret_cast<const char *>(data), size}, run);
  const std::vector<trace::Event> &events = run.events, &again = read.events;
  if (!status.ok()) {
    require(!status.message.empty() && events.empty() && run.decisions.empty());
    return 0;
  }
  require(!events.empty());
  for (const trace::Event &event : events) {
    require(event.rank >= 0 && event.rank < limits::kRanks && event.stage >= 0 && event.stage < limits::kStages);
    require(event.microbatch >= 0 && event.microbatch < limits::kMicrobatches && event.step >= 0);
    require(event.start >= -limits::kTime && event.start <= event.end && event.end <= 2 * limits::kTime);
  }
  require(trace::fromJson(trace::toJson(std::vector<trace::Rank>(), events, run.decisions), read).ok());
  require(again.size() == events.size());
  for (size_t i = 0; i != events.size(); ++i) {
    require(identity(events[i]) == identity(again[i]));
    require(!isExact(events[i]) || (events[i].start == again[i].start && events[i].end == again[i].end));
  }
  require(read.decisions.size() == run.decisions.size());
  for (size_t i = 0; i != run.decisions.size(); ++i)
    require(identity(run.decisions[i]) == identity(read.decisions[i]));
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize, unsigned seed) {
  static const std::vector<std::string> known = {
      "\"ph\"",    "\"X\"",         "\"pid\"",      "\"ts\"", "\"dur\"",   "\"args\"",       "\"F\"",       "\"BW\"",
      "\"recv\"",  "\"optimizer\"", "\"step\"",     "\"of\"", "\"stage\"", "\"microbatch\"", "\"attempt\"", "1e300",
      "-0.0",      "0.000001",      "null",         "{}",     "[]",        "\"kind\"",       "true",        "1e18",
      "\"epoch\"", "\"cat\"",       "\"decision\"", "\"i\"",  "\"from\"",  "\"to\"",         "\"policy\"",  "\"why\""};
  fuzz::Random random(seed);
  if (random.oneIn(3))
    return LLVMFuzzerMutate(data, size, maxSize);
  std::string text = fuzz::textOf(data, size);
  for (size_t changes = 1 + random.below(3); changes > 0; --changes)
    if (random.oneIn(2))
      fuzz::changeParts(text, random.oneIn(3) ? '\n' : ',', random);
    else
      fuzz::changeWord(text, known, random);
  return fuzz::give(text, data, maxSize);
}
