// Streams, a thread each, and events. Work starts at the latest of: the end of what the stream did before, when it was
// issued, and what it waited for; and ends its duration later. A thread sleeps until then, so lateness adds up nowhere.
#pragma once

#include "runtime/device/cuda/CudaFunctions.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

namespace pipec::standin {

/// What an event was recorded as: complete at a time.
struct Record {
  std::atomic<bool> complete{false};
  int64_t time = 0; // once it is complete

  void finish(int64_t at) {
    time = at;
    complete = true;
    complete.notify_all();
  }
};

/// Streams that share a connection: work starts on them in the order in which it was issued.
struct Connection {
  std::atomic<int64_t> issued{0};
  std::atomic<int64_t> started{0};
  int64_t lastStart = 0; // of whoever starts
};

} // namespace pipec::standin

struct CUstream_st {
  /// Does its part at `time`, which it may move on.
  using Work = std::function<void(int64_t &time)>;
  using Recorded = std::shared_ptr<pipec::standin::Record>;

  CUstream_st(int device, pipec::standin::Connection &connection);
  /// `record` is complete after it.
  void put(Work work, Recorded record = nullptr);
  /// The same of what takes its turn: a computation or a copy among the streams of its connection, or among others.
  /// It holds so many of the device's processors from its start to its end.
  void launch(int blocks, Work work) { launch(blocks, std::move(work), connection); }
  void launch(int blocks, Work work, pipec::standin::Connection &among);
  bool idle();
  /// Nothing is put here any more: it goes, at once where it is idle, else once it has done what it has.
  void end();

  const int device;
  std::set<std::thread::id> issuers; // the threads that may put work here

private:
  void run();

  struct Item {
    int64_t issued;
    Work work;
    Recorded record;
  };
  pipec::standin::Connection &connection;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Item> items; // the first is under way
  int64_t time = 0;       // at which it is done with all before; the thread's own
  bool ending = false;    // nobody puts anything here any more
  bool alone = false;     // likewise, and nobody waits for the thread
  std::thread thread;     // as long as the process, unless it is ended
};

struct CUevent_st {
  bool timed = false;
  std::shared_ptr<pipec::standin::Record> last; // none: never recorded
};
