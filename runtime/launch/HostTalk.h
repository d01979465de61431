// HostTalk passes messages between the program around the runtime (runtime/stage/hosted) and the controller, which
// passes them on to other ranks.
#pragma once

#include "runtime/launch/Channel.h"

#include <functional>

namespace pipec::runtime {

class HostTalk {
public:
  virtual ~HostTalk() = default;
  /// `send` sends a message to the controller, from any thread, until close().
  virtual void open(std::function<void(const Encoded &)> send) = 0;
  virtual void close() = 0;
  // Called from any thread.
  virtual void hear(const messages::Text &text) = 0;
  virtual void hear(const messages::Swapped &answer) = 0;
  virtual void hear(const messages::Finish &finish) = 0;
};

} // namespace pipec::runtime
