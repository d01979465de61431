#include "runtime/launch/Prepare.h"

#include "runtime/plan/Layers.h"
#include "runtime/plan/Load.h"
#include "runtime/plan/TransferBuffers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

namespace pipec::runtime {

void lowerPriority() {
  sched_param none{};
  pthread_setschedparam(pthread_self(), SCHED_IDLE, &none);
}

void yieldToOthers() { setpriority(PRIO_PROCESS, id_t(gettid()), 5); }

Status compareCut(const plan::Variant &variant, const std::vector<int32_t> &held) {
  if (variant.cut.empty() || held.empty() || variant.cut == held)
    return {};
  return Status::check(fmt::format("the plan cuts the layers {}, the one that runs {}: weights do not move",
                                   fmt::join(variant.cut, "-"), fmt::join(held, "-")));
}

/// Compares background jobs, which outlive a swap. A plan must have the jobs of the running plan on the same ranks, or
/// none. Under a plan without jobs they pause.
static Status compareJobs(const plan::Variant &next, const plan::Variant &running) {
  return next.jobs.empty() || plan::runSameJobs(next, running)
             ? Status{}
             : Status::check("the plan has other background jobs than the one that runs, or on other ranks: compile "
                             "it with the same, or with none");
}

/// Checks that both plans have the same stages on the same ranks, since a swap moves no weights.
static Status comparePlacement(const plan::Plan &plan, const plan::Plan &running) {
  if (plan.ranks() != running.ranks())
    return Status::check(
        fmt::format("the plan is of {} ranks, the one that runs of {}", plan.ranks(), running.ranks()));
  if (plan.degree() != running.degree())
    return Status::check(fmt::format("the plan is of {} replicas of each rank, the one that runs of {}", plan.degree(),
                                     running.degree()));
  if (plan.shards() != running.shards())
    return Status::check(
        fmt::format("the plan is of {} shards of each rank, the one that runs of {}", plan.shards(), running.shards()));
  if (plan.variants.front().layers != running.variants.front().layers)
    return Status::check("the plan's layers have other gradients, weights or shards than those of the one that runs: "
                         "weights do not move");
  if (const plan::Variant &own = plan.variants.front(), &held = running.variants.front();
      own.shared != held.shared || (!own.shared.empty() && own.cut != held.cut))
    return Status::check(
        "the plan has other shared weights than the one that runs, or other stages hold them: weights do "
        "not move");
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
  if (plan.variants.front().batch != running.variants.front().batch ||
      plan.variants.front().boundaries != running.variants.front().boundaries)
    return Status::check(
        "the plan has another batch, or samples of other sizes, than the one that runs: the buffers in "
        "which they change ranks stay as they are");
  const int32_t theirs = plan::layersOf(plan.variants.front()), ours = plan::layersOf(running.variants.front());
  if (theirs != ours && theirs != 0 && ours != 0)
    return Status::check(fmt::format("the plan is of {} layers, the one that runs of {}", theirs, ours));
  for (const plan::Variant &variant : plan.variants)
    if (variant.cut != plan.variants.front().cut)
      return Status::check("the plan's variants cut the layers in several ways: weights do not move");
  if (!plan.groups.empty() && plan.groups != running.groups)
    return Status::check("the plan has other groups of ranks for its collectives than the one that runs");
  return {};
}

Status readSuccessor(std::span<const uint8_t> file, const plan::Plan &running, plan::Plan &plan,
                     std::vector<simulate::Result> &proofs) {
  Status status = plan::decode(file, plan);
  if (status.ok())
    status = comparePlacement(plan, running);
  if (status.ok())
    status = compareJobs(plan.variants.front(), running.variants.front());
  if (status.ok())
    status = plan::verify(plan);
  for (size_t v = 0; status.ok() && v < plan.variants.size(); ++v)
    status = simulate::prove(plan.variants[v], proofs.emplace_back());
  return status;
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

Status Prepare::variants(const std::vector<CallPoint> &calls, Made &made) const {
  made.plan = running;
  for (size_t v = 0; v < running->variants.size(); ++v) {
    Status status =
        Executable::make(running, running->variants[v].programs[size_t(rank)], calls.empty() ? CallPoint() : calls[v],
                         layout, memory, made.variants.emplace_back(), &running->variants[v]);
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
    Made made;
    Status status;
    try {
      status = make(task, made);
    } catch (const std::exception &error) { // out of memory
      status = Status::run(fmt::format("rank {}: {}", rank, error.what()));
    }
    task.done(std::move(status), std::move(made));
  }
}

Status Prepare::make(const Task &task, Made &made) {
  auto plan = std::make_shared<plan::Plan>();
  std::vector<simulate::Result> proofs;
  Status status = readSuccessor(task.file, *running, *plan, proofs);
  if (!status.ok())
    return status;
  std::vector<const plan::Program *> programs;
  plan::Bytes most = INT64_MAX; // bytes that all rings may take beside everything else that a variant holds
  for (size_t v = 0; v < plan->variants.size(); ++v) {
    const plan::Variant &variant = plan->variants[v];
    const plan::Program &program = *programs.emplace_back(&variant.programs[size_t(rank)]);
    const plan::Bytes others =
        proofs[v].places[placeIn(layout.place)].peak - plan::Bytes(plan::bufferBytes(variant, program));
    if (const plan::Bytes limit = variant.limitOf(program); limit > 0)
      most = std::min(most, limit - others);
  }
  status = memory.allocate(device, programs, most);
  for (size_t v = 0; status.ok() && v < programs.size(); ++v)
    status = memory.allocate(device, plan->variants[v], *programs[v]);
  for (size_t v = 0; status.ok() && v < programs.size(); ++v)
    status = Executable::make(plan, *programs[v], callPoints(plan->variants[v])[placeIn(layout.place)], layout, memory,
                              made.variants.emplace_back(), &plan->variants[v]);
  made.plan = plan;
  return status;
}

} // namespace pipec::runtime
