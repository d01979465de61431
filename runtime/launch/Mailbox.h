// Messages of the controller, in order, for a thread that waits for the next one.
#pragma once

#include "runtime/device/Failure.h"
#include "runtime/launch/Channel.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

namespace pipec::runtime {

class Mailbox {
public:
  /// Once `failure` is raised, all waits end. It outlives the mailbox.
  Mailbox(std::string process, Failure &failure);

  /// From any thread.
  void put(Message message);

  /// Waits for the next message. If it is of another type, the failure is raised. None if the run has failed.
  std::optional<Message> expect(const std::string &type);

private:
  const std::string process;
  Failure &failure;
  std::mutex mutex; // over `messages`
  std::condition_variable arrived;
  std::deque<Message> messages;
};

} // namespace pipec::runtime
