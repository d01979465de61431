#include "runtime/simulate/SteppedRun.h"

#include "runtime/simulate/Walk.h"

#include <algorithm>

namespace pipec::simulate {

struct SteppedRun::State {
  explicit State(const Options &given) {
    options.scenario = given.scenario;
    options.idealLinks = given.idealLinks;
    options.launch = given.launch;
    fence = given.starts;
    if (given.observe)
      options.observe = [this, observe = given.observe](Event event) {
        event.step += before;
        observe(event);
      };
  }

  Options options;            // of the walk
  std::unique_ptr<Walk> walk; // since the last swap
  const plan::Variant *variant = nullptr;
  int64_t before = 0, since = 0; // steps before the last swap, and since
  std::vector<plan::Time> begins, ends, fence;
};

SteppedRun::SteppedRun(const Options &options) : state(std::make_unique<State>(options)) {}
SteppedRun::~SteppedRun() = default;
SteppedRun::SteppedRun(SteppedRun &&) noexcept = default;
SteppedRun &SteppedRun::operator=(SteppedRun &&) noexcept = default;

Status SteppedRun::step(const plan::Variant &variant) {
  State &own = *state;
  if (own.variant != &variant) {
    own.options.starts = own.fence;
    own.before += std::exchange(own.since, 0);
    own.walk = std::make_unique<Walk>(variant, own.options);
    own.variant = &variant;
  }
  if (Status status = own.walk->advance(own.since + 1); !status.ok())
    return status;
  own.walk->conclude();
  const auto step = size_t(own.since++);
  const std::vector<PlaceResult> &places = own.walk->result.places;
  own.begins = std::exchange(own.ends, {});
  own.fence.clear();
  for (const PlaceResult &place : places) {
    own.ends.push_back(place.lastEnd[step]);
    own.fence.push_back(place.over);
  }
  const auto shards = size_t(variant.shards());
  for (size_t p = 0; shards > 1 && p != own.fence.size(); p += shards) {
    const auto first = own.fence.begin() + ptrdiff_t(p), end = first + ptrdiff_t(shards);
    std::fill(first, end, *std::max_element(first, end));
  }
  if (own.begins.empty())
    for (const PlaceResult &place : places)
      own.begins.push_back(place.firstStart[step]);
  return {};
}

int64_t SteppedRun::steps() const { return state->before + state->since; }
const std::vector<plan::Time> &SteppedRun::ends() const { return state->ends; }
const std::vector<plan::Time> &SteppedRun::fence() const { return state->fence; }

plan::Time SteppedRun::stepTime() const {
  plan::Time time = 0;
  for (size_t p = 0; p != state->ends.size(); ++p)
    if (state->begins[p] >= 0) // -1: the process computes nothing
      time = std::max(time, state->ends[p] - state->begins[p]);
  return time;
}

plan::Time SteppedRun::end() const { return *std::max_element(state->ends.begin(), state->ends.end()); }

} // namespace pipec::simulate
