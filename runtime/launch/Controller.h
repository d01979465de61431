// The controller leads a run from the meeting of its processes to their reports. It hands out the table of endpoints,
// the start and the permits, has plans prepared and swapped in, and collects checkpoints and reports. On the first sign
// of failure it gives the other processes a moment to say what they saw, then ends them. It knows processes only as
// channels. Its owner starts the processes, and ends them by force where need be. Everything runs on the thread of its
// io_context.
#pragma once

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/launch/Adaptation.h"
#include "runtime/launch/Channel.h"
#include "runtime/launch/Conductor.h"
#include "runtime/launch/JobLevel.h"
#include "runtime/launch/Report.h"
#include "runtime/launch/Swaps.h"
#include "runtime/launch/Worker.h"
#include "runtime/launch/waits/Watch.h"

#include <chrono>

namespace pipec::runtime {

/// The result of a run.
struct RunResult {
  std::vector<RankReport> ranks; // complete only if the run succeeded
  int64_t first = 0;             // the run had the steps first … end - 1
  int64_t end = 0;
  std::string ended; // "done" after all steps; else who asked for the end: "stop", "SIGINT", "SIGTERM"
  std::vector<Epoch> epochs;
  Loaded loaded;                     // plans that were loaded, by program
  int64_t reached = 0;               // the fastest rank has completed all steps before it, even if the run failed
  int64_t checkpoint = -1;           // the step of the last manifest; -1: none was written
  std::vector<trace::Event> covered; // with a trace: events up to that checkpoint, which are not in `ranks`
  int64_t startedAt = 0;             // nanoseconds of CLOCK_MONOTONIC; 0: the run never started

  nlohmann::ordered_json adapt;           // what Adaptation::result says; null: the run did not adapt
  std::vector<trace::Decision> decisions; // decisions to change the variant or the cut
};

class Controller {
public:
  struct Setup {
    std::shared_ptr<const plan::Plan> plan;
    RunOptions options;
    int64_t swapEvery = 0;                      // swaps to the next variant at each multiple of this step; 0: never
    std::optional<Manifest> resume;             // the checkpoint to begin from
    std::optional<Adaptation::Mode> adapt = {}; // none: the run does not adapt
  };
  /// What the controller calls.
  struct Owner {
    std::function<void()> started;                  // all processes have met and were told to start
    std::function<void(int64_t step)> progressed;   // the fastest process has completed all steps before `step`
    std::function<void(int32_t rank)> end;          // end the process by force: it has not ended in time
    std::function<std::string(int32_t rank)> title; // what to call a rank in messages: "rank 2 (pid 17)"
    std::string leader;                             // the process that has the controller: "rank 0 at first"
    std::function<std::string(const RunResult &)> report = {}; // what all processes are told of a run that ended well
  };
  Controller(asio::io_context &io, const Setup &setup, Owner owner);

  /// Says that the process of a rank is there, at the other end of a channel that is not started. `closed` is called
  /// with the reason why the channel closed, once all that the process said has been heard.
  void join(int32_t rank, std::shared_ptr<Channel> channel, std::function<void(std::string why)> closed);

  /// Says that the process of a rank has ended or is out of reach, and that all it said has been heard. `cause`: what
  /// was wrong; empty: nothing.
  void gone(int32_t rank, const std::string &cause);

  /// Ends the run with an error. A `telling` cause is named before the others.
  void fail(std::string message, bool telling);

  /// Ends the run in order, at the first step at which all can end. `why`: for RunResult::ended; the first call counts.
  /// `done` is called once all ranks have reported or the run has failed.
  void stop(const std::string &why, std::function<void(Status)> done = {});

  Swaps &swaps() { return *swapper; }
  const std::shared_ptr<const plan::Plan> &plan() const { return setup.plan; }
  /// Null if the run does not adapt.
  Adaptation *adaptation() { return adapting.get(); }
  /// {"step", "steps", "epoch", "variant", …}: what `piperun --control PATH status` prints.
  Message status() const;

  bool failing() const { return !causes.empty(); }
  bool stopping() const { return !stopAsked.empty(); }
  /// Whether the end of a process is in order: the run is over, or the process has said why it ends.
  bool mayEnd(int32_t rank) const { return finishing || members[size_t(rank)].failed; }
  bool allGone() const;
  /// All causes of a failure, a line each. Final once allGone().
  Status outcome() const;
  const RunResult &result() const { return run; }
  /// Why the layers stay where they are; empty: they can move.
  const std::string &keepsCut() const { return setup.options.keepsCut; }

private:
  struct Member {
    std::shared_ptr<Channel> channel;
    std::optional<messages::Endpoint> endpoint; // where it listens
    std::optional<Message> offer;               // what others must know about its transport, until all offers are sent
    bool offered = false;
    bool ready = false;
    bool moved = true;  // its layers are saved, or are not asked for
    bool waits = false; // it has nothing to do, and waits for the others
    bool reported = false;
    // With a host (RunOptions::hosting):
    int64_t begun = -1;  // the step that it began last
    int64_t end = -1;    // the step before which it ends; -1: not announced
    bool failed = false; // it has reported a failure
    bool gone = false;
  };

  /// A checkpoint that is not complete.
  struct Saved {
    std::map<int32_t, StateFile> files;                 // by rank or layer
    std::map<int32_t, std::vector<trace::Event>> ranks; // ranks that have saved, with their events up to the checkpoint
    std::map<int32_t, std::vector<OwnedUnits>> owned;   // by rank, with shards
    std::map<int32_t, JobState> jobs;                   // by rank, with background jobs
  };

  // Messages from a process. A message that is wrong at this time is refused, and ends the connection.
  void hear(int32_t rank, const messages::Listening &message);
  void hear(int32_t rank, const messages::Clock &message);
  void hear(int32_t rank, messages::Offer message);
  void hear(int32_t rank, const messages::Ready &message);
  void hear(int32_t rank, const messages::Progress &message);
  void hear(int32_t rank, const messages::Finishes &message);
  void hear(int32_t rank, const messages::Put &message);
  void hear(int32_t rank, const messages::Swap &message);
  void hear(int32_t rank, const messages::Measured &message);
  void hear(int32_t rank, const messages::Paced &message);
  void hear(int32_t rank, const messages::Prepared &message);
  void hear(int32_t rank, const messages::Saved &message);
  void hear(int32_t rank, const messages::Waits &message);
  void hear(int32_t rank, const messages::Report &message);
  void hear(int32_t rank, const messages::Stop &message);
  void hear(int32_t rank, const messages::Failed &message);
  void hear(int32_t rank, const messages::Asks &message) { watch.hear(rank, message); }
  void hear(int32_t rank, const messages::Does &message) { watch.hear(rank, message); }

  Member &memberOf(int32_t rank) { return members[size_t(rank)]; }
  bool refuses(int32_t rank, bool wrong, const char *what);
  bool refusesSaved(int32_t rank, const messages::Saved &message);
  /// Whether `step` can be a number of completed steps of this run. If the run resumes after its last step, `first`
  /// alone can.
  bool isStep(int64_t step) const {
    return started && step >= run.first && step <= std::max(setup.options.steps, run.first);
  }
  void endWaits();
  void begin();
  void begins(int32_t rank, int64_t step);
  bool compareEnds();
  void needed(int64_t step);
  void advance();
  void complete(std::map<int64_t, Saved>::iterator saved, bool ofLayers, bool recuts);
  void tellStoppers(const Status &status);
  std::string missing() const;
  asio::awaitable<void> awaitMeeting();
  void awaitProgress(const char *what, bool (*done)(const Member &));
  std::vector<Wait> waits() const;
  messages::Does does() const;
  bool send(int32_t to, const Encoded &message);
  asio::awaitable<void> endOthers();
  void broadcast(const Encoded &message);
  template <messages::IsMessage T> void broadcast(const T &message) { broadcast(messages::encode(message)); }
  bool all(bool (*predicate)(const Member &)) const;
  bool allJoined() const;

  asio::io_context &io;
  const Setup setup;
  const Owner owner;
  RunResult run;
  Conductor conductor;
  std::unique_ptr<Swaps> swapper;
  std::unique_ptr<Adaptation> adapting;
  std::optional<JobLevel> jobLevel; // where processes run jobs
  int64_t need = 0;                 // the last step for which a process needs a permit soon
  std::vector<Member> members;
  std::vector<Encoded> early; // Text messages, for processes that have not joined yet
  asio::steady_timer timer;   // for the meeting
  /// Something other than steps that all processes must do next.
  struct Awaited {
    const char *what; // "save its layers"
    bool (*done)(const Member &);
    int64_t since; // nanoseconds of CLOCK_MONOTONIC
  };
  std::optional<Awaited> awaited;
  Watch watch;
  asio::steady_timer graceTimer; // after a failure
  bool started = false;
  bool finishing = false;
  std::string stopAsked;                             // why the run is to end; empty: nobody asked for it
  std::map<int64_t, Saved> states;                   // by step
  std::vector<std::function<void(Status)>> stoppers; // to call once the run has ended
  std::vector<std::string> causes;                   // the most telling first
};

} // namespace pipec::runtime
