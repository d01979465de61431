// Watch ends the run if a process waits in vain. Once a wait has lasted longer than the deadline, the processes that
// can end the wait are asked (Inquiry.h). If one of them does not answer, or has done one thing for longer than its
// limit, the run ends with a message that names the process. Else the wait goes on, and now and then a log line says
// what is waited for.
#pragma once

#include "runtime/device/Wait.h"
#include "runtime/launch/waits/Inquiry.h"
#include "runtime/launch/waits/OwnTime.h"
#include "runtime/plan/Plan.h"

#include <asio.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace pipec::runtime {

/// All functions but start() and rest() run on the thread of `io`.
class Watch {
public:
  struct Owner {
    /// What this process waits for now.
    std::function<std::vector<Wait>()> waits;
    /// The run must end, for this reason.
    std::function<void(std::string why)> late;
    // Without these three functions no process is asked.
    std::function<messages::Does()> does;                         // Inquiry::Owner
    std::function<bool(int32_t to, const Encoded &message)> send; // Inquiry::Owner
    std::function<std::string(int32_t process)> title = {};       // "rank 0 at first"
  };
  /// The process that watches.
  struct Self {
    int32_t process = 0;   // a world rank, or kController
    int32_t processes = 1; // how many there are
    std::string name;      // "rank 3"
  };
  /// `deadline`: picoseconds; 0: waits have no limit. Destroy this object only when `io` runs nothing more.
  Watch(asio::io_context &io, Self self, plan::Time deadline, Owner owner);

  /// From any thread.
  void start();
  /// Ends the watch: from now on nothing is late. This process still answers. From any thread.
  void rest();

  void hear(int32_t from, const messages::Asks &asks) { inquiry.hear(from, asks); }
  void hear(int32_t from, const messages::Does &does);

  /// For how many nanoseconds this process has run since then, an instant of CLOCK_MONOTONIC.
  int64_t ran(int64_t since) const;

private:
  void arm();
  void look();
  void judge(const Wait &over, const std::vector<Wait> &waits);
  const Wait *overdue(const std::vector<Wait> &waits) const;
  void say(const messages::Does &does, int64_t now);
  std::string textOf(const messages::Does &does) const;

  const Self self;
  const int64_t deadline; // nanoseconds
  const Owner owner;
  asio::steady_timer timer;
  OwnTime own;
  Inquiry inquiry;
  int64_t due = 0;       // when the next look is, in nanoseconds of CLOCK_MONOTONIC
  int64_t asksAgain = 0; // when the next question is, in nanoseconds of CLOCK_MONOTONIC
  std::string said;      // what the last log line said, and
  int64_t saidAt = 0;
  bool resting = false;
};

} // namespace pipec::runtime
