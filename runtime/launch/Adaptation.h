// Lets the decision maker (runtime/adapt) choose what each step of a run is to be. When a step is needed soon and is
// not permitted, all processes are asked what they have measured, the decision is made on a thread of low priority, and
// the swap that it asks for is made ready before the permit is given. A decision that is not there in time changes
// nothing.
#pragma once

#include "runtime/adapt/Decider.h"
#include "runtime/adapt/Measured.h"
#include "runtime/adapt/Profiler.h"
#include "runtime/launch/Channel.h"
#include "runtime/launch/Report.h"
#include "runtime/launch/Swaps.h"

#include <chrono>

namespace pipec::runtime {

class Adaptation {
public:
  enum class Mode { Off, Observe, On, Profile };
  /// "off", "observe", "on", "profile".
  static const char *nameOf(Mode mode);
  static std::optional<Mode> modeOf(const std::string &name);
  static constexpr size_t kMostCandidates = 16;

  /// A change, made or, where the mode is to observe, wished.
  struct Change {
    int64_t step = 0; // the first under it
    adapt::Decision decision;
  };

  /// All outlive this object, which runs on the thread of `io`.
  Adaptation(asio::io_context &io, std::shared_ptr<const plan::Plan> plan, Conductor &conductor, const Swaps &swaps,
             Mode mode, std::function<void(const Encoded &)> broadcast);
  ~Adaptation();

  /// `at`: time 0 of the run, in nanoseconds of CLOCK_MONOTONIC.
  void start(int64_t at) { startedAt = at; }

  /// Whether a decision is to be made before permits are given.
  bool decides() const;
  /// Whether one is being made.
  bool deciding() const { return bool(then); }
  /// Decides about the first step that is not permitted; `done` is called then, or when it is too late for that.
  void decide(std::function<void()> done);
  /// To call with a process's `measured` message.
  void measured(int32_t rank, const messages::Measured &message);

  Mode mode() const { return active; }
  void set(Mode mode) { active = mode; }
  /// Programs that may be chosen from now on: variants of a plan that all processes have ready.
  void add(int64_t firstProgram, std::shared_ptr<const plan::Plan> plan);
  /// The plan that was added first and does not run, by its first program, where there are too many candidates; else
  /// -1.
  int64_t oldest() const;
  void remove(int64_t firstProgram);
  /// From now on the candidates are those of another cut.
  void recut(const Recut &recut);
  using Named = std::vector<std::pair<std::string, std::shared_ptr<const plan::Plan>>>;
  /// Plans whose variants may be chosen, with what they are called; the one that the run began with, or that its cut
  /// was made for, first.
  Named plans() const;

  /// {mode, candidates, decision, switches, estimates, won_ms, decide_us, replans, recuts}
  nlohmann::ordered_json status() const;
  /// Likewise, with `ran` and `decisions`, of a run of these steps.
  nlohmann::ordered_json result(int64_t first, int64_t end) const;
  /// As traces have them.
  const std::vector<trace::Decision> &decisions() const { return marks; }

private:
  struct Candidate {
    int64_t program = 0;
    std::shared_ptr<const plan::Plan> plan;
    size_t variant = 0;
    std::string name;
    bool gone = false; // and no longer chosen
  };
  struct Choice {
    adapt::Decision decision;
    adapt::Estimator estimates;
    plan::Time won = 0;
    int64_t took = 0; // nanoseconds
  };
  plan::Time horizon() const;
  size_t candidateOf(int64_t program) const;
  int64_t programAt(int64_t step) const;
  std::vector<size_t> kept() const;
  std::vector<size_t> present() const;
  adapt::StepReport report();
  void lookBack(adapt::StepReport &report);
  void choose();
  void finish(const Choice &choice, int64_t step);
  void release();
  void mark(trace::Decision decision);
  nlohmann::ordered_json json() const;
  nlohmann::ordered_json json(const Change &change) const;

  asio::io_context &io;
  const std::shared_ptr<const plan::Plan> plan;
  Conductor &conductor;
  const Swaps &swaps;
  const std::function<void(const Encoded &)> broadcast;
  Mode active;
  int64_t startedAt = 0;
  asio::steady_timer timer;
  asio::thread_pool thinker;
  std::vector<Candidate> candidates; // all there ever were; their numbers stay
  bool renewed = false;              // those that may be chosen have changed since the last decision

  // Of what is under way:
  std::function<void()> then; // empty: nothing is, or what is comes too late
  bool thinking = false;      // the decision maker is at work, in time or not
  int64_t round = 0;          // counts the questions
  std::vector<bool> answered; // by rank
  adapt::Measured collected;

  int64_t decided = 0, lastTook = 0; // when the last decision began, and how long it took: nanoseconds
  bool doubted = false;              // it has been said that something measured cannot be
  static constexpr size_t kMostSteps = 64;
  std::map<int64_t, std::map<int32_t, plan::Time>> ends; // of steps, by rank
  int64_t lookedBack = -1;                               // the last step whose time is known
  adapt::Decider decider;                                // the thinker's while that is at work
  adapt::Profiler profiler;
  adapt::Estimator estimates;
  plan::Time won = 0;
  Lateness thought; // how long decisions took
  std::vector<Change> changed;
  std::vector<trace::Decision> marks; // of what has changed
  int64_t switches = 0, replans = 0;
  std::optional<Change> last;
  std::optional<size_t> wished; // by the last decision
};

} // namespace pipec::runtime
