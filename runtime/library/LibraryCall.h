// Calls a user's library, and turns its error into one line for a message.
#pragma once

#include <exception>
#include <fmt/format.h>
#include <string>

namespace pipec::runtime {

/// The library's error message as one line of printable ASCII, whatever the library wrote.
template <typename Error> std::string textOf(Error &error, int code, const char *what) {
  error.message[sizeof(error.message) - 1] = '\0';
  std::string text = error.message;
  for (char &c : text)
    if (c < ' ' || c > '~')
      c = c == '\n' || c == '\t' ? ' ' : '?';
  while (text.ends_with(' '))
    text.pop_back();
  return text.empty() ? fmt::format("the {} failed with code {} and no message", what, code) : text;
}

/// Calls a function of the library. Returns its message on failure, else an empty text. Catches all exceptions of a C++
/// library. Error: the error struct of its header, which the function takes last. `what`: "stage library".
template <typename Error, typename F, typename... Arguments>
std::string callLibrary(const char *what, const F &function, Arguments... arguments) {
  Error error{};
  try {
    int code = function(arguments..., &error);
    return code == 0 ? std::string() : textOf(error, code, what);
  } catch (const std::exception &thrown) {
    return fmt::format("the {} threw an exception: {}", what, thrown.what());
  } catch (...) {
    return fmt::format("the {} threw an exception", what);
  }
}

} // namespace pipec::runtime
