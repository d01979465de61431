// The watchdog, asking what is played.
#include "runtime/launch/Watchdog.h"

#include <gtest/gtest.h>

using namespace pipec;
using namespace pipec::runtime;

namespace {

constexpr plan::Time kDeadline = 20'000'000'000; // 20 ms

struct Played {
  std::optional<std::string> overdue(plan::Time limit) {
    EXPECT_EQ(limit, kDeadline);
    return ++asked < late ? std::nullopt : std::optional<std::string>("rank 1: rank 0 did not come to it");
  }
  Watchdog watchdog(plan::Time deadline) {
    return {io, deadline, failure, [this](plan::Time limit) { return overdue(limit); }};
  }

  asio::io_context io;
  Failure failure;
  int asked = 0;
  int late = INT_MAX; // from which time on something is
};

TEST(Watchdog, WhatIsOverdueEndsTheRun) {
  Played p;
  p.late = 3;
  Watchdog watchdog = p.watchdog(kDeadline);
  watchdog.start();
  p.io.run();
  EXPECT_EQ(p.asked, 3);
  EXPECT_EQ(p.failure.status().code, Code::Run);
  EXPECT_EQ(p.failure.status().message, "rank 1: rank 0 did not come to it within 0.02 s");
}

TEST(Watchdog, OfARankThatRestsNothingIs) {
  Played p;
  Watchdog watchdog = p.watchdog(kDeadline);
  watchdog.start();
  watchdog.rest();
  p.io.run();
  EXPECT_EQ(p.asked, 1);
  EXPECT_FALSE(p.failure.raised());
}

TEST(Watchdog, WithoutADeadlineItDoesNotAsk) {
  Played p;
  Watchdog watchdog = p.watchdog(0);
  watchdog.start();
  p.io.run();
  EXPECT_EQ(p.asked, 0);
}

TEST(Watchdog, AfterAFailureItDoesNotAsk) {
  Played p;
  p.failure.raise(Status::run("gone"));
  Watchdog watchdog = p.watchdog(kDeadline);
  watchdog.start();
  p.io.run();
  EXPECT_EQ(p.asked, 0);
  EXPECT_EQ(p.failure.status().message, "gone");
}

} // namespace
