#include "runtime/job/JobFiller.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace pipec::runtime {

using plan::Time;

JobFiller::JobFiller(std::unique_ptr<Job> own, const plan::Job &planned, const Clock &clock, Pace pace)
    : job(std::move(own)), atom(planned.atom), overhead(planned.overhead), name(planned.name), clock(clock),
      carries(pace == Pace::Carry) {}

/// Before anything was measured, as many as planned.
int64_t JobFiller::atomsOf(int64_t planned) const {
  return most == 0 ? planned : std::max<int64_t>(planned * atom / most, 1);
}

bool JobFiller::opens(Time window, const std::vector<Time> &windows) const {
  const size_t open = (windows.size() * size_t(level.load(std::memory_order_relaxed)) + 999) / 1000;
  return open != 0 && window >= windows[open - 1];
}

namespace {

template <typename Times> Time median(const Times &times) {
  std::vector<Time> sorted(times.begin(), times.end());
  const auto middle = sorted.begin() + std::ptrdiff_t(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

} // namespace

void JobFiller::stepped(int64_t step, Time end) {
  constexpr size_t kSolos = 8;
  const Time took = end - std::exchange(lastEnd, end);
  if (std::exchange(lastStep, step) != step - 1)
    return; // the first of a run
  if (!isSolo(step)) {
    filled.push_back(took);
    return;
  }
  solos.push_back(took);
  if (solos.size() > kSolos)
    solos.pop_front();
  if (!filled.empty()) {
    std::lock_guard lock(mutex);
    known = {median(solos), median(filled), known.rounds + 1};
  }
  filled.clear();
}

JobFiller::Paced JobFiller::paces() const {
  std::lock_guard lock(mutex);
  return known;
}

Time JobFiller::next(int64_t atoms) const { return why.empty() ? atoms * atom + overhead : 0; }

Time JobFiller::run(int64_t atoms, Time begin) {
  const int64_t count = atomsOf(atoms);
  const Time really = clock.now(), emulated = carries ? job->emulated(count) : -1;
  const Status status = job->run(done, count, begin);
  if (!status.ok()) {
    why = status.message;
    return std::max(begin, clock.now());
  }
  done += count;
  ++pieceCount;
  const Time took = emulated >= 0 ? emulated : clock.now() - really;
  measure(atoms, count, took);
  if (emulated < 0)
    return std::max(begin, clock.now());
  const Time end = begin + took + overhead;
  clock.sleepUntil(end);
  return end;
}

Status JobFiller::load(const std::string &path, int64_t atoms) {
  Status status = job->load(path, atoms);
  if (status.ok())
    done = atoms;
  return status;
}

void JobFiller::measure(int64_t planned, int64_t ran, Time took) {
  Time &own = slowest[size_t(pieceCount) % kMeasured];
  own = (took + ran - 1) / ran;
  most = *std::max_element(slowest.begin(), slowest.end());
  tooLong = own > planned * atom ? tooLong + 1 : 0;
  if (tooLong == kPatience)
    why = fmt::format("job {} rests: an atom takes {} us, a piece of it may take {} us", name, own / 1'000'000,
                      planned * atom / 1'000'000);
}

} // namespace pipec::runtime
