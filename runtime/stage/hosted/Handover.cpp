// One duty at a time.
#include "runtime/stage/hosted/Handover.h"

#include "runtime/plan/Disassemble.h"

#include <fmt/format.h>

namespace pipec::runtime {

void Handover::join(Failure &rank) {
  {
    std::lock_guard lock(joined);
    ofRank = &rank;
  }
  failure.listen([this] {
    std::lock_guard lock(joined); // it does not leave meanwhile
    if (ofRank)
      ofRank->raise(failure.status());
  });
  rank.listen([this, &rank] { fail(rank.status()); });
}

void Handover::leave() {
  {
    std::unique_lock lock(mutex);
    answers.wait(lock, [&] { return current == Duty::Kind::Nothing || closed; });
    device = nullptr;
    enter = nullptr;
    asked.clear(); // whoever wanted to hear of it goes too
  }
  std::lock_guard lock(joined);
  ofRank = nullptr;
}

void Handover::fail(Status status) {
  failure.raise(std::move(status));
  wake();
}

void Handover::wake() {
  std::lock_guard lock(mutex);
  begins.notify_all();
  answers.notify_all();
  bell.ring();
}

void Handover::attach(HostDevice &of, const plan::Place &at, const runtime::Clock &by) {
  std::lock_guard lock(mutex);
  of.setDeviceBell(bell);
  device = &of;
  place = at;
  clock = &by;
}

void Handover::stand(const plan::Place &at, std::function<void()> entering) {
  std::lock_guard lock(mutex);
  place = at;
  enter = std::move(entering);
}

std::string Handover::ask(Duty duty) {
  const auto own = std::make_shared<Asked>(std::move(duty));
  std::unique_lock lock(mutex);
  asked.push_back(own);
  bell.ring();
  answers.wait(lock, [&] { return own->done || failure.raised(); });
  std::erase(asked, own);
  return own->done ? own->error : failure.status().message;
}

void Handover::ask(Duty duty, std::function<void(double)> answered) {
  std::lock_guard lock(mutex);
  asked.push_back(std::make_shared<Asked>(std::move(duty), std::move(answered)));
  bell.ring();
}

bool Handover::awaitStep(int64_t step, const std::function<bool()> &drain,
                         const std::function<bool(int64_t)> &evaluate) {
  for (;;) {
    std::unique_lock lock(mutex);
    awaited = step;
    bell.ring();
    begins.wait(lock,
                [&] { return begun == step || drains || rounds > 0 || (finished && between) || failure.raised(); });
    awaited = -1;
    const bool drainsNow = std::exchange(drains, false);
    const int64_t roundsNow = std::exchange(rounds, 0);
    if ((!drainsNow && roundsNow == 0) || failure.raised())
      return begun == step && !failure.raised();
    lock.unlock();
    if (roundsNow > 0 ? !evaluate(roundsNow) : !drain())
      return false;
  }
}

void Handover::end() {
  std::lock_guard lock(mutex);
  ended = true;
  bell.ring();
}

/// Whoever awaits the next one has seen complete what ends one.
bool Handover::isStepOver() const { return awaited >= 0 && awaited != begun && !drains && rounds == 0; }

/// The headers of pairs are nothing to the host.
bool Handover::takeWork(Duty &duty) {
  for (std::optional<HostWork> work; device && (work = device->next());) {
    start = clock->now();
    label = work->label();
    if (!plan::isHeader(label.operation->kind)) {
      duty = {.kind = Duty::Kind::Work, .label = label, .slots = {work->in(), work->out()}};
      return true;
    }
    device->ended(start, start);
  }
  return false;
}

bool Handover::take(Duty &duty) {
  direct = false;
  if (!asked.empty()) {
    duty = asked.front()->duty;
    label = duty.label;
  } else if (!between && isStepOver())
    duty = {.kind = Duty::Kind::EndOfStep, .step = awaited};
  else if (takeWork(duty))
    direct = true;
  else if (ended)
    duty = {.kind = Duty::Kind::End};
  else
    return false;
  current = duty.kind;
  if (enter)
    enter();
  return true;
}

Duty Handover::next(Clock::time_point until) {
  Duty duty;
  std::unique_lock lock(mutex);
  if (between && !finished && awaited >= 0) {
    between = false;
    begun = awaited;
    begins.notify_all();
  }
  while (!failure.raised() && !take(duty)) {
    lock.unlock();
    const bool late = Clock::now() >= until;
    if (!late)
      bell.waitUntil(until);
    lock.lock();
    if (late)
      break;
  }
  return duty;
}

void Handover::done(const std::string &error, double number) {
  std::unique_lock lock(mutex);
  const Duty::Kind kind = std::exchange(current, Duty::Kind::Nothing);
  answers.notify_all();
  if (kind == Duty::Kind::Nothing || kind == Duty::Kind::End)
    return;
  if (kind == Duty::Kind::EndOfStep) {
    between = true;
    begins.notify_all();
    if (!error.empty()) {
      lock.unlock();
      fail(Status::run(fmt::format("{}: {}", plan::nameOf(place), error)));
    }
    return;
  }
  std::shared_ptr<Asked> answer;
  if (!direct) {
    if (asked.empty() || failure.raised())
      return; // who asked has left
    answer = std::move(asked.front());
    asked.pop_front();
  }
  if (answer && !answer->answered) {
    answer->error = error;
    answer->done = true;
    answers.notify_all();
    return;
  }
  if (!error.empty()) {
    lock.unlock();
    return fail(Status::run(fmt::format("{}: {}", plan::describe(place, *label.operation, label.microbatch), error)));
  }
  if (answer)
    answer->answered(number);
  else if (device)
    device->ended(start, clock->now());
}

void Handover::close() {
  std::lock_guard lock(mutex);
  closed = true;
  answers.notify_all();
}

void Handover::drain() {
  std::lock_guard lock(mutex);
  between = false;
  drains = true;
  begins.notify_all();
}

void Handover::evaluate(int64_t count) {
  std::lock_guard lock(mutex);
  between = false;
  rounds = count;
  begins.notify_all();
}

void Handover::finish() {
  std::lock_guard lock(mutex);
  finished = true;
  begins.notify_all();
}

} // namespace pipec::runtime
