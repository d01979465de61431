// What a host says to the other ranks through the controller, and hears of them: texts, swaps, the report.
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
  // The host's thread.

  Status put(const std::string &key, const std::string &text);
  /// Nothing: none has come by then.
  std::optional<std::string> get(const std::string &key, std::chrono::steady_clock::time_point until);
  /// Waits until all ranks have agreed, or for as long as nothing has failed().
  Status swap(const std::string &variant, int64_t &from);
  /// Asks the controller to end the run. `why`: who asks.
  Status stop(const std::string &why);
  /// Empty: the run has not ended well.
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

  mutable std::mutex mutex; // over all of it
  std::condition_variable changed;
  std::function<void(const runtime::Encoded &)> send; // empty: nobody hears yet, or any more
  std::map<std::string, std::string> texts;
  std::optional<runtime::messages::Swapped> swapped;
  std::string reported;
  bool failed = false;
};

} // namespace pipec::embed
