// The subcommands of pipec. Each takes its parsed options and returns the exit code.
#pragma once

#include <string>
#include <vector>

namespace pipec {

/// CommandOptions::variant: the evaluation of the plan's first variant.
inline constexpr int kEvaluate = -2;

struct CommandOptions {
  std::string input, second; // a spec or a plan
  std::string output;        // empty: beside the spec (plan) or standard output (other kinds)
  std::vector<std::string> set;
  std::string emit = "plan";
  std::string name; // schedules NAME
  int rank = -1, variant = -1;
  int columns = 0;           // 0: the terminal's width, else 80; for a figure: pixels
  std::string trace;         // show, explain: trace of a real run of the plan; a pattern: traces of all its processes
  long long step = -1;       // of that run; negative: the last complete step
  std::string network;       // report, show: simulate under this scenario
  long long steps = 10;      // number of steps
  long long tracedSteps = 1; // number of steps in a simulated trace
  bool adapt = false;        // report: decide each step's variant
  bool json = false;
  std::string colour = "auto";
  bool noColour = false;
  std::string communicator; // verify: the communicator of an order file; empty: shared
  std::string sweep;        // search: what to vary; empty: the schedules
  bool exact = false;       // search: with a proof
  std::string time;         // search: its time limit; empty: none, with `exact` 10s
  std::string at;           // explain: the moment; empty: the whole spec
  bool cut = false;         // replan: layers may move
  std::string replan;       // report: the spec from which a simulated run plans anew
  std::string control;      // replan: the socket of a run
  std::string check;        // replan: a plan
  std::string every = "10s", gain = "2%";
  bool once = false, dryRun = false;
  std::string torch; // compile: the release that reads the CSV; empty: the newest
};

/// `--json` of a wrong command line.
void printFailure(const std::string &message, int code);

int compileCommand(const CommandOptions &options);
int reportCommand(const CommandOptions &options);
int showCommand(const CommandOptions &options);
int schedulesCommand(const CommandOptions &options);
int verifyCommand(const CommandOptions &options);
int disasmCommand(const CommandOptions &options);
int explainCommand(const CommandOptions &options);
int searchCommand(const CommandOptions &options);
int replanCommand(const CommandOptions &options);

} // namespace pipec
