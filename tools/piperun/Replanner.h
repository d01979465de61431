// `piperun --replan SPEC`: `pipec replan` beside a run, started with it and ended with it.
#pragma once

#include "runtime/plan/Status.h"

#include <filesystem>
#include <string>
#include <sys/types.h>

namespace pipec::piperun {

class Replanner {
public:
  /// `verbose`: what it says of each round is shown, on standard error; else only what goes wrong. `cut`: it may move
  /// layers.
  Replanner(bool verbose, bool cut) : verbose(verbose), cut(cut) {}
  ~Replanner(); // ends it
  Replanner(const Replanner &) = delete;

  /// Finds pipec beside this program, else in PATH (Code::Usage), and lets it say whether the spec has the stages of
  /// the plan, on the same ranks. What is wrong with the spec it says itself, on standard error.
  Status check(const std::string &spec, const std::string &plan);
  /// A path for a control socket that nobody else knows; it goes with this object (Code::Run).
  Status makeSocket(std::string &path);
  /// Starts it; it asks the run at the socket until that ends.
  Status start(const std::string &control);
  /// Says so, once, if it has ended meanwhile: the run goes on without it. To call now and then.
  void watch();

private:
  const bool verbose, cut;
  std::string pipec;
  std::string spec;
  std::filesystem::path folder; // of the socket; empty: none
  pid_t child = -1;
};

} // namespace pipec::piperun
