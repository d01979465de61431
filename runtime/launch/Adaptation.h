// Lets the decision maker (runtime/adapt) choose the program of each step. When a process will soon need a step that is
// not permitted yet, all processes are asked for their measurements, a thread of low priority decides, and the swap
// that the decision asks for is made ready before the permit is given. A decision that comes too late changes nothing.
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

  /// A swap that the decision maker asked for. In Mode::Observe the swap is recorded and not made.
  struct Change {
    int64_t step = 0; // the first step of the new program
    adapt::Decision decision;
  };

  /// All arguments must outlive this object, which runs on the thread of `io`.
  Adaptation(asio::io_context &io, std::shared_ptr<const plan::Plan> plan, Conductor &conductor, const Swaps &swaps,
             Mode mode, std::function<void(const Encoded &)> broadcast);
  ~Adaptation();

  /// `at`: time 0 of the run, in nanoseconds of CLOCK_MONOTONIC.
  void start(int64_t at) { startedAt = at; }

  /// Whether the next permits wait for a decision.
  bool decides() const;
  /// Whether permits are waiting for a decision.
  bool deciding() const { return bool(then); }
  /// Chooses the program of the first step that is not permitted. Calls `done` after the decision, or once the time for
  /// the decision is over.
  void decide(std::function<void()> done);
  /// To call with a process's `measured` message.
  void measured(int32_t rank, const messages::Measured &message);

  Mode mode() const { return active; }
  void set(Mode mode) { active = mode; }
  /// Adds the variants of a plan to the candidates. All processes have them ready. The variants are the programs from
  /// `firstProgram` on.
  void add(int64_t firstProgram, std::shared_ptr<const plan::Plan> plan);
  /// The plan to drop if there are more than kMostCandidates candidates: of the loaded plans that do not run, the one
  /// that was added first. Returns its first program, or -1.
  int64_t oldest() const;
  void remove(int64_t firstProgram);
  /// To call when layers have moved: from now on only variants of the new cut may be chosen.
  void recut(const Recut &recut);
  using Named = std::vector<std::pair<std::string, std::shared_ptr<const plan::Plan>>>;
  /// The plans whose first variant fits the present cut, each with its name, in the order in which they were added.
  Named plans() const;

  /// {mode, candidates, decision, switches, estimates, won_ms, decide_us, replans, recuts}
  nlohmann::ordered_json status() const;
  /// The fields of status() without `decision`, and `ran` (the candidate of each of the steps [first, end)) and
  /// `decisions` (all changes).
  nlohmann::ordered_json result(int64_t first, int64_t end) const;
  /// The marks for the trace: changes of the program and of the cut.
  const std::vector<trace::Decision> &decisions() const { return marks; }

private:
  struct Candidate {
    int64_t program = 0;
    std::shared_ptr<const plan::Plan> plan;
    size_t variant = 0;
    std::string name;
    bool gone = false; // the plan was removed, and may not be chosen any more
  };
  struct Choice {
    adapt::Decision decision;
    adapt::Estimator estimates;
    plan::Time won = 0;
    int64_t took = 0; // duration of the decision, nanoseconds
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
  std::vector<Candidate> candidates; // all that were ever added, so that an index stays valid
  bool renewed = false;              // the candidates that may be chosen have changed since the last decision

  // The decision under way:
  std::function<void()> then; // lets permits be given; empty: no permit waits for a decision
  bool thinking = false;      // the decision maker runs, in time or too late
  int64_t round = 0;          // number of the last Measure message
  std::vector<bool> answered; // by rank: whether it has answered that message
  adapt::Measured collected;

  int64_t decided = 0, lastTook = 0; // start and duration of the last decision, nanoseconds
  bool doubted = false;              // a warning about impossible measurements was logged
  static constexpr size_t kMostSteps = 64;
  std::map<int64_t, std::map<int32_t, plan::Time>> ends; // by step, then by rank: when the step ended
  int64_t lookedBack = -1;                               // the last step with a known duration
  adapt::Decider decider;                                // used by `thinker` alone while `thinking`
  adapt::Profiler profiler;
  adapt::Estimator estimates;
  plan::Time won = 0;
  Lateness thought; // durations of decisions
  std::vector<Change> changed;
  std::vector<trace::Decision> marks; // changes of the program and of the cut
  int64_t switches = 0, replans = 0;
  std::optional<Change> last;
  std::optional<size_t> wished; // the candidate that the last decision chose
};

} // namespace pipec::runtime
