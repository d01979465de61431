// What piperun prints: one JSON object, or a table for people.
#pragma once

#include "runtime/result/Outcome.h"

#include <string>

namespace pipec::piperun {

/// Of what a message about a file says.
struct Place {
  std::string file;
  int line = 0; // 0 where the whole file is meant; 1:1 in JSON
  int column = 0;
};

/// A run that ended well.
struct Outcome : runtime::Outcome {
  bool silent = false; // another process prints
  Place wrong;         // where another file than the plan was refused
};

std::string toText(const Outcome &outcome);

/// What a run said to a command.
std::string answerJson(const runtime::Message &answer);
std::string answerText(const std::string &command, const runtime::Message &answer);

/// {error, code, file, line, column}; file, line and column are null where the cause is no file.
std::string failureJson(const Status &status, const Place &place);

} // namespace pipec::piperun
