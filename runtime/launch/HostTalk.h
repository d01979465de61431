// What the program around the runtime (runtime/stage/hosted) says to the other ranks through the controller, and hears
// of them and of it.
#pragma once

#include "runtime/launch/Channel.h"

#include <functional>

namespace pipec::runtime {

class HostTalk {
public:
  virtual ~HostTalk() = default;
  /// `send` sends a message to the controller, from any thread, until close().
  virtual void open(std::function<void(const Message &)> send) = 0;
  virtual void close() = 0;
  /// A text, the answer to a swap, or the finish of the run with its report. From any thread.
  virtual void hear(const Message &message) = 0;
};

} // namespace pipec::runtime
