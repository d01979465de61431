// Messages from a process of a run to the controller.
#pragma once

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/launch/messages/Kind.h"

namespace pipec::runtime::messages {

struct Listening {
  std::string address;
  uint16_t port = 0;
  static constexpr Kind kind{"listening", kSmall, ToController};
  static constexpr auto fields = std::tuple(Field{"address", &Listening::address}, Field{"port", &Listening::port});
};

/// What the other processes must know about this one's transport (Backend::offer).
struct Offer {
  Message offer;
  static constexpr Kind kind{"offer", kText, ToController};
  static constexpr auto fields = std::tuple(Field{"offer", &Offer::offer});
};

struct Ready {
  static constexpr Kind kind{"ready", kSmall, ToController};
  static constexpr auto fields = std::tuple();
};

struct Progress {
  int64_t step = 0;             // all steps before it are complete
  std::optional<int64_t> needs; // the step whose permit is needed soon
  static constexpr Kind kind{"progress", kSmall, ToController};
  static constexpr auto fields = std::tuple(Field{"step", &Progress::step}, Field{"needs", &Progress::needs});
};

struct Saved {
  int64_t step = 0;
  std::vector<std::pair<int32_t, StateFile>> states; // by world rank, or by layer
  bool layers = false;                               // the states are of layers
  bool recuts = false;                               // the process waits for Layers
  std::optional<std::vector<OwnedUnits>> owned;      // where ranks have shards
  std::optional<JobState> job;
  std::optional<Numbers> events; // packEvents(): up to this step
  static constexpr Kind kind{"saved", kEvents, ToController};
  static constexpr auto fields =
      std::tuple(Field{"step", &Saved::step}, Field{"states", &Saved::states}, Field{"layers", &Saved::layers},
                 Field{"recuts", &Saved::recuts}, Field{"owned", &Saved::owned}, Field{"job", &Saved::job},
                 Field{"events", &Saved::events});
};

struct Prepared {
  int64_t program = 0;
  int32_t code = 0; // Code
  std::string message;
  static constexpr Kind kind{"prepared", kText, ToController};
  static constexpr auto fields = std::tuple(Field{"program", &Prepared::program}, Field{"code", &Prepared::code},
                                            Field{"message", &Prepared::message});
};

struct Measured {
  int64_t round = 0;
  Numbers samples; // packSamples()
  Numbers steps;   // a step, then its end, and so on
  static constexpr Kind kind{"measured", kText, ToController};
  static constexpr auto fields = std::tuple(Field{"round", &Measured::round}, Field{"samples", &Measured::samples},
                                            Field{"steps", &Measured::steps});
};

/// Step times of a process with a background job (JobFiller::Paced), in picoseconds.
struct Paced {
  int64_t solo = 0, filled = 0;
  static constexpr Kind kind{"paced", kSmall, ToController};
  static constexpr auto fields = std::tuple(Field{"solo", &Paced::solo}, Field{"filled", &Paced::filled});
};

struct Waits {
  static constexpr Kind kind{"waits", kSmall, ToController};
  static constexpr auto fields = std::tuple();
};

/// A RankReport (Report.h).
struct Report {
  Numbers steps, own, evaluations, lateness, permitWaits;
  std::array<int64_t, 5> job{};
  std::string jobEnded;
  Numbers events;
  static constexpr Kind kind{"report", kEvents, ToController};
  static constexpr auto fields =
      std::tuple(Field{"steps", &Report::steps}, Field{"own", &Report::own}, Field{"evaluations", &Report::evaluations},
                 Field{"lateness", &Report::lateness}, Field{"permit_waits", &Report::permitWaits},
                 Field{"job", &Report::job}, Field{"job_ended", &Report::jobEnded}, Field{"events", &Report::events});
};

struct Failed {
  std::string message;
  static constexpr Kind kind{"failed", kText, ToController};
  static constexpr auto fields = std::tuple(Field{"message", &Failed::message});
};

/// A text from a host to all hosts.
struct Put {
  std::string key, text;
  static constexpr Kind kind{"put", kText, ToController};
  static constexpr auto fields = std::tuple(Field{"key", &Put::key}, Field{"text", &Put::text});
};

/// A host ends before `step`.
struct Finishes {
  int64_t step = 0;
  static constexpr Kind kind{"finishes", kSmall, ToController};
  static constexpr auto fields = std::tuple(Field{"step", &Finishes::step});
};

/// The question what time it is, and the answer: `now`, in nanoseconds of CLOCK_MONOTONIC.
struct Clock {
  std::optional<int64_t> now;
  static constexpr Kind kind{"clock", kSmall, ToController | ToRank};
  static constexpr auto fields = std::tuple(Field{"now", &Clock::now});
};

} // namespace pipec::runtime::messages
