// A handover is where the thread of a program that runs a rank in its own process (the host) meets the rank's threads.
// The host's thread asks for its next duty, does it and says so; the runtime never calls the host. Instructions of
// device queues come directly from the device: the host's thread takes the place of the device's thread. On a GPU,
// where instructions are issued one by one, and for duties that are no instruction of a queue, a thread of the rank
// asks and waits for the answer.
#pragma once

#include "runtime/device/Failure.h"
#include "runtime/device/host/HostDevice.h"
#include "runtime/stage/Stage.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace pipec::runtime {

/// What the host is to do.
struct Duty {
  enum class Kind : uint8_t {
    Nothing,   // there is nothing to do yet
    Work,      // an instruction of a stage (plan::isOfStage): label, slots
    Norm,      // answer with the sum of the squares of the rank's gradients
    Clip,      // `number`: the sum over all ranks
    Save,      // to a new file at `path`, after `step` steps
    Load,      // from a file at `path`
    EndOfStep, // between two steps, `step` of which are done; the next question begins another
    End,       // the run has ended
  };
  Kind kind = Kind::Nothing;
  Label label = {};
  StageSlots slots = {}; // Norm and Clip on a GPU: the slot of the number
  void *stream = nullptr;
  double number = 0;
  std::string path = {};
  int64_t step = 0;
};

class Handover {
public:
  using Clock = std::chrono::steady_clock;

  // For the host's thread.

  /// Waits for the next duty until `until`. Nothing: there is none yet, or the run has failed. If the last duty was the
  /// end of a step, this call begins the next step.
  Duty next(Clock::time_point until);
  /// To call when the last duty is done. `error`: what went wrong; empty: nothing. `number`: the answer to Norm.
  void done(const std::string &error, double number);
  /// Between two steps: the host wants no more steps.
  void finish();
  /// Between two steps: asks for the rest of the last step's work, then for its end again.
  void drain();
  /// Between two steps: asks for the rest of the last step's work, then for `rounds` rounds of an evaluation, then for
  /// the end of the step again.
  void evaluate(int64_t rounds);
  /// To call when the host asks for nothing more and is in no duty.
  void close();
  /// Fails the run with a reason. From any thread, also before a rank has joined.
  void fail(Status status);
  /// The failure of the run; ok: it has not failed.
  Status failed() const { return failure.status(); }

  // For the rank's threads.

  /// From now until leave(), a failure of the rank or the host is a failure of both.
  void join(Failure &rank);
  /// Waits until the host is done with its current duty, whose slots belong to the rank.
  void leave();
  /// Lets the host run the queues of `device` in `place`, by its `clock`. Before the device starts.
  void attach(HostDevice &device, const plan::Place &place, const runtime::Clock &clock);
  /// The same for a device that issues instructions one by one. `enter` is called on the host's thread with every duty,
  /// to make the device current on that thread.
  void stand(const plan::Place &place, std::function<void()> enter);
  /// Gives the host a duty and waits until it is done. Returns what went wrong, in the host's words, or that the run
  /// has failed; empty: nothing.
  std::string ask(Duty duty);
  /// Gives the host a duty and returns at once. `answered` gets the host's number on the host's thread. It must be
  /// quick. It is not called once the run has failed, as it has if the host reports an error.
  void ask(Duty duty, std::function<void(double)> answered);
  /// Waits until the host begins `step`. False: the host wants no more steps, or the run has failed. `drain` waits
  /// until all earlier steps have completed; `evaluate` runs rounds of an evaluation. Both return false if the run
  /// failed.
  bool awaitStep(int64_t step, const std::function<bool()> &drain, const std::function<bool(int64_t)> &evaluate);
  /// Tells the host that the run has ended well.
  void end();
  /// Calls `listener` once the run fails, to end a wait of another kind.
  void onFailure(std::function<void()> listener) { failure.listen(std::move(listener)); }

private:
  struct Asked {
    Duty duty;
    std::function<void(double)> answered = {}; // empty: a thread waits for the answer
    bool done = false;
    std::string error = {};
  };
  void wake();
  bool take(Duty &duty);
  bool takeWork(Duty &duty);
  bool isStepOver() const;

  Failure failure;
  std::mutex joined; // guards `ofRank`; locked before `mutex`
  Failure *ofRank = nullptr;
  ParkingBell bell; // of the host's thread

  HostDevice *device = nullptr; // null: instructions come through ask()
  const runtime::Clock *clock = nullptr;
  std::function<void()> enter; // empty: the thread needs nothing
  plan::Place place;

  std::mutex mutex;                         // guards everything below
  std::condition_variable begins;           // a step has begun, or none will
  std::condition_variable answers;          // the host has answered, or leaves
  std::deque<std::shared_ptr<Asked>> asked; // the host has the first one, unless `direct`
  Duty::Kind current = Duty::Kind::Nothing; // the duty that the host has
  bool direct = false;                      // the host's duty comes directly from the device
  Label label;                              // the instruction that the host has
  plan::Time start = 0;
  int64_t awaited = -1; // the step that the rank waits to begin
  int64_t begun = -1;   // the last step that the host has begun
  bool between = false; // whether the host is between two steps
  bool drains = false;  // the rank must wait until everything issued is done
  int64_t rounds = 0;   // rounds of an evaluation that the rank must run; 0: none
  bool finished = false;
  bool closed = false;
  bool ended = false;
};

} // namespace pipec::runtime
