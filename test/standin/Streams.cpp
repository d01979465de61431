#include "test/standin/Streams.h"

#include "test/standin/Standin.h"

#include <algorithm>

using namespace pipec::standin;

CUstream_st::CUstream_st(int device, Connection &connection) : device(device), connection(connection) {
  thread = std::thread([this] { run(); });
}

void CUstream_st::end() {
  std::unique_lock lock(mutex);
  ending = true;
  alone = !items.empty();
  if (alone)
    return thread.detach();
  changed.notify_one();
  lock.unlock();
  thread.join();
  delete this;
}

void CUstream_st::put(Work work, Recorded record) {
  std::lock_guard lock(mutex);
  items.push_back({now(), std::move(work), std::move(record)});
  changed.notify_one();
}

namespace {

std::mutex mutex;
auto &changed = *new std::condition_variable; // never destroyed: streams wait for it while the process ends
int held = 0;                                 // processors, by what runs
int64_t given = 0;                            // when some were last given back

} // namespace

void CUstream_st::launch(int blocks, Work work, Connection &among) {
  put([&among, blocks, work = std::move(work), turn = among.issued++](int64_t &at) {
    for (int64_t started = among.started; started != turn; started = among.started)
      among.started.wait(started);
    std::unique_lock lock(::mutex);
    const bool full = held + blocks > settings().processors;
    ::changed.wait(lock, [&] { return held + blocks <= settings().processors; });
    held += blocks;
    at = std::max(at, full ? given : 0);
    lock.unlock();
    at = among.lastStart = std::max(at, among.lastStart);
    among.started = turn + 1;
    among.started.notify_all();
    work(at);
    lock.lock();
    held -= blocks;
    given = std::max(given, at);
    ::changed.notify_all();
  });
}

bool CUstream_st::idle() {
  std::lock_guard lock(mutex);
  return items.empty();
}

void CUstream_st::run() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [&] { return !items.empty() || ending; });
    if (items.empty()) {
      lock.unlock();
      if (alone)
        delete this;
      return;
    }
    Item &item = items.front();
    lock.unlock();
    time = std::max(time, item.issued);
    item.work(time);
    const Recorded record = std::move(item.record);
    lock.lock();
    items.pop_front(); // before anybody can know that it is complete
    if (record)
      record->finish(time);
  }
}
