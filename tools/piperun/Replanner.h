// `piperun --replan SPEC`: runs `pipec replan` beside a run, and ends it with the run.
#pragma once

#include "runtime/plan/Status.h"

#include <filesystem>
#include <string>
#include <sys/types.h>

namespace pipec::piperun {

class Replanner {
public:
  /// `verbose`: shows its messages about each round on standard error, else errors alone. `cut`: it may move layers.
  Replanner(bool verbose, bool cut) : verbose(verbose), cut(cut) {}
  ~Replanner(); // ends the process
  Replanner(const Replanner &) = delete;

  /// Finds pipec beside this program, else in PATH (Code::Usage), and lets it check that the spec has the stages of the
  /// plan, on the same ranks. pipec itself prints what is wrong with the spec, on standard error.
  Status check(const std::string &spec, const std::string &plan);
  /// Makes a path for a control socket that nobody else knows; it is removed with this object (Code::Run).
  Status makeSocket(std::string &path);
  /// Starts the process. It asks the run at the socket until the run ends.
  Status start(const std::string &control);
  /// To call now and then: logs once if the process has ended. The run goes on without it.
  void watch();

private:
  const bool verbose, cut;
  std::string pipec;
  std::string spec;
  std::filesystem::path folder; // of the socket; empty: none
  pid_t child = -1;
};

} // namespace pipec::piperun
