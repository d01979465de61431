// The control socket of a run, a local socket beside the controller that only its owner may use (mode 0600). Through it
// `piperun --control PATH …` asks for a swap, for the status of the run, or for its end. Whatever its clients do, they
// cost the run little: there are at most kClients, with one request each, and descriptors stay for the run itself. A
// client that never reads its answer holds at most 1 MiB. An answer with plans may be longer: all clients that ask for
// the plans share its bytes.
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
  /// One more than kClients, and the oldest that asks for nothing goes; so it is if fewer than kReserved descriptors
  /// would be left, which a checkpoint needs.
  static constexpr size_t kClients = 64;
  static constexpr int kReserved = 16;
  /// Of what waits for a client behind an answer.
  static constexpr uint64_t kBacklog = 1 << 20;
  /// While a request takes longer than that, its client hears again and again that the run is there.
  static constexpr std::chrono::milliseconds kBeat{500};

  /// `io` is the controller's. All outlive the server.
  ControlServer(asio::io_context &io, const ControlSocket &socket, Controller &controller);

private:
  struct Client {
    std::shared_ptr<Channel> channel;
    bool asks = false;       // its request is not answered
    bool unread = false;     // the answer has not left
    bool readsPlans = false; // the answer has the plans
    bool beats = false;      // a message that the run is there has not left
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
  asio::steady_timer pause; // until descriptors may be free again
  asio::steady_timer heart;
  bool beating = false;
  bool warned = false;
  std::optional<asio::thread_pool> writer; // of plans
  bool writing = false;
  std::vector<Asker> wantPlans; // who asked for the plans since those that are being written, or were, were taken
  /// The plans that were written last, and the answer that has them while a client has not read it. There is one such
  /// answer: when the plans have changed, clients that still read it are gone.
  Adaptation::Named plans;
  std::weak_ptr<const messages::Body> said;
};

/// Sends a request to the run at `path` and waits for its answer. The status is the answer's: ok only once all
/// processes have agreed. Code::Run if the run says nothing for as long as `patience`, also where it listens.
/// `answer`: what Done has.
Status askControl(const std::string &path, const Encoded &request, Message &answer, std::chrono::milliseconds patience);

} // namespace pipec::runtime
