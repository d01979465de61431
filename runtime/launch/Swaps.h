// Swaps, one after the other: a plan is read and checked here, all processes are asked to prepare it, and once all have
// agreed the conductor makes it the next epoch's. After a refusal or a missing answer nothing changes; whoever asked is
// told. Everything runs on the thread of the io_context, but for the reading and checking, which have a thread of low
// priority.
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

class Swaps {
public:
  /// What came of a request: its status, and the epoch that it led to.
  using Done = std::function<void(Status, std::optional<Epoch>)>;

  struct Links {
    std::function<void(const Channel::Encoded &)> broadcast; // to all processes
    std::function<void()> advance;                           // a program is ready: see what may be permitted
    std::function<std::string(int32_t rank)> title;
  };
  /// `deadline`: how long processes may take to prepare (0: a minute). `every`: swap to the next variant time and
  /// again.
  Swaps(asio::io_context &io, std::shared_ptr<const plan::Plan> running, Conductor &conductor, plan::Time deadline,
        bool every, Links links);
  ~Swaps();

  /// `variant`: an index or a name. A swap to the running variant succeeds and changes nothing.
  void swap(const std::string &variant, Done done);
  /// The first variant of the plan in a file, which is read once.
  void load(const std::string &path, Done done);

  /// The run has started: swaps may begin.
  void start();
  void answered(int32_t rank, const Message &message);
  /// Called after new permits: looks whether the swap that was ready has begun, or never can.
  void advanced();
  /// The run ends: what is still asked for is refused with `why`.
  void end(const std::string &why);

  const std::map<int64_t, std::shared_ptr<const plan::Plan>> &loaded() const { return plans; }
  const plan::Variant &variant(int64_t program) const;
  /// The variant's name and number, or the loaded plan's file.
  std::string nameOf(int64_t program) const;

private:
  struct Request {
    int64_t program = 0;
    std::string path; // of a plan to load; empty: a variant of the running plan
    Done done;        // none: the schedule's
    bool loading = false;
    std::vector<bool> agreed;
  };
  Status find(const std::string &text, int64_t &variant) const;
  void next();
  void read(const std::string &path);
  void ask(const Channel::Encoded &message);
  void drop(int64_t program);
  void finish(Status status, std::optional<Epoch> epoch = {});
  std::string silent() const;

  asio::io_context &io;
  const std::shared_ptr<const plan::Plan> running;
  Conductor &conductor;
  const std::chrono::nanoseconds patience;
  bool every;
  const Links links;
  asio::steady_timer timer;
  std::optional<asio::thread_pool> reader;
  std::deque<Request> queue; // the first one is under way
  bool busy = false;
  bool started = false;
  std::string over; // why no swap can be; empty: it can
  std::map<int64_t, std::shared_ptr<const plan::Plan>> plans;
  std::map<int64_t, std::string> paths;
  int64_t nextProgram;
};

} // namespace pipec::runtime
