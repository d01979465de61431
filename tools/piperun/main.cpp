// piperun runs a plan (design, section 7). Parses the command line, does what it says, and turns the result into output
// and an exit code.
#include "runtime/launch/MessageStream.h"
#include "tools/commandline/Standard.h"
#include "tools/piperun/Run.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <spdlog/spdlog.h>
#include <system_error>
#include <unistd.h>

namespace {

using namespace pipec;

/// The stream for results; a stage library's output goes elsewhere.
std::FILE *results = stdout;

/// Prints results. If that fails, outputWritten() says so.
void print(std::string_view text) { (void)!std::fwrite(text.data(), 1, text.size(), results); }

/// Reports a failure. The exit code says what failed, even if the messages are lost.
int fail(const Status &status, const piperun::Place &place, bool json) {
  bool ofFile = status.code == Code::Input || status.code == Code::Check;
  std::string_view says = status.message;
  if (ofFile && says.starts_with(place.file + ": ")) // added by the function that read the file
    says.remove_prefix(place.file.size() + 2);
  std::string where = place.line == 0 ? place.file : fmt::format("{}:{}:{}", place.file, place.line, place.column);
  runtime::standardError().finish(fmt::format("{}: error: {}\n", ofFile ? where : "piperun", says));
  if (json)
    print(piperun::failureJson(status, place) + "\n");
  if (!outputWritten(results))
    runtime::standardError().finish("piperun: error: cannot write to standard output\n");
  return int(status.code);
}

/// The exit code of a run that ended well. The work of a run is the training: a missing reader of the result is no
/// failure. If there is a reader and the result could not be written (a disk is full), the run has failed. `printed`:
/// there is a result.
int concluded(bool printed) {
  runtime::MessageStream &messages = runtime::standardError();
  if (!printed || outputWritten(results)) {
    messages.finish();
    return 0;
  }
  const bool isRead = outputHasReader(results);
  messages.finish(isRead ? "piperun: error: cannot write to standard output; the run has ended well\n"
                         : "piperun: the run has ended well; nobody reads its result on standard output\n");
  return isRead ? int(Code::Run) : 0;
}

int perform(int argc, char **argv, piperun::Arguments &arguments) {
  CLI::App app("Runs a pipec plan: one process for each rank.", "piperun");
  piperun::define(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &asked) { // --help, --version
    app.exit(asked);
    return outputWritten() ? 0 : outputFailed("piperun");
  } catch (const CLI::ParseError &error) {
    bool json = std::any_of(argv, argv + argc, [](const char *arg) { return std::string_view(arg) == "--json"; });
    return fail(Status::usage(std::string(error.what()) + "; see piperun --help"), {}, json);
  }
  runtime::logToStandardError("piperun");
  spdlog::set_level(arguments.verbose ? spdlog::level::info
                    : arguments.quiet ? spdlog::level::err
                                      : spdlog::level::warn);
  bool asking = !arguments.command().empty();
  std::setvbuf(stdout, nullptr, _IOLBF, 0); // a stage library's output appears at once, and is not lost when it fails
  if (arguments.json && !asking)
    results = setOutputAside();
  piperun::Outcome outcome;
  Status status;
  try {
    status = piperun::check(arguments);
    if (status.ok())
      status = asking ? piperun::ask(arguments) : piperun::run(arguments, outcome);
  } catch (const std::exception &error) { // out of memory, mostly
    status = Status::run(error.what());
  }
  bool printing = status.ok() && !asking && !outcome.silent;
  if (!status.ok()) // for `load`, the file to blame is the one that it names
    return fail(status,
                asking                       ? piperun::Place{std::filesystem::absolute(arguments.words.back())}
                : outcome.wrong.file.empty() ? piperun::Place{arguments.plan()}
                                             : outcome.wrong,
                arguments.json);
  if (printing && arguments.json)
    print(runtime::toJson(outcome) + "\n");
  else if (printing && !arguments.quiet)
    print(piperun::toText(outcome));
  if (!asking)
    return concluded(printing && (arguments.json || !arguments.quiet));
  return outputWritten(results) ? 0 : outputFailed("piperun", results);
}

} // namespace

int main(int argc, char **argv) {
  guardStandardStreams();
  piperun::Arguments arguments;
  int code = 0;
  try {
    code = perform(argc, argv, arguments);
  } catch (const std::system_error &) { // the output does not fit into a buffer and cannot be written
    code = outputFailed("piperun", results);
  }
  if (arguments.local || arguments.words.empty())
    return code;
  std::fflush(nullptr);
  _exit(code); // threads of a run may still use what static destructors destroy
}
