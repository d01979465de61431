// Swaps carries out requests to swap programs, one after the other. A plan from a file is read and checked here first.
// Then all processes are asked to prepare its programs. Once all have agreed, the first of these becomes the program of
// the next epoch, or, if the plan was only offered, its programs may be chosen from then on. A program needs stages of
// its plan's cut. If that is another cut, and layers may move, the processes exchange layers before the epoch begins.
// If a process refuses or does not answer, nothing changes. The requester is told the outcome. Everything runs on the
// thread of the io_context, except reading and checking, which have a thread of low priority.
#pragma once

#include "runtime/launch/Channel.h"
#include "runtime/launch/Conductor.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"

#include <deque>
#include <map>
#include <optional>
#include <string>

namespace pipec::runtime {

/// Plans that were loaded into a run, by the program of their first variant; the other variants are the next programs.
using Loaded = std::map<int64_t, std::shared_ptr<const plan::Plan>>;

/// The variant that runs as `program`: one of the run's own plan, or of one that was loaded.
const plan::Variant &variantOf(const plan::Plan &own, const Loaded &loaded, int64_t program);

/// A change of the cut: the number of layers of each stage before `step` and from `step` on.
struct Recut {
  int64_t step = 0;
  std::vector<int32_t> from, to;
  std::string name; // of the plan that it was done for
};

class Swaps {
public:
  /// Called with the outcome of a request: its status, and the epoch that it led to, if any.
  using Done = std::function<void(Status, std::optional<Epoch>)>;

  struct Links {
    std::function<void(const Encoded &)> broadcast; // sends to all processes
    std::function<void()> advance;                  // a program is ready: hands out the permits that are due
    std::function<std::string(int32_t rank)> title; // Controller::Owner
    /// A plan is ready; its first variant is `program`. True: the plan stays ready when it no longer runs.
    std::function<bool(int64_t program, const std::shared_ptr<const plan::Plan> &)> loaded;
    std::function<void(const Recut &)> recut; // an epoch of another cut has begun
  };
  /// `deadline`: how long processes may take to prepare (0: a minute). `every`: whether to swap to the next variant
  /// again and again, without requests. `stepwise`: whether a permit covers a single step, however short.
  Swaps(asio::io_context &io, std::shared_ptr<const plan::Plan> running, Conductor &conductor, plan::Time deadline,
        bool every, bool stepwise, Links links);
  ~Swaps();

  /// Asks for a swap to a variant of the running plan, by index or name. A swap to the variant that runs succeeds and
  /// changes nothing.
  void swap(const std::string &variant, Done done);
  /// Asks for the same on behalf of a host. Calls `agreed` once: when all processes have agreed, with the first step of
  /// the variant; else with the error. Requests for the same variant share one swap.
  using Agreed = std::function<void(Status, int64_t from)>;
  void agree(const std::string &variant, Agreed agreed);
  /// Asks for a swap to the first variant of the plan in a file.
  void load(const std::string &path, Done done);
  /// Asks that the variants of the plan in a file be made ready, without a swap. `name`: what to call the plan; empty:
  /// the file.
  void offer(const std::string &path, const std::string &name, Done done);
  /// Asks for a swap to the first variant of the plan in a file, which may have another cut. Only if the run's stages
  /// can be saved by layer.
  void recut(const std::string &path, const std::string &name, Done done);
  /// Lets processes forget a loaded plan, unless it runs.
  void drop(int64_t firstProgram);

  /// Whether a request is under way.
  bool underWay() const { return busy; }

  /// To call when the run has started: swaps may begin.
  void start();
  /// To call with a process's `prepared` message.
  void answered(int32_t rank, const messages::Prepared &message);
  /// To call after new permits: looks whether the swap that was ready has taken effect, or never can.
  void advanced();
  /// To call when the run ends: open and later requests are refused with `why`.
  void end(const std::string &why);

  const Loaded &loaded() const { return plans; }
  /// The number of layers of each stage at the first step that is not permitted; empty: unknown.
  const std::vector<int32_t> &cut() const { return held; }
  const std::vector<Recut> &recuts() const { return moves; }
  /// What to call a program in messages: the variant's number and name, or the file of a loaded plan.
  std::string nameOf(int64_t program) const;
  /// How many steps a permit covers under a program (Conductor::Options).
  int64_t aheadOf(int64_t program) const;

private:
  struct Request {
    int64_t program = 0;           // of a plan from a file: the program of its first variant
    std::string path = {};         // of a plan to load
    std::string name = {};         // what to call it
    Done done = {};                // empty: nobody asked, the swap is one of `every`
    bool loading = false;          // whether the program comes from a file
    bool swapping = true;          // whether the program is to run at once
    bool recuts = false;           // whether its cut may be another
    std::vector<bool> agreed = {}; // by rank: whether its process has agreed
    bool ready = false;            // whether all processes have agreed
    std::vector<Agreed> told = {}; // to call once all have agreed
  };
  int64_t holdsFrom() const;
  void giveWay();
  void tell(Request &request, const Status &status, int64_t from);
  Status find(const std::string &text, int64_t &variant) const;
  void next();
  void read(const Request &request);
  void ask(const Encoded &message);
  void leave(int64_t program);
  Status goesWith(const Request &request) const;
  void hold(const Epoch &epoch);
  void finish(Status status, std::optional<Epoch> epoch = {});
  std::string silent() const;

  asio::io_context &io;
  const std::shared_ptr<const plan::Plan> running;
  Conductor &conductor;
  const std::chrono::nanoseconds patience; // how long processes may take to prepare
  bool every;
  const bool stepwise;
  const Links links;
  asio::steady_timer timer;
  std::optional<asio::thread_pool> reader;
  std::deque<Request> queue;
  bool busy = false; // whether the first request is under way
  bool started = false;
  std::string over; // why there are no more swaps; empty: there may be
  Loaded plans;
  std::map<int64_t, std::string> names; // of loaded plans
  std::map<int64_t, bool> stays;        // of loaded plans: what Links::loaded returned
  std::vector<int32_t> held;            // cut()
  std::vector<Recut> moves;
  int64_t nextProgram; // of the next plan from a file; variants of the running plan come before
};

} // namespace pipec::runtime
