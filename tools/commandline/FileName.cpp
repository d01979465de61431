// The names of files on a command line.
#include "tools/commandline/CommandLine.h"

#include <CLI/CLI.hpp>

namespace pipec {

CLI::Validator fileName() {
  return {[](std::string &name) { return name.empty() ? "expected a file's name, found an empty one" : std::string(); },
          ""};
}

} // namespace pipec
