#include "runtime/result/Transfers.h"

#include "runtime/device/Layout.h"
#include "runtime/plan/Layers.h"
#include "runtime/transport/nccl/Communicators.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <set>

namespace pipec::runtime {

namespace {

constexpr int kConnections = 32;    // the most that a process has to a GPU
constexpr int kOfACommunicator = 3; // streams that NCCL makes for itself

std::string valueOf(const char *variable) {
  const char *value = std::getenv(variable);
  return value ? value : "";
}

/// How many GPUs a process may see, as far as can be told without the driver.
int64_t visibleGpus() {
  if (const std::string visible = valueOf("CUDA_VISIBLE_DEVICES"); !visible.empty())
    return 1 + std::count(visible.begin(), visible.end(), ',');
  std::error_code error;
  const std::filesystem::directory_iterator gpus("/proc/driver/nvidia/gpus", error);
  return error ? 0 : std::distance(begin(gpus), end(gpus));
}

/// What CUDA_DEVICE_MAX_CONNECTIONS is, or will be set to.
int64_t connections() {
  const std::string given = valueOf("CUDA_DEVICE_MAX_CONNECTIONS");
  int64_t number = 0;
  const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), number);
  return error == std::errc() && end == given.data() + given.size() && number > 0
             ? std::min<int64_t>(number, kConnections)
             : kConnections;
}

bool isNccl(const RunOptions &options) { return options.device == "cuda" && options.transport == "nccl"; }

/// Whether a rank's transfers all have one queue.
bool sharesQueue(const Layout &layout) {
  return std::count_if(layout.queues.begin(), layout.queues.end(),
                       [](const plan::Queue &queue) { return queue.kind != plan::QueueKind::Device; }) <= 1;
}

Status checkConnections(const plan::Plan &plan, const RunOptions &options) {
  const int64_t most = connections();
  const std::vector<Communicator> communicators = isNccl(options) ? communicatorsOf(plan) : std::vector<Communicator>();
  for (int32_t rank = 0; rank < plan.ranks(); ++rank) {
    const int32_t world = plan.worldOf(rank, 0);
    const Layout layout = layoutOf(plan, world);
    const int64_t joined = std::count_if(communicators.begin(), communicators.end(),
                                         [&](const auto &each) { return each.queuesOf.count(world) > 0; });
    const int64_t streams = int64_t(layout.queues.size()) + kOfACommunicator * joined;
    if (streams > most && !sharesQueue(layout))
      return Status::check(fmt::format(
          "rank {} has {} streams on its GPU{}, which has {} connections (CUDA_DEVICE_MAX_CONNECTIONS, at most {}): "
          "streams that share one wait for each other, and the plan is not proven for that; {}compile it with "
          "communicator: shared",
          rank, streams, joined > 0 ? ", NCCL's own included" : "", most, kConnections,
          most < kConnections ? "unset CUDA_DEVICE_MAX_CONNECTIONS, or " : ""));
  }
  return {};
}

Status checkLaunchOrder(const plan::Plan &plan) {
  simulate::Options inOrder;
  inOrder.launch = simulate::Launch::InOrder;
  for (const plan::Variant &variant : plan.variants) {
    simulate::Result result;
    if (variant.launchOrder)
      continue;
    if (Status status = simulate::simulate(variant, inOrder, result); !status.ok())
      return Status::check("NCCL (--transport=nccl) starts transfers in the order of their issue, in which the plan "
                           "stops; compile it with communicator: launch_order\n" +
                           status.message);
  }
  return {};
}

} // namespace

std::string transportOf(const std::string &device, const std::string &told, int32_t ranks, bool spread) {
  if (device == "host")
    return "sockets";
  if (!told.empty())
    return told;
  return spread || ranks <= visibleGpus() ? "nccl" : "ipc";
}

simulate::Launch launchOf(const RunOptions &options) {
  return isNccl(options) ? simulate::Launch::InOrder : simulate::Launch::InAnyOrder;
}

Status checkTransfers(const plan::Plan &plan, const RunOptions &options) {
  if (options.device == "host")
    return {};
  if (plan.shards() > 1)
    return Status::usage("the plan's ranks have shards, whose sums are not supported on GPUs yet; leave --device=cuda "
                         "away");
  if (plan.variants.front().sharesStages())
    return Status::usage("the plan's stages are on several ranks, whose reshards are not supported on GPUs yet; leave "
                         "--device=cuda away");
  if (isNccl(options) && valueOf("NCCL_LAUNCH_ORDER_IMPLICIT") == "0")
    return Status::usage("--transport=nccl has several communicators on a GPU, for which NCCL vouches only with "
                         "NCCL_LAUNCH_ORDER_IMPLICIT=1; it is 0: unset it");
  if (plan.degree() > 1 && !isNccl(options))
    return Status::usage(
        "--transport=ipc has no collectives between replicas yet; use --transport=nccl, with a GPU for "
        "each process");
  for (const plan::SharedWeight &weight : plan.variants.front().shared)
    if (!isNccl(options) && plan::ranksOf(plan.variants.front(), weight).size() > 1)
      return Status::usage(
          "--transport=ipc has no sums of weights that ranks share yet; use --transport=nccl, with a GPU "
          "for each process");
  Status status = isNccl(options) ? checkLaunchOrder(plan) : Status();
  return status.ok() ? checkConnections(plan, options) : status;
}

std::string communicatorOf(const plan::Plan &plan, const RunOptions &options) {
  if (isNccl(options))
    return "launch_order";
  bool pairs = false, shared = plan.ranks() > 1;
  for (const plan::Program &program : plan.variants.front().programs) {
    std::map<std::pair<int32_t, uint32_t>, std::set<plan::Kind>> kinds; // by peer and queue
    for (const plan::Instruction &i : program.instructions)
      if (const plan::Operation &op = program.operations[i.operation]; plan::sends(op.kind) || plan::receives(op.kind))
        kinds[{op.peer, i.queue}].insert(op.kind);
    pairs = pairs || std::any_of(kinds.begin(), kinds.end(), [](const auto &each) { return each.second.size() > 1; });
    shared = shared && sharesQueue(program);
  }
  return shared ? "shared" : pairs ? "per_pair" : "per_edge";
}

} // namespace pipec::runtime
