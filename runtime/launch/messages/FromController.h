// Messages from the controller to a process of a run.
#pragma once

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/launch/messages/Kind.h"

namespace pipec::runtime::messages {

struct Endpoint {
  std::string address;
  uint16_t port = 0;
  static constexpr auto fields = std::tuple(Field{"address", &Endpoint::address}, Field{"port", &Endpoint::port});
};

struct Table {
  int64_t first = 0; // the run's first step
  std::string boot;  // bootId() of the controller's machine
  std::vector<Endpoint> endpoints;
  std::optional<Manifest> checkpoint; // from which the run resumes
  static constexpr Kind kind{"table", kFiles + 512 * kEach, ToRank};
  static constexpr auto fields =
      std::tuple(Field{"first", &Table::first}, Field{"boot", &Table::boot}, Field{"endpoints", &Table::endpoints},
                 Field{"checkpoint", &Table::checkpoint});
};

struct Offers {
  std::vector<Message> offers; // by world rank
  static constexpr Kind kind{"offers", kText *kEach, ToRank};
  static constexpr auto fields = std::tuple(Field{"offers", &Offers::offers});
};

struct Start {
  int64_t at = 0;        // nanoseconds of the controller's CLOCK_MONOTONIC
  int64_t since1970 = 0; // the same instant, in nanoseconds since 1970
  static constexpr Kind kind{"start", kSmall, ToRank};
  static constexpr auto fields = std::tuple(Field{"at", &Start::at}, Field{"since_1970", &Start::since1970});
};

/// A Grant (Conductor.h).
struct Permit {
  int64_t until = 0, epoch = 0, program = 0;
  bool last = false;
  std::optional<int32_t> level; // JobLevel::now()
  static constexpr Kind kind{"permit", kSmall, ToRank};
  static constexpr auto fields =
      std::tuple(Field{"until", &Permit::until}, Field{"epoch", &Permit::epoch}, Field{"program", &Permit::program},
                 Field{"last", &Permit::last}, Field{"level", &Permit::level});
};

struct Prepare {
  int64_t program = 0;
  std::optional<Bytes> plan; // bytes of the plan's file; absent: the processes have the program
  static constexpr Kind kind{"prepare", kPlan, ToRank};
  static constexpr auto fields = std::tuple(Field{"program", &Prepare::program}, Field{"plan", &Prepare::plan});
};

struct Drop {
  int64_t program = 0, count = 0;
  static constexpr Kind kind{"drop", kSmall, ToRank};
  static constexpr auto fields = std::tuple(Field{"program", &Drop::program}, Field{"count", &Drop::count});
};

struct Measure {
  int64_t round = 0;
  static constexpr Kind kind{"measure", kSmall, ToRank};
  static constexpr auto fields = std::tuple(Field{"round", &Measure::round});
};

/// A trace::Decision.
struct Decision {
  int64_t at = 0, step = 0;
  std::string from, to, policy, why;
  static constexpr Kind kind{"decision", kText, ToRank};
  static constexpr auto fields =
      std::tuple(Field{"at", &Decision::at}, Field{"step", &Decision::step}, Field{"from", &Decision::from},
                 Field{"to", &Decision::to}, Field{"policy", &Decision::policy}, Field{"why", &Decision::why});
};

/// All processes have saved their layers: those that wait for layers load theirs.
struct Layers {
  Manifest checkpoint;
  static constexpr Kind kind{"layers", kFiles, ToRank};
  static constexpr auto fields = std::tuple(Field{"checkpoint", &Layers::checkpoint});
};

struct Rest {
  static constexpr Kind kind{"rest", kSmall, ToRank};
  static constexpr auto fields = std::tuple();
};

struct Finish {
  std::optional<std::string> report; // Controller::Owner::report
  static constexpr Kind kind{"finish", kEvents, ToRank};
  static constexpr auto fields = std::tuple(Field{"report", &Finish::report});
};

struct End {
  std::string message;
  static constexpr Kind kind{"end", kText, ToRank};
  static constexpr auto fields = std::tuple(Field{"message", &End::message});
};

struct Text {
  std::string key, text;
  static constexpr Kind kind{"text", kText, ToRank};
  static constexpr auto fields = std::tuple(Field{"key", &Text::key}, Field{"text", &Text::text});
};

/// The answer to a host's Swap.
struct Swapped {
  int32_t code = 0; // Code
  std::string message;
  int64_t from = 0; // the first step of the variant
  static constexpr Kind kind{"swapped", kText, ToRank};
  static constexpr auto fields =
      std::tuple(Field{"code", &Swapped::code}, Field{"message", &Swapped::message}, Field{"from", &Swapped::from});
};

} // namespace pipec::runtime::messages
