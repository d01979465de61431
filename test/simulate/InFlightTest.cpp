// Sizes of rings that delay nothing in any timing, of plans of which they are known. test/driver/RingsTest.cpp holds
// random ones against runs.
#include "runtime/simulate/InFlight.h"

#include "test/plan/MakePlan.h"

#include <gtest/gtest.h>

using namespace pipec;
using plan::Direction;
using plan::test::Make;
using simulate::Flight;

namespace {

std::vector<std::vector<Flight>> flightsOf(const plan::Variant &variant) {
  std::vector<std::vector<Flight>> flights;
  const Status status = simulate::inFlight(variant, flights);
  EXPECT_TRUE(status.ok()) << status.message;
  return flights;
}

std::vector<std::vector<Flight>> flightsOf(const Make &make) {
  return flightsOf(plan::test::makePlan(make).variants.front());
}

// A rank of 1F1B warms up with as many forwards as there are ranks from it on. So many are under way between it and the
// next one, there and back, before it must have heard of the first.
TEST(InFlight, OneFOneBWarmsUpWithWhatIsLeft) {
  for (const bool rolled : {false, true})
    for (const uint32_t slots : {1, 2, 8}) { // its own rings change nothing
      const auto flights = flightsOf(Make{.ranks = 4, .rolled = rolled, .slots = slots});
      for (int32_t rank = 0; rank != 4; ++rank)
        for (const Flight &flight : flights[size_t(rank)]) {
          EXPECT_EQ(flight.transfers, 8u);
          EXPECT_EQ(flight.freeSize(), uint32_t(4 - std::min(rank, flight.peer))) << rank << " " << flight.peer;
          EXPECT_TRUE(flight.isDrained());
          for (uint32_t size = 1; size <= 8; ++size)
            EXPECT_EQ(flight.bindsNever(size), size >= *flight.freeSize());
        }
    }
}

TEST(InFlight, InOrderOfPeersAndSendsFirst) {
  const std::vector<Flight> flights = flightsOf(Make{.ranks = 3})[1];
  ASSERT_EQ(flights.size(), 4u);
  EXPECT_EQ(flights[0].peer, 0);
  EXPECT_EQ(flights[0].direction, Direction::Send);
  EXPECT_EQ(flights[1].peer, 0);
  EXPECT_EQ(flights[1].direction, Direction::Recv);
  EXPECT_EQ(flights[2].peer, 2);
}

// A warm-up of four, but only two microbatches to warm up with.
TEST(InFlight, NoMoreThanThereAre) {
  const std::vector<Flight> flights = flightsOf(Make{.ranks = 4, .microbatches = 2})[0];
  for (const Flight &flight : flights)
    EXPECT_EQ(flight.freeSize(), 2u);
}

// Nothing comes back that would tell a rank how far the next one has come, neither in a step nor from one to the next.
TEST(InFlight, ForwardsAloneHaveNoEnd) {
  for (const std::vector<Flight> &flights : flightsOf(Make{.ranks = 3, .backward = false, .optimizer = false}))
    for (const Flight &flight : flights) {
      EXPECT_EQ(flight.inStep, flight.transfers);
      EXPECT_FALSE(flight.isDrained());
      EXPECT_EQ(flight.freeSize(), std::nullopt);
      EXPECT_FALSE(flight.bindsNever(flight.transfers));
    }
}

// The all-reduce before the optimizers tells all ranks that all backwards are over.
TEST(InFlight, WeightsAndNormsChangeNothing) {
  for (const Make &make : {Make{.split = true}, Make{.split = true, .deferred = true}, Make{.norm = true}}) {
    const auto flights = flightsOf(make);
    for (int32_t rank = 0; rank != 4; ++rank)
      for (const Flight &flight : flights[size_t(rank)])
        EXPECT_EQ(flight.freeSize(), uint32_t(4 - std::min(rank, flight.peer)));
  }
}

// The first backward waits for what only the last one's gradient would bring.
TEST(InFlight, WhatStopsIsSaid) {
  plan::Variant variant = plan::test::makePlan(Make{.ranks = 2, .rolled = false}).variants.front();
  plan::Program &program = variant.programs[0];
  for (const plan::Instruction &instruction : program.instructions)
    if (program.operations[instruction.operation].kind == plan::Kind::Backward) {
      for (uint32_t w = 0; w != instruction.waits; ++w)
        if (plan::Wait &wait = program.waits[instruction.firstWait + w]; !wait.previousStep)
          wait.base = 8;
      break;
    }
  std::vector<std::vector<Flight>> flights;
  EXPECT_FALSE(simulate::inFlight(variant, flights).ok());
}

} // namespace
