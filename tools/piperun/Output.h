// What piperun prints: one JSON object, or a table for people.
#pragma once

#include "runtime/launch/Local.h"

#include <string>

namespace pipec::piperun {

/// A run that ended well, and what was predicted of it.
struct Outcome {
  int64_t steps = 0;
  runtime::Pace pace = runtime::Pace::Carry;
  std::string stage;
  plan::Certificate certificate;
  std::vector<plan::Time> measured;
  std::vector<plan::Time> simulated;
  runtime::LocalResult result;
};

std::string toJson(const Outcome &outcome);
std::string toText(const Outcome &outcome);

/// {error, code, file, line, column}; file, line and column are null where the cause is not the plan's file.
std::string failureJson(const Status &status, const std::string &file);

} // namespace pipec::piperun
