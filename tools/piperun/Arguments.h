// piperun's command line (design, section 7).
#pragma once

#include "runtime/launch/Worker.h"

#include <chrono>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace pipec::piperun {

/// The other value of --network: transfers take what the network takes.
inline constexpr const char *kReal = "real";

struct Arguments {
  std::vector<std::string> words; // the plan; after --control PATH also a command
  bool local = false;
  int64_t steps = 10;
  std::string device = "host";
  std::string transport; // empty: not given
  std::string stage = "synthetic";
  std::vector<std::string> jobs; // NAME=LIB.so
  bool noJobs = false;
  std::string emulate; // empty: not given
  std::string trace;
  double deadline = -1;   // seconds; < 0: not given
  double rendezvous = -1; // seconds; < 0: not given
  double idle = 600;
  std::string checkpoint;
  int64_t every = 0;
  bool resume = false;
  bool overwrite = false;
  int64_t restart = 0;
  std::string network; // a scenario's file, or kReal
  std::string control;
  int64_t swapEvery = 0;
  int64_t evaluateEvery = 0;
  std::string adapt; // a mode; empty: not given
  bool cut = false;
  std::string replan; // a spec; empty: not given
  bool noSecret = false;
  bool verbose = false;
  bool quiet = false;
  bool json = false;

  /// load, swap, adapt, status or stop: a request to the run at --control; empty: this is a run.
  std::string command() const;
  const std::string &plan() const { return words.front(); }
  bool adapts() const { return !adapt.empty() || !replan.empty(); }
  /// How long a run may take to answer a request.
  std::chrono::milliseconds patience() const;
};

void define(CLI::App &app, Arguments &arguments);

/// Refuses arguments that contradict each other, and what this build does not have.
Status check(const Arguments &arguments);

/// The options that the processes of the run need. `longest`: the longest predicted step. `options`: has device,
/// transport and network.
runtime::RunOptions optionsOf(const Arguments &arguments, plan::Time longest, runtime::RunOptions options);

} // namespace pipec::piperun
