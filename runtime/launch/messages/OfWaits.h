// What processes say to each other, and to the controller, before one of them says that a wait has lasted too long.
#pragma once

#include "runtime/launch/messages/Kind.h"

namespace pipec::runtime::messages {

/// "What do you do, and whom do you wait for?" Whoever is asked answers with Does, and asks those that it waits for the
/// same. What the others answer it passes on to who asked. Where `of` is somebody else, it passes the question on.
struct Asks {
  int32_t origin = 0; // the process that wants to know, or kController
  int64_t number = 0; // of its questions, from 1
  int32_t of = 0;     // the process that is asked, or kController
  static constexpr Kind kind{"asks", kSmall, ToController | ToRank | ToPeer};
  static constexpr auto fields =
      std::tuple(Field{"origin", &Asks::origin}, Field{"number", &Asks::number}, Field{"of", &Asks::of});
};

struct Does {
  int32_t origin = 0; // of the question
  int64_t number = 0;
  int32_t process = 0;       // who does it, or kController
  std::string what;          // "saves its state"; empty: nothing but waiting
  int64_t lasts = 0;         // nanoseconds so far, in which the process ran
  int64_t limit = 0;         // nanoseconds that it may last; 0: no limit
  std::vector<int32_t> whom; // it waits for these processes
  static constexpr Kind kind{"does", kSmall, ToController | ToRank | ToPeer};
  static constexpr auto fields =
      std::tuple(Field{"origin", &Does::origin}, Field{"number", &Does::number}, Field{"process", &Does::process},
                 Field{"what", &Does::what}, Field{"lasts", &Does::lasts}, Field{"limit", &Does::limit},
                 Field{"whom", &Does::whom});
};

} // namespace pipec::runtime::messages
