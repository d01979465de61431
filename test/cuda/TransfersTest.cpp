// What piperun asks of a plan before GPUs run it.
#include "runtime/result/Transfers.h"

#include "test/runtime/Plans.h"

#include <cstdlib>
#include <gtest/gtest.h>

using namespace pipec;
using runtime::RunOptions;

namespace {

RunOptions over(const char *transport) {
  RunOptions options;
  options.device = "cuda";
  options.transport = transport;
  return options;
}

/// Each of three ranks sends twice to the next, then receives twice from the one before. The second send waits for its
/// queue, which the first holds until the next rank receives; and that waits for its own second send to start.
plan::Plan ringOfThree() {
  using namespace plan;
  Plan made;
  Variant &variant = made.variants.emplace_back();
  for (int32_t rank = 0; rank < 3; ++rank) {
    const int32_t next = (rank + 1) % 3, before = (rank + 2) % 3;
    Program &program = variant.programs.emplace_back();
    program.rank = rank;
    program.queues = {{QueueKind::Device, Priority::Compute},
                      {QueueKind::Communicator, Priority::Compute},
                      {QueueKind::Communicator, Priority::Compute}};
    program.operations = {{Kind::Send, Payload::Forward, 0, next, 2, 1},
                          {Kind::Recv, Payload::Forward, 1, before, 2, 1}};
    program.rings = {{next, Direction::Send}, {before, Direction::Recv}};
    for (const uint32_t operation : {0U, 1U})
      for (const int32_t microbatch : {0, 1})
        program.instructions.push_back({operation, operation + 1, 0, 0, microbatch, 0});
    program.step = {{0, 4, 1}};
  }
  return made;
}

TEST(Transfers, WhatStopsInTheOrderOfIssueNcclDoesNotRun) {
  const plan::Plan plan = ringOfThree();
  EXPECT_TRUE(runtime::checkTransfers(plan, over("ipc")).ok());
  const Status status = runtime::checkTransfers(plan, over("nccl"));
  EXPECT_EQ(status.code, Code::Check);
  for (const char *said : {"compile it with communicator: launch_order\n", "it stops in a cycle of 6 instructions",
                           "\n  rank 0: send F", "\n  rank 1: recv F", "\n  rank 2: send F"})
    EXPECT_NE(status.message.find(said), std::string::npos) << status.message;
}

TEST(Transfers, WhatIsProvenForTheOrderOfIssueNcclRuns) {
  plan::Plan plan = test::makePlan({});
  EXPECT_TRUE(runtime::checkTransfers(plan, over("nccl")).ok());
  EXPECT_EQ(runtime::launchOf(over("nccl")), simulate::Launch::InOrder);
  EXPECT_EQ(runtime::launchOf(over("ipc")), simulate::Launch::InAnyOrder);
}

TEST(Transfers, ConnectionsAreCountedWithThoseOfNccl) {
  // In the middle of a pipeline: computation, four queues of transfers, and four communicators of three streams.
  const plan::Plan plan = test::makePlan({.ranks = 3});
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "16", 1);
  EXPECT_TRUE(runtime::checkTransfers(plan, over("ipc")).ok());
  const Status status = runtime::checkTransfers(plan, over("nccl"));
  EXPECT_EQ(status.code, Code::Check);
  EXPECT_NE(status.message.find("rank 1 has 17 streams on its GPU, NCCL's own included, which has 16 connections"),
            std::string::npos)
      << status.message;
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "17", 1);
  EXPECT_TRUE(runtime::checkTransfers(plan, over("nccl")).ok());
  unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
}

TEST(Transfers, OneQueueNeedsNoConnectionOfItsOwn) {
  const plan::Plan plan = test::makePlan({.ranks = 3, .shared = true});
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
  for (const char *transport : {"ipc", "nccl"})
    EXPECT_TRUE(runtime::checkTransfers(plan, over(transport)).ok());
  unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
}

} // namespace
