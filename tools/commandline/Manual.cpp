// Manual pages, in man(7)'s macros.
#include "tools/commandline/CommandLine.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace pipec {

namespace {

/// A hyphen is a minus to be typed; a line must not begin with a macro's dot or quote.
std::string roff(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (result.empty() || result.back() == '\n'))
      result += "\\&";
    if (c == '-')
      result += "\\-";
    else if (c == '\\')
      result += "\\e";
    else
      result += c;
  }
  return result;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

std::string head(const std::string &name, std::string_view version, std::string_view description) {
  return fmt::format(".TH {} 1 \"\" \"pipec {}\"\n.SH NAME\n{} \\- {}\n", roff(upper(name)), version, roff(name),
                     roff(description));
}

std::string optionText(const CLI::Option &option) {
  const std::string names = option.get_positional() ? option.get_name(true) : option.get_name(false, true);
  const std::string value = !option.get_positional() && option.get_items_expected_max() > 0 ? " \\fIVALUE\\fR" : "";
  return fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", roff(names), value, roff(option.get_description()));
}

std::string optionsText(const CLI::App &app) {
  std::string text;
  for (const bool positional : {true, false}) {
    std::string part;
    for (const CLI::Option *option : app.get_options())
      if (option->get_positional() == positional)
        part += optionText(*option);
    if (!part.empty())
      text += fmt::format(".SH {}\n{}", positional ? "ARGUMENTS" : "OPTIONS", part);
  }
  return text;
}

/// "Examples:" and lines after it become a section.
std::string footerText(const CLI::App &app) {
  const std::string footer = app.get_footer();
  const std::string title = "Examples:\n";
  if (!footer.starts_with(title))
    return footer.empty() ? "" : fmt::format(".SH NOTES\n{}\n", roff(footer));
  return fmt::format(".SH EXAMPLES\n.nf\n{}\n.fi\n", roff(footer.substr(title.size())));
}

} // namespace

std::string manual(const CLI::App &app, const std::string &command, std::string_view version) {
  const std::string program = app.get_name();
  const auto subcommands = app.get_subcommands([](const CLI::App *) { return true; });
  if (command.empty() && !subcommands.empty()) {
    std::string text = head(program, version, app.get_description());
    text += fmt::format(".SH SYNOPSIS\n\\fB{}\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n.SH COMMANDS\n", roff(program));
    for (const CLI::App *each : subcommands)
      text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(each->get_name()), roff(each->get_description()));
    return text + optionsText(app) + footerText(app);
  }
  const CLI::App &each = command.empty() ? app : *app.get_subcommand(command);
  std::string text =
      head(command.empty() ? program : fmt::format("{}-{}", program, command), version, each.get_description());
  text += fmt::format(".SH SYNOPSIS\n\\fB{}{}{}\\fR [\\fIOPTIONS\\fR]", roff(program), command.empty() ? "" : " ",
                      roff(command));
  for (const CLI::Option *option : each.get_options())
    if (option->get_positional())
      text += fmt::format(" {}\\fI{}\\fR{}", option->get_required() ? "" : "[", roff(option->get_name(true)),
                          option->get_required() ? "" : "]");
  text += "\n" + optionsText(each) + footerText(each);
  return command.empty() ? text : text + fmt::format(".SH SEE ALSO\n\\fB{}\\fR(1)\n", roff(program));
}

} // namespace pipec
