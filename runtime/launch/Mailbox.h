// Messages of the controller that this process has not looked at yet, in order.
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
  /// A raised failure, which outlives this, ends every wait.
  Mailbox(int32_t rank, Failure &failure);

  /// From any thread.
  void put(Message message);

  /// Waits for the next message, which must be of that type, or the run fails. None if the run has failed.
  std::optional<Message> expect(const std::string &type);

private:
  const int32_t rank;
  Failure &failure;
  std::mutex mutex; // over `messages`
  std::condition_variable arrived;
  std::deque<Message> messages;
};

} // namespace pipec::runtime
