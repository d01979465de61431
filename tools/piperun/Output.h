// What piperun prints: one JSON object, or a table for people.
#pragma once

#include "runtime/launch/Local.h"

#include <string>

namespace pipec::piperun {

/// Of what a message about a file says.
struct Place {
  std::string file;
  int line = 0; // 0 where the whole file is meant; 1:1 in JSON
  int column = 0;
};

/// A run that ended well, and what was predicted of it.
struct Outcome {
  std::shared_ptr<const plan::Plan> plan;
  /// Of the first variant, on the plan's network.
  struct {
    plan::Time span = 0, makespan = 0;
  } predicted;
  runtime::Pace pace = runtime::Pace::Carry;
  std::string device, transport, communicator, stage;
  int64_t asked = 0;   // steps
  bool silent = false; // another process prints
  std::vector<plan::Time> measured;
  std::vector<plan::Time> simulated;
  runtime::LocalResult result; // of a run that others have started: result.run alone
  Place wrong;                 // where another file than the plan was refused
};

std::string toJson(const Outcome &outcome);
std::string toText(const Outcome &outcome);

/// What a run said to a command.
std::string answerJson(const runtime::Message &answer);
std::string answerText(const std::string &command, const runtime::Message &answer);

/// {error, code, file, line, column}; file, line and column are null where the cause is no file.
std::string failureJson(const Status &status, const Place &place);

} // namespace pipec::piperun
