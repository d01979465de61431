// Inquiry finds out why a process waits. The process asks those that it waits for, these ask those that they wait for,
// and so on. Each answers with what it does (Messages.h: Asks, Does), and each answer goes back along the path of the
// question. So a process needs to know only whom it waits for itself, and no process has to lead.
#pragma once

#include "runtime/device/Wait.h"
#include "runtime/launch/Channel.h"

#include <functional>
#include <map>
#include <vector>

namespace pipec::runtime {

/// All functions run on the thread of one io_context. Processes are world ranks, or kController.
class Inquiry {
public:
  struct Owner {
    /// What this process does, and whom it waits for. Inquiry fills in the other fields.
    std::function<messages::Does()> does;
    /// Sends a message towards a process; false: there is no connection.
    std::function<bool(int32_t to, const Encoded &message)> send;
  };
  /// `processes`: the number of processes; messages about others are ignored.
  Inquiry(int32_t self, int32_t processes, Owner owner) : self(self), processes(processes), owner(std::move(owner)) {}

  /// Asks the processes that this one waits for, and forgets earlier answers. `now`: the time for askedAt().
  void begin(const std::vector<int32_t> &whom, int64_t now);
  bool underWay() const { return !asked.empty(); }
  void end() {
    asked.clear();
    answers.clear();
  }

  // Messages from a process, directly or through the controller. `from`: the process that passed the message on.

  void hear(int32_t from, const messages::Asks &asks);
  void hear(int32_t from, const messages::Does &does, int64_t now);

  // The question under way:

  /// By process: when this process first knew that the other must answer.
  const std::map<int32_t, int64_t> &askedAt() const { return asked; }
  /// Answers by process.
  const std::map<int32_t, messages::Does> &answered() const { return answers; }

private:
  /// The last question that began at another process.
  struct Passed {
    int64_t number = 0;
    int32_t from = 0;
    bool answered = false;
  };
  bool is(int32_t process) const { return process >= kController && process < processes; }
  void ask(const messages::Asks &asks) { owner.send(asks.of, messages::encode(asks)); }

  const int32_t self, processes;
  const Owner owner;
  int64_t number = 0;
  std::map<int32_t, int64_t> asked;
  std::map<int32_t, messages::Does> answers;
  std::map<int32_t, Passed> passed; // by origin
};

} // namespace pipec::runtime
