// Finds out why a process waits: asks those that it waits for, who ask those that they wait for, until nobody is left.
// Everybody says what it does (Messages.h: Asks, Does); each answer goes back the way that the question came. So no
// process has to know more than whom it waits for itself, and nobody has to lead.
#pragma once

#include "runtime/device/Wait.h"
#include "runtime/launch/Channel.h"

#include <functional>
#include <map>
#include <vector>

namespace pipec::runtime {

/// All on the thread of one io_context. Processes are world ranks, or kController.
class Inquiry {
public:
  struct Owner {
    /// What this process does, and whom it waits for. The rest of the message is filled in.
    std::function<messages::Does()> does;
    /// Sends a message on the way to a process; false: there is none.
    std::function<bool(int32_t to, const Encoded &message)> send;
  };
  /// `processes`: how many there are; others are not heard of.
  Inquiry(int32_t self, int32_t processes, Owner owner) : self(self), processes(processes), owner(std::move(owner)) {}

  /// Asks those that this process waits for. What was answered before is forgotten. `now`: of askedAt().
  void begin(const std::vector<int32_t> &whom, int64_t now);
  bool underWay() const { return !asked.empty(); }
  void end() {
    asked.clear();
    answers.clear();
  }

  // What comes from a process, directly or through the controller. `from`: who said it last.

  void hear(int32_t from, const messages::Asks &asks);
  void hear(int32_t from, const messages::Does &does, int64_t now);

  // Of the question that is under way:

  /// When it was first known that a process must answer.
  const std::map<int32_t, int64_t> &askedAt() const { return asked; }
  /// By process.
  const std::map<int32_t, messages::Does> &answered() const { return answers; }

private:
  /// The last question of somebody else.
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
