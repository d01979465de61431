// Handles standard input, output and error in any state: closed, full, or a pipe without a reader. An exit code says
// how the work went, even if messages about it are lost; only results that cannot be printed are a failure.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string_view>

namespace pipec {

/// To call first in main. Opens closed streams on a file that behaves as closed, so that no file opened later gets
/// their numbers, and with them messages for people. A write to a pipe without a reader becomes an ordinary error.
void guardStandardStreams();

/// Prints on standard error; ignores errors.
void say(std::string_view text);
template <typename... Arguments> void say(fmt::format_string<Arguments...> format, Arguments &&...arguments) {
  say(std::string_view(fmt::format(format, std::forward<Arguments>(arguments)...)));
}

/// Whether everything printed on `output` has been written.
bool outputWritten(std::FILE *output = stdout);

/// Whether `output` may have a reader: it is not closed, and its reader has not left.
bool outputHasReader(std::FILE *output = stdout);

/// Reports that a program's output could not be written, and returns the exit code. If the reader of the output has
/// left, ends the process by SIGPIPE without a message, as other programs do.
int outputFailed(std::string_view program, std::FILE *output = stdout);

/// For a program that runs foreign code: returns the stream for its results. From now on everything that the foreign
/// code prints goes, line by line, to standard error, so that standard output has the results alone.
std::FILE *setOutputAside();

} // namespace pipec
