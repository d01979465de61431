// Messages between clients of the control socket and a run. A process may send Swap and Stop too.
#pragma once

#include "runtime/launch/messages/Kind.h"

namespace pipec::runtime::messages {

struct Swap {
  std::string variant; // index or name
  static constexpr Kind kind{"swap", kSmall, ToController | ToRun};
  static constexpr auto fields = std::tuple(Field{"variant", &Swap::variant});
};

struct Stop {
  std::optional<std::string> why; // RunResult::ended
  static constexpr Kind kind{"stop", kSmall, ToController | ToRun};
  static constexpr auto fields = std::tuple(Field{"why", &Stop::why});
};

// Client to run.

/// A plan to run at once.
struct Load {
  std::string path;
  static constexpr Kind kind{"load", kSmall, ToRun};
  static constexpr auto fields = std::tuple(Field{"path", &Load::path});
};

/// A plan for a run that adapts: its variants may be chosen. `recuts`: the plan runs at once, on stages of its own cut.
struct LoadFor {
  std::string path, name;
  bool recuts = false;
  static constexpr Kind kind{"load_for", kSmall, ToRun};
  static constexpr auto fields =
      std::tuple(Field{"path", &LoadFor::path}, Field{"name", &LoadFor::name}, Field{"recuts", &LoadFor::recuts});
};

struct Adapt {
  std::string mode;
  static constexpr Kind kind{"adapt", kSmall, ToRun};
  static constexpr auto fields = std::tuple(Field{"mode", &Adapt::mode});
};

struct AskStatus {
  static constexpr Kind kind{"status", kSmall, ToRun};
  static constexpr auto fields = std::tuple();
};

struct AskPlan {
  static constexpr Kind kind{"plan", kSmall, ToRun};
  static constexpr auto fields = std::tuple();
};

// Run to client.

struct Done {
  Message answer; // an object
  static constexpr Kind kind{"done", kPlan, ToClient};
  static constexpr auto fields = std::tuple(Field{"answer", &Done::answer});
};

struct Refused {
  int32_t code = 0; // Code
  std::string message;
  static constexpr Kind kind{"refused", kAnswer, ToClient};
  static constexpr auto fields = std::tuple(Field{"code", &Refused::code}, Field{"message", &Refused::message});
};

struct Alive {
  static constexpr Kind kind{"alive", kSmall, ToClient};
  static constexpr auto fields = std::tuple();
};

} // namespace pipec::runtime::messages
