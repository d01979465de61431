// Doing records what the issuing thread of a process does besides issuing steps, for other threads to read.
#pragma once

#include "runtime/device/Clock.h"
#include "runtime/plan/Plan.h"

#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace pipec::runtime {

class Doing {
public:
  struct What {
    std::string text;     // "saves its state"; for a wait, what has not come: "permit for step 3"
    plan::Time limit = 0; // picoseconds that it may last; 0: no limit
    bool waits = false;   // the thread waits for the controller
    bool patient = false; // Wait::patient
    int64_t since = 0;    // nanoseconds of CLOCK_MONOTONIC
  };

  /// Marks what the thread does during the lifetime of this object. Of nested marks the innermost counts.
  class While {
  public:
    ~While() {
      std::lock_guard lock(doing.mutex);
      doing.stack.pop_back();
    }
    While(const While &) = delete;

  private:
    friend class Doing;
    While(Doing &doing, What what) : doing(doing) {
      what.since = Clock::monotonic();
      std::lock_guard lock(doing.mutex);
      doing.stack.push_back(std::move(what));
    }
    Doing &doing;
  };

  [[nodiscard]] While does(std::string text, plan::Time limit) { return {*this, {std::move(text), limit}}; }
  [[nodiscard]] While awaits(std::string text, bool patient = false) {
    return {*this, {.text = std::move(text), .waits = true, .patient = patient}};
  }

  /// From any thread.
  std::optional<What> look() const {
    std::lock_guard lock(mutex);
    return stack.empty() ? std::nullopt : std::optional(stack.back());
  }

private:
  mutable std::mutex mutex; // over the stack
  std::vector<What> stack;
};

} // namespace pipec::runtime
