// What is made from the command line's own description: completion for bash and zsh, and manual pages. Nothing is said
// twice: options, values and examples come from the parser.
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

/// What a command's argument may be, where the parser does not say.
using Choices = std::map<std::string, std::vector<std::string>, std::less<>>;

/// A script for `shell`, "bash" or "zsh", that completes a program, with or without subcommands.
std::string completion(const CLI::App &app, std::string_view shell, const Choices &choices);

/// For options that name a file: refuses an empty name, which an unset shell variable leaves.
CLI::Validator fileName();

/// A page of section 1 as man(7) source: of the whole where `command` is empty, else of a subcommand, which is known.
std::string manual(const CLI::App &app, const std::string &command, std::string_view version);

} // namespace pipec
