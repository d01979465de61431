// libnccl.so.2, as far as pipec calls it (runtime/transport/nccl/NcclFunctions.h). Ranks meet in memory that the one
// which made the id shares. A transfer starts when both its ends have, and an end starts once every end that this
// process issued before has: as NCCL does with NCCL_LAUNCH_ORDER_IMPLICIT=1.
#include "runtime/transport/nccl/NcclFunctions.h"
#include "test/standin/Memory.h"
#include "test/standin/Standin.h"
#include "test/standin/Streams.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <linux/futex.h>
#include <map>
#include <set>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

using namespace pipec::standin;
using namespace pipec::runtime::gpu;

namespace {

constexpr int kMostRanks = 64;
constexpr size_t kStaged = size_t(64) << 20; // of one transfer, at a time

/// A count that goes on over the run, with the time at which each of its last eight values came.
struct Word {
  std::atomic<uint64_t> count;
  int64_t times[8];

  void set(uint64_t value, int64_t time) {
    times[value % 8] = time;
    count = value;
    syscall(SYS_futex, &count, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
  }
  /// Until then, or until it is `ended`.
  int64_t wait(uint64_t value, const std::atomic<bool> &ended) {
    constexpr timespec kLook{0, 10'000'000};
    for (uint64_t found; (found = count) < value && !ended;)
      syscall(SYS_futex, &count, FUTEX_WAIT, uint32_t(found), &kLook, nullptr, 0);
    return times[value % 8];
  }
};

/// From one rank to another.
struct Pair {
  Word sending, receiving, staged, taken;
};

struct Board {
  Word joined[kMostRanks];
  Word summing[kMostRanks];
  double numbers[2][kMostRanks];
  Pair pairs[kMostRanks][kMostRanks]; // [from][to]
};
constexpr size_t kBoard = (sizeof(Board) + 4095) / 4096 * 4096;

struct Shared {
  pid_t process;
  int file;
};

std::mutex mutex;
auto &launches = *new std::map<int, std::unique_ptr<Connection>>; // of all communicators, by device; never destroyed
std::thread::id issuer;                                           // while there are communicators

} // namespace

struct ncclComm {
  Board *board = nullptr;
  std::byte *staging = nullptr; // of each pair
  int ranks = 0, rank = 0, blocks = 1;
  size_t bytes = 0; // that are mapped
  int file = -1;    // of who made the id
  uint64_t sums = 0;
  std::atomic<bool> ended{false};
  int underway = 0; // work, under the mutex
  uint64_t sent[kMostRanks]{}, received[kMostRanks]{};
};

namespace {

auto &communicators = *new std::set<ncclComm *>;

/// Under the mutex, once it has ended and none of its work is under way.
void destroy(ncclComm *comm) {
  munmap(comm->board, comm->bytes);
  if (comm->file >= 0)
    close(comm->file);
  delete comm;
}

bool joined(const ncclComm &comm) {
  return std::all_of(comm.board->joined, comm.board->joined + comm.ranks,
                     [](const Word &word) { return word.count > 0; });
}

/// 0: it is not known here.
size_t bytesOf(int type) { return type == kNcclInt8 ? 1 : type == kNcclFloat32 ? 4 : type == kNcclFloat64 ? 8 : 0; }

NcclResult begin(const char *call, ncclComm *comm, CUstream stream, int type, int peer) {
  if (const int error = entered(call))
    return error;
  std::lock_guard lock(mutex);
  if (!communicators.count(comm))
    return refuse(kNcclInvalidArgument, std::string(call) + ": there is no such communicator");
  if (!joined(*comm))
    return refuse(kNcclInvalidUsage, std::string(call) + ": the communicator is not ready");
  if (issuer == std::thread::id())
    issuer = std::this_thread::get_id();
  if (issuer != std::this_thread::get_id())
    return refuse(kNcclInvalidUsage, std::string(call) + ": a second thread issues work");
  if (!stream || bytesOf(type) == 0 || peer < 0 || peer >= comm->ranks)
    return refuse(kNcclInvalidArgument, std::string(call) + ": a stream, type or peer that is not known");
  return kNcclSuccess;
}

/// Work in the order of its launch.
void launch(CUstream stream, ncclComm &comm, CUstream_st::Work work) {
  std::lock_guard lock(mutex);
  ++comm.underway;
  auto &order = launches[stream->device];
  if (!order)
    order = std::make_unique<Connection>();
  stream->launch(
      comm.blocks,
      [&comm, work = std::move(work)](int64_t &time) {
        if (!comm.ended)
          work(time);
        std::lock_guard lock(mutex);
        if (--comm.underway == 0 && comm.ended)
          destroy(&comm);
      },
      *order);
}

std::byte *stagingOf(const ncclComm &comm, int from, int to) {
  return comm.staging + size_t(from * comm.ranks + to) * kStaged;
}

/// One end of a transfer, of a collective too; `n`: its number on the pair.
void putInto(const ncclComm &comm, int to, uint64_t n, const std::byte *data, size_t bytes, int64_t &time) {
  Pair &pair = comm.board->pairs[comm.rank][to];
  pair.sending.set(n, time);
  time = std::max(time, pair.receiving.wait(n, comm.ended));
  std::memcpy(stagingOf(comm, comm.rank, to), data, bytes);
  time += settings().wire(int64_t(bytes));
  pair.staged.set(n, time);
  pair.taken.wait(n, comm.ended); // before the next fills it
}
template <typename Use> void takeFrom(const ncclComm &comm, int from, uint64_t n, int64_t &time, Use use) {
  Pair &pair = comm.board->pairs[from][comm.rank];
  pair.receiving.set(n, time);
  time = std::max(time, pair.staged.wait(n, comm.ended) + settings().latency);
  use(stagingOf(comm, from, comm.rank));
  pair.taken.set(n, time);
}

template <typename T> void addTo(std::byte *to, const std::byte *from, size_t count) {
  for (size_t i = 0; i < count; ++i)
    reinterpret_cast<T *>(to)[i] += reinterpret_cast<const T *>(from)[i];
}

} // namespace

extern "C" {

NcclResult ncclGetVersion(int *version) {
  if (const int error = entered("ncclGetVersion"))
    return error;
  *version = settings().nccl;
  return kNcclSuccess;
}

NcclResult ncclGetUniqueId(NcclId *id) {
  if (const int error = entered("ncclGetUniqueId"))
    return error;
  if (!std::getenv("NCCL_SOCKET_IFNAME"))
    return refuse(kNcclInvalidUsage, "ncclGetUniqueId: NCCL would listen on any network (NCCL_SOCKET_IFNAME)");
  const int file = memfd_create("pipec-nccl", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, off_t(kBoard + kMostRanks * kMostRanks * kStaged)) != 0)
    return refuse(kNcclSystemError, "ncclGetUniqueId: no shared memory");
  const Shared shared{getpid(), file};
  std::memset(id, 0, sizeof *id);
  std::memcpy(id, &shared, sizeof shared);
  return kNcclSuccess;
}

NcclResult ncclCommInitRankConfig(NcclComm *made, int ranks, NcclId id, int rank, NcclConfig *config) {
  if (const int error = entered("ncclCommInitRankConfig"))
    return error;
  if (config->magic != 0xcafebeef || config->blocking != 0 || config->maxCTAs < 1 || config->maxCTAs > 32)
    return refuse(kNcclInvalidArgument,
                  "ncclCommInitRankConfig: expected a communicator of few blocks that does not block");
  Shared shared;
  std::memcpy(&shared, &id, sizeof shared);
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", int(shared.process), shared.file);
  const int file = open(path, O_RDWR | O_CLOEXEC);
  const size_t bytes = kBoard + size_t(ranks * ranks) * kStaged;
  void *memory = file < 0 || ranks > kMostRanks || rank < 0 || rank >= ranks
                     ? MAP_FAILED
                     : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (file >= 0)
    close(file);
  if (memory == MAP_FAILED)
    return refuse(kNcclSystemError, "ncclCommInitRankConfig: who made the id is gone, or there is no such rank");
  auto *comm = new ncclComm;
  comm->board = static_cast<Board *>(memory);
  comm->staging = static_cast<std::byte *>(memory) + kBoard;
  comm->bytes = bytes;
  comm->file = shared.process == getpid() ? shared.file : -1;
  comm->ranks = ranks;
  comm->rank = rank;
  comm->blocks = config->maxCTAs;
  comm->board->joined[rank].set(1, now());
  std::lock_guard lock(mutex);
  communicators.insert(*made = comm);
  return kNcclInProgress;
}

NcclResult ncclCommGetAsyncError(NcclComm comm, NcclResult *error) {
  if (const int injected = entered("ncclCommGetAsyncError"))
    return injected;
  std::lock_guard lock(mutex);
  if (!communicators.count(comm))
    return refuse(kNcclInvalidArgument, "ncclCommGetAsyncError: there is no such communicator");
  *error = asyncError() ? kNcclRemoteError : joined(*comm) ? kNcclSuccess : kNcclInProgress;
  return kNcclSuccess;
}

NcclResult ncclCommAbort(NcclComm comm) {
  if (const int error = entered("ncclCommAbort"))
    return error;
  while (abortHangs())
    pause();
  std::lock_guard lock(mutex);
  if (!communicators.erase(comm))
    return refuse(kNcclInvalidArgument, "ncclCommAbort: there is no such communicator");
  comm->ended = true;
  if (comm->underway == 0)
    destroy(comm);
  if (communicators.empty())
    issuer = {};
  return kNcclSuccess;
}

const char *ncclGetErrorString(NcclResult error) {
  static const char *const texts[] = {"no error",
                                      "unhandled cuda error",
                                      "unhandled system error",
                                      "internal error",
                                      "invalid argument",
                                      "invalid usage",
                                      "remote process exited or there was a network error"};
  return error >= 0 && error < 7 ? texts[error] : "unknown result code";
}

// Of a group's calls each starts by itself here, on a stream of its own.
NcclResult ncclGroupStart() { return entered("ncclGroupStart"); }
NcclResult ncclGroupEnd() { return entered("ncclGroupEnd"); }

const char *ncclGetLastError(NcclComm) { return refusal(); }

NcclResult ncclSend(const void *from, size_t count, int type, int peer, NcclComm comm, CUstream stream) {
  if (const NcclResult error = begin("ncclSend", comm, stream, type, peer))
    return error;
  const size_t bytes = count * bytesOf(type);
  const Place source = place("ncclSend", reinterpret_cast<CUdeviceptr>(from), std::max<size_t>(bytes, 1));
  if (!source.data || bytes > kStaged)
    return kNcclInvalidArgument;
  launch(stream, *comm, [=, n = ++comm->sent[peer]](int64_t &time) {
    putInto(*comm, peer, n, source.data, bytes, time);
    sleepUntil(time);
  });
  return kNcclSuccess;
}

NcclResult ncclRecv(void *to, size_t count, int type, int peer, NcclComm comm, CUstream stream) {
  if (const NcclResult error = begin("ncclRecv", comm, stream, type, peer))
    return error;
  const size_t bytes = count * bytesOf(type);
  const Place target = place("ncclRecv", reinterpret_cast<CUdeviceptr>(to), std::max<size_t>(bytes, 1));
  if (!target.data || bytes > kStaged)
    return kNcclInvalidArgument;
  launch(stream, *comm, [=, n = ++comm->received[peer]](int64_t &time) {
    takeFrom(*comm, peer, n, time, [&](const std::byte *data) { std::memcpy(target.data, data, bytes); });
    sleepUntil(time);
  });
  return kNcclSuccess;
}

NcclResult ncclAllReduce(const void *from, void *to, size_t count, int type, int operation, NcclComm comm,
                         CUstream stream) {
  if (const NcclResult error = begin("ncclAllReduce", comm, stream, type, 0))
    return error;
  const Place number = place("ncclAllReduce", reinterpret_cast<CUdeviceptr>(to), 8);
  if (from != to || count != 1 || type != kNcclFloat64 || operation != kNcclSum || !number.data)
    return refuse(kNcclInvalidArgument, "ncclAllReduce: expected the sum of one number, in place");
  launch(stream, *comm, [=, n = ++comm->sums](int64_t &time) {
    Board &board = *comm->board;
    std::memcpy(&board.numbers[n % 2][comm->rank], number.data, 8);
    board.summing[comm->rank].set(n, time);
    double total = 0;
    for (int rank = 0; rank < comm->ranks; ++rank) {
      time = std::max(time, board.summing[rank].wait(n, comm->ended));
      total += board.numbers[n % 2][rank];
    }
    std::memcpy(number.data, &total, 8);
    time += settings().latency;
    sleepUntil(time);
  });
  return kNcclSuccess;
}

// What follows goes from each to the root, or from the root to each, one after the other.
NcclResult ncclReduce(const void *from, void *to, size_t count, int type, int operation, int root, NcclComm comm,
                      CUstream stream) {
  if (const NcclResult error = begin("ncclReduce", comm, stream, type, root))
    return error;
  const size_t bytes = count * bytesOf(type);
  const Place numbers = place("ncclReduce", reinterpret_cast<CUdeviceptr>(to), std::max<size_t>(bytes, 1));
  if (from != to || type == kNcclInt8 || operation != kNcclSum || bytes > kStaged || !numbers.data)
    return refuse(kNcclInvalidArgument, "ncclReduce: expected a sum of floating-point numbers, in place");
  if (comm->rank != root) {
    launch(stream, *comm, [=, n = ++comm->sent[root]](int64_t &time) {
      putInto(*comm, root, n, numbers.data, bytes, time);
      sleepUntil(time);
    });
    return kNcclSuccess;
  }
  std::vector<uint64_t> ns;
  for (int rank = 0; rank < comm->ranks; ++rank)
    ns.push_back(rank == root ? 0 : ++comm->received[rank]);
  launch(stream, *comm, [=](int64_t &time) {
    for (int i = 1; i < comm->ranks; ++i) { // from the next one on
      const int rank = (root + i) % comm->ranks;
      takeFrom(*comm, rank, ns[size_t(rank)], time, [&](const std::byte *data) {
        (type == kNcclFloat64 ? addTo<double> : addTo<float>)(numbers.data, data, count);
      });
    }
    sleepUntil(time);
  });
  return kNcclSuccess;
}

NcclResult ncclBroadcast(const void *from, void *to, size_t count, int type, int root, NcclComm comm, CUstream stream) {
  if (const NcclResult error = begin("ncclBroadcast", comm, stream, type, root))
    return error;
  const size_t bytes = count * bytesOf(type);
  const Place numbers = place("ncclBroadcast", reinterpret_cast<CUdeviceptr>(to), std::max<size_t>(bytes, 1));
  if (from != to || bytes > kStaged || !numbers.data)
    return refuse(kNcclInvalidArgument, "ncclBroadcast: expected what is in place");
  if (comm->rank != root) {
    launch(stream, *comm, [=, n = ++comm->received[root]](int64_t &time) {
      takeFrom(*comm, root, n, time, [&](const std::byte *data) { std::memcpy(numbers.data, data, bytes); });
      sleepUntil(time);
    });
    return kNcclSuccess;
  }
  std::vector<uint64_t> ns;
  for (int rank = 0; rank < comm->ranks; ++rank)
    ns.push_back(rank == root ? 0 : ++comm->sent[rank]);
  launch(stream, *comm, [=](int64_t &time) {
    for (int rank = 0; rank < comm->ranks; ++rank)
      if (rank != root)
        putInto(*comm, rank, ns[size_t(rank)], numbers.data, bytes, time);
    sleepUntil(time);
  });
  return kNcclSuccess;
}

} // extern "C"
