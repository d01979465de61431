// Scripts that complete a command line. bash: one function with a table of words. zsh: _arguments.
#include "tools/commandline/CommandLine.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>

namespace pipec {

namespace {

struct Completed {
  std::vector<std::string> names; // "--emit"; empty for a positional argument
  bool takesValue = false;
  std::vector<std::string> values; // to choose from
  bool isNumber = false;           // takes a number: neither values nor files are completed
  std::string help;
};

/// The parser keeps the values of an option in its type: "TEXT:{auto,always,never}".
std::vector<std::string> valuesOf(const CLI::Option &option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find('{'), close = type.find('}');
  std::vector<std::string> values;
  if (open == std::string::npos || close == std::string::npos)
    return values;
  for (size_t from = open + 1; from < close;) {
    const size_t to = std::min(type.find(',', from), close);
    values.push_back(type.substr(from, to - from));
    from = to + 1;
  }
  return values;
}

std::vector<Completed> completed(const CLI::App &command) {
  std::vector<Completed> all;
  for (const CLI::Option *option : command.get_options()) {
    Completed &one = all.emplace_back();
    for (const std::string &name : option->get_lnames())
      one.names.push_back("--" + name);
    for (const std::string &name : option->get_snames())
      one.names.push_back("-" + name);
    one.takesValue = option->get_items_expected_max() > 0;
    one.values = valuesOf(*option);
    const std::string type = option->get_type_name();
    one.isNumber = type.starts_with("INT") || type.starts_with("FLOAT");
    one.help = option->get_description();
  }
  return all;
}

std::vector<const CLI::App *> commandsOf(const CLI::App &app) {
  return app.get_subcommands([](const CLI::App *) { return true; });
}

/// The words of one command, and what each option's value may be.
std::string bashCase(const CLI::App &command, const Choices &choices, int indent) {
  std::vector<std::string> words, free;
  const std::string space(size_t(indent), ' ');
  std::string values;
  for (const Completed &option : completed(command)) {
    if (option.names.empty()) {
      free.insert(free.end(), option.values.begin(), option.values.end());
      continue;
    }
    words.insert(words.end(), option.names.begin(), option.names.end());
    if (option.takesValue)
      values += fmt::format("{}  {}) values='{}' ;;\n", space, fmt::join(option.names, "|"),
                            option.isNumber         ? "number"
                            : option.values.empty() ? "files"
                                                    : fmt::format("{}", fmt::join(option.values, " ")));
  }
  if (const auto known = choices.find(command.get_name()); known != choices.end())
    free = known->second;
  return fmt::format("{0}words='{1}' free='{2}'\n{0}case $before in\n{3}{0}esac\n", space, fmt::join(words, " "),
                     fmt::join(free, " "), values);
}

std::string bash(const CLI::App &app, const Choices &choices) {
  std::vector<std::string> commands;
  std::string cases;
  for (const CLI::App *command : commandsOf(app)) {
    commands.push_back(command->get_name());
    cases += fmt::format("    {})\n{}      ;;\n", command->get_name(), bashCase(*command, choices, 6));
  }
  const std::string table = commands.empty() ? bashCase(app, choices, 2)
                                             : fmt::format(R"(  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W '{} --help --version' -- "$current")
    return
  fi
  case ${{COMP_WORDS[1]}} in
{}  esac
)",
                                                           fmt::join(commands, " "), cases);
  return fmt::format(R"(# Completes {0} in bash: source <({0} {1}completion bash)
_{0}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} words='' free='' values=''
  # --emit=svg is three words to bash.
  if [[ $current == '=' ]]; then
    current=''
  elif [[ $before == '=' ]]; then
    before=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  COMPREPLY=()
{2}  if [[ $values == number ]]; then
    return
  elif [[ $values == files ]]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  elif [[ -n $values ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$values" -- "$current")
  elif [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  elif [[ -n $free ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$free" -- "$current")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  fi
}}
complete -o filenames -F _{0} {0}
)",
                     app.get_name(), commands.empty() ? "--" : "", table);
}

/// Within single quotes, in a description of _arguments.
std::string zshText(const std::string &text) {
  std::string result;
  for (const char c : text)
    if (c == '\'')
      result += "'\\''";
    else if (c == '[' || c == ']' || c == ':')
      result += fmt::format("\\{}", c);
    else
      result += c;
  return result;
}

std::string zshArguments(const CLI::App &command, const Choices &choices, int indent) {
  const std::string space(size_t(indent), ' ');
  std::string arguments = space + "_arguments";
  int positionals = 0;
  for (const Completed &option : completed(command)) {
    std::vector<std::string> values = option.values;
    if (const auto known = choices.find(command.get_name()); option.names.empty() && known != choices.end())
      values = known->second;
    const std::string value = option.isNumber  ? ""
                              : values.empty() ? "_files"
                                               : fmt::format("({})", fmt::join(values, " "));
    if (option.names.empty())
      arguments += fmt::format(" \\\n{}  '{}:{}:{}'", space, ++positionals, zshText(option.help), value);
    for (const std::string &name : option.names) {
      const bool isLong = name.starts_with("--");
      arguments += fmt::format(" \\\n{}  '*{}{}[{}]{}'", space, name, option.takesValue && isLong ? "=" : "",
                               zshText(option.help), option.takesValue ? fmt::format(":value:{}", value) : "");
    }
  }
  return arguments + "\n";
}

std::string zsh(const CLI::App &app, const Choices &choices) {
  std::string names, cases;
  for (const CLI::App *command : commandsOf(app)) {
    names += fmt::format("    '{}:{}'\n", command->get_name(), zshText(command->get_description()));
    cases += fmt::format("      {})\n{}        ;;\n", command->get_name(), zshArguments(*command, choices, 8));
  }
  const std::string body = names.empty() ? zshArguments(app, choices, 2)
                                         : fmt::format(R"(  local -a commands
  commands=(
{}  )
  if ((CURRENT == 2)); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  ((CURRENT--))
  case $command in
{}  esac
)",
                                                       names, cases);
  return fmt::format(R"(#compdef {0}
# Completes {0} in zsh: source <({0} {1}completion zsh), or save it as _{0} in a folder of $fpath
_{0}() {{
{2}}}
if [[ $funcstack[1] == _{0} ]]; then
  _{0} "$@"
else
  compdef _{0} {0}
fi
)",
                     app.get_name(), names.empty() ? "--" : "", body);
}

} // namespace

std::string completion(const CLI::App &app, std::string_view shell, const Choices &choices) {
  return shell == "zsh" ? zsh(app, choices) : bash(app, choices);
}

} // namespace pipec
