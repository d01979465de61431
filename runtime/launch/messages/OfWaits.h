// Messages between processes, and with the controller, that find the cause of a long wait (waits/Inquiry.h).
#pragma once

#include "runtime/launch/messages/Kind.h"

namespace pipec::runtime::messages {

/// "What do you do, and whom do you wait for?" The process `of` answers with Does, and asks the processes that it waits
/// for the same. It passes their answers back to the process that asked. A process other than `of` passes the question
/// on.
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
  int32_t process = 0;       // the process that answers, or kController
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
