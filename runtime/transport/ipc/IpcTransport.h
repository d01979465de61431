// Transfers between ranks that share a GPU, or have GPUs of one machine: the sender copies into the receiver's slot,
// which it has mapped. Two words in the receiver's memory, for each rank that sends to it, count over the whole run:
// the receive writes "ready" and waits for "done"; the send waits for "ready", copies, and writes "done". All of it is
// work on the queues' streams (cuStreamWaitValue64, cuStreamWriteValue64, a copy): a rendezvous that needs neither the
// host nor any of the GPU's processors.
//
// In an all-reduce every rank copies its number to every other, and each adds them up in the order of ranks, so that
// all have the same sum to the last bit.
#pragma once

#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/transport/CudaTransport.h"

#include <deque>
#include <map>
#include <nlohmann/json.hpp>

namespace pipec::runtime {

class IpcTransport final : public CudaTransport {
public:
  /// All arguments must outlive the transport. `groups`: the groups of all-reduces that are not of all `ranks`.
  /// Allocates on the device.
  IpcTransport(int32_t rank, int32_t ranks, std::vector<plan::Group> groups, CudaDevice &device, Failure &failure);

  nlohmann::json offer(const Regions &received) override;
  Status accept(const nlohmann::json &offers, Regions &landings) override;

  void rest() override;
  void release() override;

  void send(QueueId queue, const Label &label, Slot slot, Slot landing) override;
  void recv(QueueId queue, const Label &label, Slot slot) override;
  void allReduce(QueueId queue, const Label &label, Summand &summand) override;
  /// Raises the rank's Failure: mapped memory carries no collectives between replicas.
  void exchange(QueueId queue, const Label &label, Summand &stage) override;

private:
  using Address = gpu::CUdeviceptr;
  nlohmann::json share(const std::byte *memory, plan::Bytes bytes);
  Status map(int32_t peer, const nlohmann::json &shared, Region &region);

  // The words of a rank, each on its own line of 64 bytes: for every other rank "ready" and "done"; for every group
  // and member "done", and two numbers that take turns.
  enum class Word : int32_t { Ready, Done };
  Address word(int32_t of, int32_t peer, Word which) const;
  Address sumWord(int32_t of, int32_t group, int32_t member) const;
  Address number(int32_t of, int32_t group, int32_t member, uint64_t sum) const;
  plan::Bytes wordBytes() const;

  struct Peer {
    uint64_t sent = 0, received = 0;
  };
  /// An all-reduce's numbers on the host, where they are added up.
  struct Addition {
    double *numbers = nullptr; // one number per member, then the total
    size_t count = 0;
  };
  struct Reduction {
    std::vector<int32_t> members;
    uint64_t sums = 0;
    Slot own;
    Addition addition;
  };
  static void add(void *addition);

  const int32_t rank, ranks;
  const std::vector<plan::Group> groups;
  CudaDevice &device;
  Failure &failure;
  std::map<int32_t, Peer> peers;
  std::map<int32_t, Reduction> reductions; // by group; -1: of all ranks
  std::map<int32_t, std::byte *> words;    // by rank
  std::vector<Address> mapped;             // memory of other processes
  gpu::CUstream releasing = nullptr;       // null: nothing was released
};

} // namespace pipec::runtime
