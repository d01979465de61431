// Finds which process of a job this is, from the environment variables that torchrun, Slurm or Open MPI has set. Where
// variables of two of them are set, they must agree.
#pragma once

#include "runtime/plan/Status.h"

#include <cstdint>
#include <functional>
#include <string>

namespace pipec::runtime {

struct Environment {
  std::string source; // the launcher: "torchrun", "Slurm", "Open MPI"
  int32_t rank = 0;
  int32_t world = 0;
  int32_t localRank = 0; // its number among the processes on this machine
  std::string host;      // of rank 0: a name or an address
  uint16_t port = 0;     // the first port of rank 0 to try
  std::string job;       // tells this job, and this attempt at it, from others
  std::string jobSource; // the variables that `job` is made of
  int32_t attempt = 0;   // how often the launcher has started all processes before
  bool spread = false;   // whether the job has several machines, as far as the launcher says
  bool launched = false; // whether a launcher runs; false: somebody has set the variables by hand
};

/// The value of an environment variable; null if it is not set.
using Variables = std::function<const char *(const char *name)>;

/// Code::Usage, with what is missing or what disagrees, if the variables do not describe a job.
Status readEnvironment(const Variables &variables, Environment &environment);

} // namespace pipec::runtime
