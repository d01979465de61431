// Messages of the controller, in order, for a thread that waits for the next one.
#pragma once

#include "runtime/device/Failure.h"
#include "runtime/launch/Channel.h"
#include "runtime/launch/waits/Doing.h"

#include <condition_variable>
#include <deque>
#include <fmt/format.h>
#include <mutex>
#include <optional>
#include <variant>

namespace pipec::runtime {

class Mailbox {
public:
  using Mail = std::variant<messages::Table, messages::Offers, messages::Start, messages::Layers, messages::Rest,
                            messages::Finish, messages::Clock>;

  /// Once `failure` is raised, all waits end. `doing` records each wait. Both must outlive the mailbox.
  Mailbox(std::string process, Failure &failure, Doing &doing);

  /// From any thread.
  void put(Mail mail);

  /// Waits for the next message. If the message is not a T, raises the failure. Returns nothing if the run has failed.
  /// `patient`: the wait may last as long as the whole run.
  template <typename T> std::optional<T> expect(bool patient = false) {
    const Doing::While awaits = doing.awaits(fmt::format("message \"{}\"", T::kind.name), patient);
    std::optional<Mail> mail = take();
    if (mail && std::holds_alternative<T>(*mail))
      return std::get<T>(std::move(*mail));
    if (mail)
      raise(*mail, T::kind.name);
    return std::nullopt;
  }

private:
  std::optional<Mail> take();
  void raise(const Mail &came, std::string_view due);

  const std::string process;
  Failure &failure;
  Doing &doing;
  std::mutex mutex; // over `arrivals`
  std::condition_variable arrived;
  std::deque<Mail> arrivals;
};

} // namespace pipec::runtime
