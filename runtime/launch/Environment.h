// Which process of a job this is, from the environment that torchrun, Slurm or Open MPI has set up for it. A value that
// two of them give must be the same in both.
#pragma once

#include "runtime/plan/Status.h"

#include <cstdint>
#include <functional>
#include <string>

namespace pipec::runtime {

struct Environment {
  std::string source; // "torchrun", "Slurm", "Open MPI"
  int32_t rank = 0;
  int32_t world = 0;
  int32_t localRank = 0; // which of this machine's processes
  std::string host;      // of rank 0: a name or an address
  uint16_t port = 0;     // the first one to try there
  std::string job;       // tells this job, and this attempt at it, from others
  std::string jobSource; // where `job` is from: variable names
  int32_t attempt = 0;   // how often the launcher has started all processes before
  bool spread = false;   // over several machines, as far as the launcher says
  bool launched = false; // by a program that stays, not by hand with variables that say so
};

/// The value of an environment variable; null if it is not set.
using Variables = std::function<const char *(const char *name)>;

/// Code::Usage, with what is missing or what disagrees, if these are not a job's processes.
Status readEnvironment(const Variables &variables, Environment &environment);

} // namespace pipec::runtime
