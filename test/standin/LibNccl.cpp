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
  int64_t wait(uint64_t value) {
    for (uint64_t found; (found = count) < value;)
      syscall(SYS_futex, &count, FUTEX_WAIT, uint32_t(found), nullptr, nullptr, 0);
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
std::thread::id issuer;

} // namespace

struct ncclComm {
  Board *board = nullptr;
  std::byte *staging = nullptr; // of each pair
  int ranks = 0, rank = 0, blocks = 1;
  uint64_t sums = 0;
  uint64_t sent[kMostRanks]{}, received[kMostRanks]{};
};

namespace {

auto &communicators = *new std::set<ncclComm *>, &aborted = *new std::set<ncclComm *>;

bool joined(const ncclComm &comm) {
  return std::all_of(comm.board->joined, comm.board->joined + comm.ranks,
                     [](const Word &word) { return word.count > 0; });
}

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
  if (!stream || (type != kNcclInt8 && type != kNcclFloat64) || peer < 0 || peer >= comm->ranks)
    return refuse(kNcclInvalidArgument, std::string(call) + ": a stream, type or peer that is not known");
  return kNcclSuccess;
}

/// Work in the order of its launch.
void launch(CUstream stream, const ncclComm &comm, CUstream_st::Work work) {
  std::lock_guard lock(mutex);
  auto &order = launches[stream->device];
  if (!order)
    order = std::make_unique<Connection>();
  stream->launch(comm.blocks, std::move(work), *order);
}

std::byte *stagingOf(const ncclComm &comm, int from, int to) {
  return comm.staging + size_t(from * comm.ranks + to) * kStaged;
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
  aborted.insert(communicators.extract(comm)); // its work stands still, and stays
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
  const size_t bytes = count * (type == kNcclFloat64 ? 8 : 1);
  const Place source = place("ncclSend", reinterpret_cast<CUdeviceptr>(from), std::max<size_t>(bytes, 1));
  if (!source.data || bytes > kStaged)
    return kNcclInvalidArgument;
  Pair &pair = comm->board->pairs[comm->rank][peer];
  launch(stream, *comm, [=, &pair, n = ++comm->sent[peer]](int64_t &time) {
    pair.sending.set(n, time);
    time = std::max(time, pair.receiving.wait(n));
    std::memcpy(stagingOf(*comm, comm->rank, peer), source.data, bytes);
    time += settings().wire(int64_t(bytes));
    pair.staged.set(n, time);
    pair.taken.wait(n); // before the next fills it
    sleepUntil(time);
  });
  return kNcclSuccess;
}

NcclResult ncclRecv(void *to, size_t count, int type, int peer, NcclComm comm, CUstream stream) {
  if (const NcclResult error = begin("ncclRecv", comm, stream, type, peer))
    return error;
  const size_t bytes = count * (type == kNcclFloat64 ? 8 : 1);
  const Place target = place("ncclRecv", reinterpret_cast<CUdeviceptr>(to), std::max<size_t>(bytes, 1));
  if (!target.data || bytes > kStaged)
    return kNcclInvalidArgument;
  Pair &pair = comm->board->pairs[peer][comm->rank];
  launch(stream, *comm, [=, &pair, n = ++comm->received[peer]](int64_t &time) {
    pair.receiving.set(n, time);
    time = pair.staged.wait(n) + settings().latency;
    std::memcpy(target.data, stagingOf(*comm, peer, comm->rank), bytes);
    pair.taken.set(n, time);
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
      time = std::max(time, board.summing[rank].wait(n));
      total += board.numbers[n % 2][rank];
    }
    std::memcpy(number.data, &total, 8);
    time += settings().latency;
    sleepUntil(time);
  });
  return kNcclSuccess;
}

} // extern "C"
