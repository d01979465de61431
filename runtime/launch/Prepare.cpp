#include "runtime/launch/Prepare.h"

#include "runtime/plan/Load.h"
#include "runtime/simulate/Simulate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pthread.h>
#include <sched.h>

namespace pipec::runtime {

void lowerPriority() {
  sched_param none{};
  pthread_setschedparam(pthread_self(), SCHED_IDLE, &none);
}

/// Checks that both plans have the same stages on the same ranks, since a swap moves no weights.
static Status comparePlacement(const plan::Plan &plan, const plan::Plan &running) {
  if (plan.ranks() != running.ranks())
    return Status::check(
        fmt::format("the plan is of {} ranks, the one that runs of {}", plan.ranks(), running.ranks()));
  if (plan.variants.front().copies != running.variants.front().copies)
    return Status::check(fmt::format("the plan has {} of each stage, the one that runs {}: weights do not move",
                                     plan.variants.front().copies == 1 ? "one copy" : "two copies",
                                     running.variants.front().copies));
  for (int32_t rank = 0; rank < plan.ranks(); ++rank) {
    const auto &theirs = plan.variants.front().programs[size_t(rank)].stages;
    const auto &ours = running.variants.front().programs[size_t(rank)].stages;
    if (theirs != ours)
      return Status::check(fmt::format("the plan holds stages {} on rank {}, the one that runs {}: weights do not move",
                                       fmt::join(theirs, ", "), rank, fmt::join(ours, ", ")));
  }
  if (!plan.groups.empty() && plan.groups != running.groups)
    return Status::check("the plan has other groups of ranks for its collectives than the one that runs");
  return {};
}

Status readSuccessor(std::span<const uint8_t> file, const plan::Plan &running, plan::Plan &plan) {
  Status status = plan::decode(file, plan);
  if (status.ok())
    status = comparePlacement(plan, running);
  if (status.ok())
    status = plan::verify(plan.variants.front());
  simulate::Result proof;
  return status.ok() ? simulate::prove(plan.variants.front(), proof) : status;
}

Prepare::~Prepare() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
    changed.notify_all();
  }
  if (thread.joinable())
    thread.join();
}

Status Prepare::variants(std::vector<std::shared_ptr<const Executable>> &made) const {
  for (const plan::Variant &variant : running->variants) {
    Status status = Executable::make(running, variant.programs[size_t(rank)], layout, memory, made.emplace_back());
    if (!status.ok())
      return status;
  }
  return {};
}

void Prepare::load(std::vector<uint8_t> file, Done done) {
  std::lock_guard lock(mutex);
  tasks.push_back({std::move(file), std::move(done)});
  changed.notify_all();
  if (!thread.joinable())
    thread = std::thread([this] { work(); });
}

void Prepare::work() {
  lowerPriority();
  while (true) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return stopping || !tasks.empty(); });
    if (stopping)
      return;
    Task task = std::move(tasks.front());
    tasks.pop_front();
    lock.unlock();
    std::shared_ptr<const Executable> made;
    Status status;
    try {
      status = make(task, made);
    } catch (const std::exception &error) { // out of memory
      status = Status::run(fmt::format("rank {}: {}", rank, error.what()));
    }
    task.done(std::move(status), std::move(made));
  }
}

Status Prepare::make(const Task &task, std::shared_ptr<const Executable> &made) const {
  auto plan = std::make_shared<plan::Plan>();
  Status status = readSuccessor(task.file, *running, *plan);
  if (status.ok())
    status = Executable::make(plan, plan->variants.front().programs[size_t(rank)], layout, memory, made);
  return status;
}

} // namespace pipec::runtime
