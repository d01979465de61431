// Sleeping to the deadline of the last atom; its state is a number.
#include "runtime/job/SyntheticJob.h"

#include "runtime/plan/Limits.h"
#include "runtime/plan/Load.h"
#include "runtime/plan/Write.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace pipec::runtime {

namespace {

constexpr double kMostTimes = 1e6;
constexpr int64_t kMostAtoms = int64_t(1) << 53; // beyond, JSON's numbers are not whole

/// `times` and `fails` of the provider, where it has them; what is wrong with it, else nothing.
std::string read(const std::string &provider, double &times, int64_t &fails) {
  const nlohmann::json json = nlohmann::json::parse(provider, nullptr, false);
  if (json.is_null())
    return {};
  if (!json.is_object())
    return fmt::format("provider: {}: expected times, fails, or nothing",
                       json.is_discarded() ? "no JSON" : json.dump());
  for (const auto &[key, value] : json.items())
    if (key == "times") {
      if (!value.is_number() || !(value >= 0 && value <= kMostTimes))
        return fmt::format("provider: times is {}, expected a number from 0 to {}", value.dump(), kMostTimes);
      times = value.get<double>();
    } else if (key == "fails") {
      if (!value.is_number_integer() || !(value >= 0 && value <= kMostAtoms))
        return fmt::format("provider: fails is {}, expected an atom, from 0", value.dump());
      fails = value.get<int64_t>();
    } else {
      return fmt::format("provider: {}: there is no such value, expected times or fails", key);
    }
  return {};
}

} // namespace

Status SyntheticJob::make(const JobSetup &setup, const Clock &clock, std::unique_ptr<Job> &job) {
  std::unique_ptr<SyntheticJob> made(new SyntheticJob(setup, clock));
  if (setup.device >= 0)
    return Status::input(made->place + ": the synthetic job is for the host alone");
  double times = 1;
  if (const std::string wrong = read(setup.provider, times, made->fails); !wrong.empty())
    return Status::input(fmt::format("{}: {}", made->place, wrong));
  made->atom = plan::Time(std::min(std::round(double(setup.atom) * times), double(limits::kTime)));
  job = std::move(made);
  return {};
}

Status SyntheticJob::run(int64_t first, int64_t count, plan::Time due, void *) {
  const plan::Time start = due == kNow ? clock.now() : due;
  if (first != done)
    return Status::run(fmt::format("{}: goes on at atom {}, expected {}", place, first, done));
  const bool failing = fails >= first && fails - first < count;
  const int64_t good = failing ? fails - first : count;
  clock.sleepUntil(start + emulated(good));
  done += good;
  return failing ? Status::run(fmt::format("{}: atom {} fails, as its provider says", place, fails)) : Status{};
}

plan::Time SyntheticJob::emulated(int64_t count) const {
  plan::Time time = 0;
  if (__builtin_mul_overflow(count, atom, &time))
    time = limits::kTime;
  return std::min(time, limits::kTime);
}

static std::string stateAfter(int64_t atoms) { return fmt::format("synthetic job {}\n", atoms); }

Status SyntheticJob::save(const std::string &path, int64_t atoms) {
  if (atoms != done)
    return Status::run(fmt::format("{}: cannot save: {} atoms have run, expected {}", place, done, atoms));
  const std::string state = stateAfter(done);
  const int error = plan::writeInPlace(path, std::span(reinterpret_cast<const uint8_t *>(state.data()), state.size()));
  return error == 0 ? Status{} : Status::run(fmt::format("{}: cannot save: {}: cannot be written", place, path));
}

Status SyntheticJob::load(const std::string &path, int64_t atoms) {
  constexpr int64_t kMost = 4096; // bytes
  std::vector<uint8_t> found;
  const std::string expected = stateAfter(atoms);
  if (!plan::readBytes(path, kMost, found).ok())
    return Status::run(fmt::format("{}: cannot load: {}: cannot be read", place, path));
  if (!std::ranges::equal(found, expected))
    return Status::run(
        fmt::format("{}: cannot load: {}: is not the state of a synthetic job after {} atoms", place, path, atoms));
  done = atoms;
  return {};
}

} // namespace pipec::runtime
