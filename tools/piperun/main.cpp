// piperun: runs a plan (design, section 7). Parses the command line, does what it says, and maps the result to what is
// printed and the exit code.
#include "tools/commandline/Standard.h"
#include "tools/piperun/Run.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <system_error>
#include <unistd.h>

namespace {

using namespace pipec;

/// What is printed as a result: not what a stage library prints.
std::FILE *results = stdout;

int fail(const Status &status, const piperun::Place &place, bool json) {
  bool ofFile = status.code == Code::Input || status.code == Code::Check;
  std::string_view says = status.message;
  if (ofFile && says.starts_with(place.file + ": ")) // by who read the file
    says.remove_prefix(place.file.size() + 2);
  std::string where = place.line == 0 ? place.file : fmt::format("{}:{}:{}", place.file, place.line, place.column);
  say("{}: error: {}\n", ofFile ? where : "piperun", says);
  if (json)
    fmt::print(results, "{}\n", piperun::failureJson(status, place));
  return outputWritten(results) ? int(status.code) : outputFailed("piperun", results);
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
  spdlog::set_default_logger(spdlog::stderr_color_mt("piperun"));
  spdlog::set_pattern("%n: %v");
  spdlog::set_level(arguments.verbose ? spdlog::level::info
                    : arguments.quiet ? spdlog::level::err
                                      : spdlog::level::warn);
  bool asking = !arguments.command().empty();
  std::setvbuf(stdout, nullptr, _IOLBF, 0); // what a stage library prints is seen when it does, and not lost with it
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
  if (!status.ok()) // what load names is the file in question
    return fail(status,
                asking                       ? piperun::Place{std::filesystem::absolute(arguments.words.back())}
                : outcome.wrong.file.empty() ? piperun::Place{arguments.plan()}
                                             : outcome.wrong,
                arguments.json);
  if (printing && arguments.json)
    fmt::print(results, "{}\n", runtime::toJson(outcome));
  else if (printing && !arguments.quiet)
    fmt::print("{}", piperun::toText(outcome));
  return outputWritten(results) ? 0 : outputFailed("piperun", results);
}

} // namespace

int main(int argc, char **argv) {
  guardStandardStreams();
  piperun::Arguments arguments;
  int code = 0;
  try {
    code = perform(argc, argv, arguments);
  } catch (const std::system_error &) { // what is printed does not fit into a buffer, and nowhere else
    code = outputFailed("piperun", results);
  }
  if (arguments.local || arguments.words.empty())
    return code;
  std::fflush(nullptr);
  _exit(code); // threads of a run may still stand in what static destructors take down
}
