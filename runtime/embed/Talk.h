// Talk exchanges messages between a host and the other ranks, through the controller: texts, swaps, the report.
#pragma once

#include "runtime/device/Failure.h"
#include "runtime/launch/HostTalk.h"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace pipec::embed {

class Talk final : public runtime::HostTalk {
public:
  // Called by the host's thread.

  Status put(const std::string &key, const std::string &text);
  /// Returns nothing if no text has come by then.
  std::optional<std::string> get(const std::string &key, std::chrono::steady_clock::time_point until);
  /// Waits until all ranks have agreed, or until fail().
  Status swap(const std::string &variant, int64_t &from);
  /// Asks the controller to end the run. `why`: the reason.
  Status stop(const std::string &why);
  /// The report of the run; empty: the run has not ended well.
  std::string report() const;

  /// Ends the waits of swap().
  void fail();

  void open(std::function<void(const runtime::Encoded &)> send) override;
  void close() override;
  void hear(const runtime::messages::Text &text) override;
  void hear(const runtime::messages::Swapped &answer) override;
  void hear(const runtime::messages::Finish &finish) override;

private:
  bool say(const runtime::Encoded &message);

  mutable std::mutex mutex; // guards everything below
  std::condition_variable changed;
  std::function<void(const runtime::Encoded &)> send; // empty: there is no connection yet, or any more
  std::map<std::string, std::string> texts;
  std::optional<runtime::messages::Swapped> swapped;
  std::string reported;
  bool failed = false;
};

} // namespace pipec::embed
