// Standard input, output and error as a program may find them: closed, full, or a pipe that nobody reads. An exit code
// says how the work went, whatever becomes of the messages about it; only results that cannot be printed are a failure.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string_view>

namespace pipec {

/// First of all in main. What is closed is as good as closed from then on too, but taken: no file that is opened later
/// gets its number, and with it what was meant for people. A write to a pipe that nobody reads is an error of its own.
void guardStandardStreams();

/// Prints on standard error, as far as that goes.
void say(std::string_view text);
template <typename... Arguments> void say(fmt::format_string<Arguments...> format, Arguments &&...arguments) {
  say(std::string_view(fmt::format(format, std::forward<Arguments>(arguments)...)));
}

/// Whether all that was printed on `output` is written.
bool outputWritten(std::FILE *output = stdout);

/// Whether somebody may read what is printed on `output`: it is not closed, and its reader has not left.
bool outputHasReader(std::FILE *output = stdout);

/// What a program whose output could not be written says, and its exit code. Where the reader of that output has left,
/// it ends by SIGPIPE without a word, as programs do.
int outputFailed(std::string_view program, std::FILE *output = stdout);

/// Where the results of a program go that runs a stranger's code: what that prints from now on, line by line, goes to
/// standard error, so that nothing but the results stands on standard output.
std::FILE *setOutputAside();

} // namespace pipec
