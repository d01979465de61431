// The control socket of a run is a local socket at the controller that only its owner may use (mode 0600). `piperun
// --control PATH …` uses the socket to ask for a swap, for the status of the run, or for its end. Clients cannot cost
// the run much: at most kClients are connected, each with one request, and kReserved descriptors stay free for the run.
// A client that never reads its answer holds at most 1 MiB. An answer with plans may be longer, but all clients that
// ask for the plans share its bytes.
#pragma once

#include "runtime/launch/Controller.h"

#include <chrono>
#include <list>
#include <optional>
#include <string>
#include <vector>

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
  /// The most clients. If one more connects, or if fewer than kReserved descriptors would stay free, the server closes
  /// the oldest client that has no request under way. A checkpoint needs the reserved descriptors.
  static constexpr size_t kClients = 64;
  static constexpr int kReserved = 16;
  /// The most bytes that may wait for a client behind an answer.
  static constexpr uint64_t kBacklog = 1 << 20;
  /// How often a client that waits for an answer is told that the run is alive.
  static constexpr std::chrono::milliseconds kBeat{500};

  /// `io` is the controller's io_context. All arguments must outlive the server.
  ControlServer(asio::io_context &io, const ControlSocket &socket, Controller &controller);

private:
  struct Client {
    std::shared_ptr<Channel> channel;
    bool asks = false;       // its request has no answer yet
    bool unread = false;     // the answer has not been sent completely
    bool readsPlans = false; // the answer has the plans
    bool beats = false;      // an Alive message has not been sent completely
  };
  using Asker = std::shared_ptr<Client>;

  void accept();
  bool isFull() const;
  bool showOutOldest();
  void admit(int descriptor);
  void hear(const Asker &client, const messages::Swap &request);
  void hear(const Asker &client, const messages::Load &request);
  void hear(const Asker &client, const messages::LoadFor &request);
  void hear(const Asker &client, const messages::Adapt &request);
  void hear(const Asker &client, const messages::AskPlan &request);
  void hear(const Asker &client, const messages::AskStatus &request);
  void hear(const Asker &client, const messages::Stop &request);
  bool begin(const Asker &client);
  void deliver(const Asker &client, const Encoded &said);
  void answer(const Asker &client, Message said) { deliver(client, messages::encode(messages::Done{std::move(said)})); }
  void refuse(const Asker &client, const Status &status);
  void conclude(const Asker &client, const Status &status, const std::optional<Epoch> &epoch);
  void writePlans();
  void deliverPlans(const std::vector<Asker> &asked, const Encoded &all);
  void beat();

  asio::io_context &io;
  asio::local::stream_protocol::acceptor acceptor;
  Controller &controller;
  std::list<Asker> clients; // the oldest first
  asio::steady_timer pause; // before looking again for free descriptors
  asio::steady_timer heart;
  bool beating = false;
  bool warned = false;
  std::optional<asio::thread_pool> writer; // encodes plans
  bool writing = false;
  std::vector<Asker> wantPlans; // clients that asked for the plans after the last encoding of plans began
  /// The plans that were encoded last, and the answer with them as long as some client has not read the answer. There
  /// is only one such answer: if the plans have changed, clients that still read the old answer are dropped.
  Adaptation::Named plans;
  std::weak_ptr<const messages::Body> said;
};

/// Sends a request to the run at `path` and waits for its answer. The status is that of the answer: ok only if all
/// processes have agreed. Code::Run if nothing comes from the run for `patience`, even if it listens. `answer`: the
/// content of Done.
Status askControl(const std::string &path, const Encoded &request, Message &answer, std::chrono::milliseconds patience);

} // namespace pipec::runtime
