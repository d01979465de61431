// Status reports the errors of the runtime: a code, which is also the exit code of the tools, and a message for the
// user. (The compiler reports errors as MLIR diagnostics.)
#pragma once

#include <string>
#include <utility>

namespace pipec {

/// Exit codes of every tool (design, section 7).
enum class Code : int {
  Ok = 0,    // done
  Input = 1, // a file or value is wrong, damaged, or not what it claims to be
  Usage = 2, // the command line is wrong
  Check = 3, // readable, but must not run: data order, matching, a cycle, memory
  Run = 4,   // the run failed: a peer lost, a device error, a deadline
};

/// Message: lower case, no full stop; what was found, what was expected. Empty when ok.
struct [[nodiscard]] Status {
  Code code = Code::Ok;
  std::string message;

  bool ok() const { return code == Code::Ok; }
  static Status input(std::string message) { return {Code::Input, std::move(message)}; }
  static Status usage(std::string message) { return {Code::Usage, std::move(message)}; }
  static Status check(std::string message) { return {Code::Check, std::move(message)}; }
  static Status run(std::string message) { return {Code::Run, std::move(message)}; }
};

} // namespace pipec
