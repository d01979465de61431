// Transfers over NCCL: each communicator of the plan is a communicator of NCCL with few blocks, made when the processes
// meet. A send or receive is a call on the queue's stream. NCCL guarantees that several communicators on a GPU work
// together only if their kernels start in the order in which they are launched (NCCL_LAUNCH_ORDER_IMPLICIT=1, set here
// unless it is set already): plans are proven for that.
#pragma once

#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/transport/CudaTransport.h"
#include "runtime/transport/nccl/Communicators.h"
#include "runtime/transport/nccl/NcclFunctions.h"

namespace pipec::runtime {

class NcclTransport final : public CudaTransport {
public:
  /// All arguments must outlive the transport.
  NcclTransport(const plan::Plan &plan, int32_t rank, CudaDevice &device, Failure &failure);

  /// `network`: the interface to which NCCL's own connections are restricted, since they are not authenticated;
  /// NCCL_SOCKET_IFNAME overrides it. Code::Run, in one line: there is no NCCL, or it is too old or lacks a function.
  Status open(const std::string &network);

  nlohmann::json offer(const Regions &received) override;
  Status accept(const nlohmann::json &offers, Regions &landings) override;
  Status ready() override;
  void check() override;
  void abort() override;

  void send(QueueId queue, const Label &label, Slot slot, Slot landing) override;
  void recv(QueueId queue, const Label &label, Slot slot) override;
  void allReduce(QueueId queue, const Label &label, Summand &summand) override;
  void exchange(QueueId queue, const Label &label, Summand &stage) override;

private:
  template <typename... P, typename... A>
  bool call(const gpu::Function<gpu::NcclResult(P...)> &function, A... arguments);
  bool ok(const char *call, gpu::NcclResult result, gpu::NcclComm comm);
  struct Joined {
    const Communicator *of;
    gpu::NcclComm comm = nullptr;
  };
  template <typename Calls> void together(Joined &of, Calls calls);
  void settle(Joined &of);
  Joined &on(QueueId queue) { return joined[communicatorOf.at(queue)]; }
  /// The number of a transfer's peer in a communicator.
  int peerIn(const Joined &of, const Label &label) const {
    return of.of->placeOf(place.worldOf(label.operation->peer));
  }

  const int32_t rank; // world rank
  const plan::Place place;
  const std::string process;
  CudaDevice &device;
  Failure &failure;
  gpu::NcclFunctions functions;
  const std::vector<Communicator> communicators;
  std::vector<Joined> joined;               // the communicators of this rank, in the common order
  std::map<QueueId, size_t> communicatorOf; // into `joined`
  std::map<int32_t, size_t> ofGroup; // by group: index into `joined` of the communicator for its collectives of layers
  Slot number;                       // buffer for sums
};

} // namespace pipec::runtime
