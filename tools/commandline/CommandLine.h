// Makes completion for bash and zsh, and manual pages, from the description of the command line: options, values and
// examples come from the parser, so nothing is written twice.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Validator;
} // namespace CLI

namespace pipec {

/// The values that a command's argument may have, if the parser does not know them.
using Choices = std::map<std::string, std::vector<std::string>, std::less<>>;

/// A script for `shell`, "bash" or "zsh", that completes a program, with or without subcommands.
std::string completion(const CLI::App &app, std::string_view shell, const Choices &choices);

/// For options that name a file: refuses an empty name, which an unset shell variable leaves.
CLI::Validator fileName();

/// A manual page of section 1 as man(7) source: of the whole program if `command` is empty, else of that subcommand,
/// which must exist.
std::string manual(const CLI::App &app, const std::string &command, std::string_view version);

} // namespace pipec
