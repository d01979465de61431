// The variables are described in torchrun's documentation ("Environment variables" of torch.distributed.run), srun(1)
// "OUTPUT ENVIRONMENT VARIABLES", and mpirun(1) "Exported environment variables".
#include "runtime/launch/Environment.h"

#include "runtime/plan/Limits.h"

#include <charconv>
#include <fmt/format.h>
#include <vector>

namespace pipec::runtime {

namespace {

struct Names {
  const char *source, *rank, *world, *localRank, *attempt;
};
constexpr Names kSources[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RESTART_COUNT"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", nullptr},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_RESTART_COUNT"},
};

// If the launcher names no port, it is derived from the job, in a range that systems do not hand out by themselves.
constexpr uint16_t kFirstPort = 20'000;
constexpr uint32_t kPorts = 10'000;

Status readNumber(const Variables &variables, const char *name, int64_t least, int64_t most, int64_t &value) {
  const char *text = variables(name);
  std::string_view digits = text ? text : "";
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc() && end == digits.data() + digits.size() && least <= value && value <= most)
    return {};
  return Status::usage(fmt::format("{} is {}, expected a number from {} to {}", name,
                                   text ? fmt::format("\"{}\"", text) : "not set", least, most));
}

/// The first host of Slurm's list: "gpu[03-05,7],other" → "gpu03".
std::string firstHost(const std::string &list) {
  size_t end = list.find_first_of(",[");
  std::string name = list.substr(0, end);
  if (end == std::string::npos || list[end] == ',')
    return name;
  size_t close = list.find(']', end);
  name += list.substr(end + 1, list.find_first_of("-,]", end + 1) - end - 1);
  if (close != std::string::npos)
    name += list.substr(close + 1, list.find(',', close) - close - 1);
  return name;
}

std::string valueOf(const Variables &variables, const char *name) {
  const char *text = variables(name);
  return text ? text : "";
}

/// Reads the numbers that one launcher has set.
Status readSource(const Variables &variables, const Names &names, Environment &found) {
  int64_t rank = 0, world = 0, local = 0, attempt = 0;
  Status status = readNumber(variables, names.world, 1, limits::kRanks, world);
  if (status.ok())
    status = readNumber(variables, names.rank, 0, world - 1, rank);
  if (status.ok() && variables(names.localRank))
    status = readNumber(variables, names.localRank, 0, world - 1, local);
  if (status.ok() && names.attempt && variables(names.attempt))
    status = readNumber(variables, names.attempt, 0, INT32_MAX, attempt);
  found = {names.source, int32_t(rank), int32_t(world), int32_t(local), {}, 0, {}, {}, int32_t(attempt)};
  return status;
}

bool isSpread(const Variables &variables, const Environment &environment) {
  auto [name, onOne] = environment.source == "Slurm" ? std::pair("SLURM_NNODES", std::string("1"))
                       : environment.source == "torchrun"
                           ? std::pair("LOCAL_WORLD_SIZE", valueOf(variables, "WORLD_SIZE"))
                           : std::pair("OMPI_COMM_WORLD_LOCAL_SIZE", valueOf(variables, "OMPI_COMM_WORLD_SIZE"));
  return variables(name) && valueOf(variables, name) != onOne;
}

Status compare(const Variables &variables, const Names &a, const Names &b) {
  for (auto [first, second] : {std::pair(a.rank, b.rank), std::pair(a.world, b.world)})
    if (valueOf(variables, first) != valueOf(variables, second))
      return Status::usage(fmt::format("{} and {} disagree: {} is {}, {} is {}; unset those of the one that did not "
                                       "start this process",
                                       a.source, b.source, first, valueOf(variables, first), second,
                                       valueOf(variables, second)));
  return {};
}

void findJob(const Variables &variables, Environment &environment) {
  std::vector<const char *> names{"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"};
  if (environment.source == "Open MPI")
    names = {"PMIX_NAMESPACE"};
  if (environment.source == "Slurm")
    names = {"SLURM_JOB_ID", "SLURM_STEP_ID"};
  for (const char *name : names)
    if (variables(name)) {
      environment.job += valueOf(variables, name) + "/";
      environment.jobSource += (environment.jobSource.empty() ? "" : " and ") + std::string(name);
    }
}

Status findHost(const Variables &variables, Environment &environment) {
  environment.host = valueOf(variables, "MASTER_ADDR");
  if (environment.host.empty() && environment.source == "Slurm")
    environment.host = firstHost(valueOf(variables, "SLURM_JOB_NODELIST"));
  if (environment.host.empty() && environment.source == "Open MPI" &&
      valueOf(variables, "OMPI_COMM_WORLD_LOCAL_SIZE") == valueOf(variables, "OMPI_COMM_WORLD_SIZE"))
    environment.host = "127.0.0.1"; // all processes are on this machine
  if (environment.host.empty())
    return Status::usage(fmt::format("{} does not say where rank 0 is: set MASTER_ADDR to its host{}",
                                     environment.source,
                                     environment.source == "Open MPI" ? " (mpirun -x MASTER_ADDR=HOST)" : ""));
  return {};
}

Status findPort(const Variables &variables, Environment &environment) {
  if (variables("MASTER_PORT")) {
    int64_t port = 0;
    Status status = readNumber(variables, "MASTER_PORT", 1, UINT16_MAX - 1, port);
    environment.port = uint16_t(port + 1); // torchrun's own store may listen on MASTER_PORT
    return status;
  }
  if (environment.job.empty())
    return Status::usage(fmt::format("{} does not say at which port rank 0 is: set MASTER_PORT", environment.source));
  uint32_t hash = 2166136261u; // FNV-1a, which is the same in all processes of the job
  for (char c : environment.job)
    hash = (hash ^ uint8_t(c)) * 16777619u;
  environment.port = uint16_t(kFirstPort + hash % kPorts);
  return {};
}

} // namespace

Status readEnvironment(const Variables &variables, Environment &environment) {
  const Names *first = nullptr;
  for (const Names &names : kSources) {
    if (!variables(names.rank))
      continue;
    Environment found;
    Status status = readSource(variables, names, found);
    if (status.ok() && first)
      status = compare(variables, *first, names);
    if (!status.ok())
      return status;
    if (!first) {
      first = &names;
      environment = found;
    }
  }
  if (!first)
    return Status::usage("this process was started by none of torchrun (RANK), Open MPI (OMPI_COMM_WORLD_RANK) and "
                         "Slurm (SLURM_PROCID); add --local to start all processes on this machine");
  findJob(variables, environment);
  environment.spread = isSpread(variables, environment);
  environment.launched = environment.source != "torchrun" || variables("TORCHELASTIC_RUN_ID");
  Status status = findHost(variables, environment);
  return status.ok() ? findPort(variables, environment) : status;
}

} // namespace pipec::runtime
