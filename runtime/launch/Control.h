// The control socket of a run: `piperun --control PATH …` asks it for swaps, for how the run stands, or to end it. A
// local socket that its owner alone may use (mode 0600), beside the controller.
#pragma once

#include "runtime/launch/Controller.h"

#include <string>

namespace pipec::runtime {

class ControlSocket {
public:
  ControlSocket() = default;
  ~ControlSocket(); // removes the file
  ControlSocket(const ControlSocket &) = delete;

  /// Listens at `path`; refused (Code::Usage) if something else stands there, or a run that answers.
  Status open(const std::string &path);
  /// After a fork, in the child, which has no use for it.
  void closeInChild();
  int descriptor() const { return listening; }

private:
  std::string path;
  int listening = -1;
};

class ControlServer {
public:
  /// All outlive the server, which works on the controller's io_context.
  ControlServer(asio::io_context &io, const ControlSocket &socket, Controller &controller);

private:
  void accept();
  void hear(const std::shared_ptr<Channel> &client, const Message &message);

  asio::local::stream_protocol::acceptor acceptor;
  Controller &controller;
};

/// Asks the run at `path` and waits for its answer, which is the command's status: it holds once all processes have
/// agreed. `answer` is what the run says beside.
Status askControl(const std::string &path, const Message &request, Message &answer);

} // namespace pipec::runtime
