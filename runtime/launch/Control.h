// The control socket of a run, a local socket beside the controller that only its owner may use (mode 0600). Through it
// `piperun --control PATH …` asks for a swap, for the status of the run, or for its end.
#pragma once

#include "runtime/launch/Controller.h"

#include <optional>
#include <string>

namespace pipec::runtime {

class ControlSocket {
public:
  ControlSocket() = default;
  ~ControlSocket(); // removes the file
  ControlSocket(const ControlSocket &) = delete;

  /// Listens at `path`. Code::Usage if another kind of file is there, or if another run listens there.
  Status open(const std::string &path);
  /// To call in the child after a fork: closes the socket and leaves the file to the parent.
  void closeInChild();
  int descriptor() const { return listening; }

private:
  std::string path;
  int listening = -1;
};

/// Answers requests on the control socket.
class ControlServer {
public:
  /// `io` is the controller's. All outlive the server.
  ControlServer(asio::io_context &io, const ControlSocket &socket, Controller &controller);

private:
  void accept();
  void hear(const std::shared_ptr<Channel> &client, const Message &message);
  void adapt(const std::shared_ptr<Channel> &client, const std::string &name);
  void plans(const std::shared_ptr<Channel> &client);

  asio::local::stream_protocol::acceptor acceptor;
  Controller &controller;
  std::optional<asio::thread_pool> writer; // of plans
};

/// Sends a request to the run at `path` and waits for its answer. The status is the answer's: ok only once all
/// processes have agreed. `answer` becomes the whole message.
Status askControl(const std::string &path, const Message &request, Message &answer);

} // namespace pipec::runtime
