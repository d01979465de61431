// Sees a run from the meeting of its processes to their reports: hands out the table of endpoints, the start and the
// permits, has plans prepared and swapped in, collects checkpoints and reports, and on the first sign of failure gives
// the others a moment to say what they saw, then ends them. The controller knows processes as channels alone; its owner
// starts them, and ends them by force where that must be. Everything runs on the thread of its io_context.
#pragma once

#include "runtime/launch/Channel.h"
#include "runtime/launch/Checkpoint.h"
#include "runtime/launch/Conductor.h"
#include "runtime/launch/Report.h"
#include "runtime/launch/Swaps.h"
#include "runtime/launch/Worker.h"

#include <chrono>

namespace pipec::runtime {

/// What a run came to.
struct RunResult {
  std::vector<RankReport> ranks; // complete only if the run succeeded
  int64_t first = 0;             // it ran the steps first … end - 1
  int64_t end = 0;
  std::string ended; // what ended it: "done", or who asked for that before it was: "stop", "SIGINT", "SIGTERM"
  std::vector<Epoch> epochs;
  std::map<int64_t, std::shared_ptr<const plan::Plan>> loaded; // programs that were not in the file
  int64_t reached = 0;                                         // steps known to be complete, also of a run that failed
  int64_t checkpoint = -1;                                     // the last manifest's step; -1: none was written
  std::vector<trace::Event> covered; // with a trace: what the ranks did up to that checkpoint and do not report again
  int64_t startedAt = 0;             // nanoseconds of CLOCK_MONOTONIC; 0: it never did

  /// The variant that a program of this run is.
  const plan::Variant &variant(const plan::Plan &plan, int64_t program) const {
    auto found = loaded.find(program);
    return found == loaded.end() ? plan.variants[size_t(program)] : found->second->variants.front();
  }
};

class Controller {
public:
  struct Setup {
    std::shared_ptr<const plan::Plan> plan;
    RunOptions options;
    int64_t swapEvery = 0; // swaps to the next variant at each step that this divides; 0: never
    std::optional<Manifest> resume;
  };
  struct Owner {
    std::function<void()> started;                  // all have met and were told to start
    std::function<void(int64_t step)> progressed;   // all steps before it are done on the fastest process
    std::function<void(int32_t rank)> end;          // by force: it has not ended in time
    std::function<std::string(int32_t rank)> title; // "rank 2 (pid 17)"
  };
  Controller(asio::io_context &io, const Setup &setup, Owner owner);

  /// The process of a rank is there, at the other end of a channel that is not started. `closed` is called once all
  /// that the process said has been heard, with why the channel closed.
  void join(int32_t rank, std::shared_ptr<Channel> channel, std::function<void(std::string why)> closed);

  /// The process of a rank has ended, or cannot be reached any more, and all that it said has been heard. `cause`: why,
  /// if that was not in order.
  void gone(int32_t rank, const std::string &cause);

  /// Ends the run with an error; `telling` causes are named before others.
  void fail(std::string message, bool telling);

  /// Ends the run in order, as soon as all can end at one step. `why`: as RunResult::ended has it; the first one
  /// counts. `done` is called once all have ended.
  void stop(const std::string &why, std::function<void(Status)> done = {});

  Swaps &swaps() { return *swapper; }
  /// {"step", "steps", "epoch", "variant", …}: what `piperun --control PATH status` prints.
  Message status() const;

  bool failing() const { return !causes.empty(); }
  bool stopping() const { return !stopAsked.empty(); }
  /// The process may end: the run is over, or it has said why it ends.
  bool mayEnd(int32_t rank) const { return finishing || members[size_t(rank)].failed; }
  bool allGone() const;
  /// After all are gone.
  Status outcome() const;
  const RunResult &result() const { return run; }

private:
  struct Member {
    std::shared_ptr<Channel> channel;
    Message endpoint; // null: not listening yet
    bool ready = false;
    bool reported = false;
    bool failed = false; // and said why
    bool gone = false;
  };

  void hear(int32_t rank, const Message &message);
  void listening(Member &member, const Message &message);
  void begin();
  void advance();
  void saved(int32_t rank, const Message &message);
  void reported(int32_t rank, const Message &message);
  void tellStoppers(const Status &status);
  std::string missing() const;
  asio::awaitable<void> awaitMeeting();
  void awaitProgress(const char *what, bool (*done)(const Member &));
  asio::awaitable<void> endOthers();
  void broadcast(const Message &message);
  bool all(bool (*predicate)(const Member &)) const;

  asio::io_context &io;
  const Setup setup;
  const Owner owner;
  RunResult run;
  Conductor conductor;
  std::unique_ptr<Swaps> swapper;
  std::vector<Member> members;
  asio::steady_timer timer; // until the next progress of the whole
  asio::steady_timer graceTimer;
  bool started = false;
  bool finishing = false;
  std::string stopAsked; // why; empty: nobody did
  struct Saved {
    StateFile file;
    std::vector<trace::Event> events;
  };
  std::map<int64_t, std::map<int32_t, Saved>> states; // so far, by step and rank
  std::vector<std::function<void(Status)>> stoppers;  // who asked for the end
  std::vector<std::string> causes;                    // the most telling first
};

} // namespace pipec::runtime
