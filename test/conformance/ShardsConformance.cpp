// What every transport promises of the calls between the shards of one rank.
#include "test/conformance/Implementations.h"

#include <atomic>
#include <thread>

using namespace pipec;
using namespace pipec::runtime;
using namespace pipec::test;

namespace {

constexpr int64_t kLarge = (int64_t(8) << 20) / 4 + 3; // floats: more than any buffer holds

/// Numbers whose sum depends on the order in which they are added.
template <typename T> T numberOf(int32_t shard, int64_t e) {
  return T(1) / T(3 + (e * 7 + shard * 13) % 101) + T(shard == 1 ? 1000 : 0);
}
template <typename T> constexpr Number kNumber = sizeof(T) == 8 ? Number::Float64 : Number::Float32;
template <typename T> std::byte *bytes(std::vector<T> &numbers) {
  return reinterpret_cast<std::byte *>(numbers.data());
}

class ShardsConformance : public Conformance<TransportImplementation> {
protected:
  void SetUp() override {
    Conformance::SetUp();
    if (!IsSkipped() && !GetParam().shards)
      GTEST_SKIP() << GetParam().name << " has no calls between shards";
  }

  /// `count` shards of one rank.
  void make(int32_t count, plan::Time deadline = 0) {
    processes.clear();
    plan = {};
    plan::Variant &variant = plan.variants.emplace_back();
    variant.stages = variant.microbatches = 1;
    plan::Program &program = variant.programs.emplace_back();
    program.stages = {0};
    program.queues = {{}};
    plan.groups.resize(1);
    for (int32_t s = 0; s < count; ++s) {
      plan.groups[0].members.push_back(s);
      plan.processes.push_back({0, 0, s});
      variant.own.emplace_back().operations.resize(2);
    }
    for (const plan::Kind kind : {plan::Kind::Forward, plan::Kind::Optimizer}) {
      program.operations.push_back({kind});
      program.operations.back().group = 0;
    }
    processes = GetParam().make(plan, deadline);
  }
  int32_t count() const { return int32_t(processes.size()); }
  const plan::Operation &forward() const { return plan.variants[0].programs[0].operations[0]; }
  const plan::Operation &update() const { return plan.variants[0].programs[0].operations[1]; }
  ShardGroup &group(int32_t shard) { return *processes[size_t(shard)]->shards(); }
  std::string failure(int32_t shard) { return processes[size_t(shard)]->failure().status().message; }

  /// Each shard, on a thread of its own.
  void each(const std::function<void(int32_t)> &body) {
    std::vector<std::thread> threads;
    for (int32_t s = 0; s < count(); ++s)
      threads.emplace_back([&body, s] { body(s); });
    for (std::thread &thread : threads)
      thread.join();
  }
  /// Likewise, within a forward.
  void inForward(const std::function<void(int32_t, ShardGroup &)> &body) {
    each([&](int32_t s) {
      group(s).begin({&forward(), 3, 5, 0});
      body(s, group(s));
      group(s).end();
    });
  }

  /// What all shards' numbers add up to, in their order.
  template <typename T> std::vector<T> sums(int64_t numbers) const {
    std::vector<T> all;
    for (int64_t e = 0; e < numbers; ++e) {
      T sum = numberOf<T>(0, e);
      for (int32_t s = 1; s < count(); ++s)
        sum += numberOf<T>(s, e);
      all.push_back(sum);
    }
    return all;
  }
  template <typename T> static std::vector<T> own(int32_t shard, int64_t numbers) {
    std::vector<T> all;
    for (int64_t e = 0; e < numbers; ++e)
      all.push_back(numberOf<T>(shard, e));
    return all;
  }

  template <typename T> void expectAll(int64_t numbers) {
    const std::vector<T> expected = sums<T>(numbers), ofShares = sums<T>(numbers * count());
    inForward([&](int32_t s, ShardGroup &g) {
      std::vector<T> values = own<T>(s, numbers);
      EXPECT_EQ(g.sum(bytes(values), numbers, kNumber<T>), "");
      EXPECT_TRUE(values == expected) << "sum of " << numbers;
      std::vector<T> all = own<T>(s, numbers * count()), share(size_t(numbers), T(0));
      EXPECT_EQ(g.scatter(bytes(all), numbers, kNumber<T>, bytes(share)), "");
      EXPECT_TRUE(share == std::vector<T>(ofShares.begin() + s * numbers, ofShares.begin() + (s + 1) * numbers))
          << "scatter of " << numbers;
      EXPECT_EQ(g.gather(bytes(share), numbers, kNumber<T>, bytes(all)), "");
      EXPECT_TRUE(all == ofShares) << "gather of " << numbers;
    });
  }

  plan::Plan plan;
  std::vector<std::unique_ptr<RankUnderTest>> processes;
};

TEST_P(ShardsConformance, SumsAreAddedInTheOrderOfShardsAndTheSameOnAll) {
  for (const int32_t shards : {2, 3, 4}) {
    make(shards);
    for (const int64_t numbers : {int64_t(0), int64_t(1), int64_t(1003), int64_t(70'001)}) {
      expectAll<float>(numbers);
      expectAll<double>(numbers);
    }
  }
}

TEST_P(ShardsConformance, SumsMayBeLargerThanAnyBuffer) {
  make(3);
  expectAll<float>(kLarge);
}

TEST_P(ShardsConformance, EachSendsToEach) {
  const auto sizeOf = [](int32_t from, int32_t to) { return int64_t(from == to ? 4 : from * 1'000'000 + to); };
  for (const int32_t shards : {2, 4}) {
    make(shards);
    inForward([&](int32_t s, ShardGroup &g) {
      std::vector<int64_t> sent, received;
      std::vector<std::byte> out, expected;
      for (int32_t other = 0; other < count(); ++other) {
        sent.push_back(sizeOf(s, other));
        received.push_back(sizeOf(other, s));
        out.insert(out.end(), size_t(sent.back()), std::byte(16 * s + other));
        expected.insert(expected.end(), size_t(received.back()), std::byte(16 * other + s));
      }
      std::vector<std::byte> in(expected.size());
      EXPECT_EQ(g.exchange(out.data(), sent, in.data(), received), "");
      EXPECT_TRUE(in == expected);
    });
  }
}

TEST_P(ShardsConformance, AllLearnWhenTheLastOneWasReady) {
  make(4);
  inForward([&](int32_t s, ShardGroup &g) {
    for (plan::Time round = 0; round < 3; ++round) {
      plan::Time latest = 0;
      EXPECT_EQ(g.meet(round * 100 + (s * 7 + round) % 4, latest), "");
      EXPECT_EQ(latest, round * 100 + 3);
    }
  });
}

TEST_P(ShardsConformance, AThousandSumsInARow) {
  make(3);
  inForward([&](int32_t s, ShardGroup &g) {
    for (int64_t n = 0; n < 1000; ++n) {
      std::vector<double> values(size_t(n * 37 % 9000), double(n + s));
      ASSERT_EQ(g.sum(bytes(values), int64_t(values.size()), Number::Float64), "");
      for (const double value : values)
        ASSERT_EQ(value, double(3 * n + 3));
    }
  });
}

TEST_P(ShardsConformance, OnlyPassesUpdatesAndPortionsHaveSums) {
  make(2);
  double value = 0;
  const auto *text = "sum 1 (1 float64): sums between shards are for passes, optimizer steps and portions";
  EXPECT_EQ(group(0).sum(reinterpret_cast<std::byte *>(&value), 1, Number::Float64), text);
}

TEST_P(ShardsConformance, ShardsThatComeToDifferentSumsEndTheRun) {
  std::vector<double> values(8);
  const auto sum = [&](ShardGroup &g, int64_t count) {
    std::vector<double> own(size_t(count), 1);
    return g.sum(bytes(own), count, Number::Float64);
  };
  struct Way {
    std::function<std::string(ShardGroup &)> one, other;
    const char *is;
  };
  const Way ways[] = {
      {[&](ShardGroup &g) { return sum(g, 4); }, [&](ShardGroup &g) { return sum(g, 5); },
       "is at sum 1 (5 float64) of F stage 0 microbatch 3 in step 5 epoch 0, this shard at sum 1 (4 float64) of F "
       "stage 0 "
       "microbatch 3 in step 5 epoch 0"},
      {[&](ShardGroup &g) { return sum(g, 4); },
       [&](ShardGroup &g) {
         std::vector<float> own(4), all(8);
         return g.gather(bytes(own), 4, Number::Float32, bytes(all));
       },
       "is at gather 1 (4 float32) of F stage 0"},
      {[&](ShardGroup &g) { return sum(g, 4); },
       [&](ShardGroup &g) {
         g.begin({&update(), 0, 5, 0});
         return sum(g, 4);
       },
       "is at sum 1 (4 float64) of optimizer stage 0 microbatch 0 in step 5 epoch 0, this shard at sum 1 (4 float64) "
       "of F "
       "stage 0"},
      {[&](ShardGroup &g) { return sum(g, 4); },
       [&](ShardGroup &g) {
         g.begin({nullptr, 0, 5, 0});
         return sum(g, 4);
       },
       "is at sum 1 (4 float64) of the portions for step 5, this shard at sum 1 (4 float64) of F stage 0"},
      {[&](ShardGroup &g) {
         const std::vector<int64_t> sizes{8, 16};
         std::vector<double> in(3);
         return g.exchange(bytes(values), sizes, bytes(in), sizes);
       },
       [&](ShardGroup &g) {
         const std::vector<int64_t> sizes{8, 8};
         std::vector<double> in(2);
         return g.exchange(bytes(values), sizes, bytes(in), sizes);
       },
       "rank 0 shard 1 sends 8 bytes to it where 16 are expected"},
  };
  for (const Way &way : ways) {
    make(2);
    inForward([&](int32_t s, ShardGroup &g) { EXPECT_EQ((s == 0 ? way.one : way.other)(g), "the run has failed"); });
    EXPECT_NE((failure(0) + failure(1)).find(way.is), std::string::npos) << failure(0) << failure(1);
    EXPECT_NE(failure(0).find("rank 0 shard 0: F stage 0 microbatch 3: "), std::string::npos) << failure(0);
  }
}

TEST_P(ShardsConformance, AShardThatIsLostEndsAll) {
  make(4);
  each([&](int32_t s) {
    if (s == 2)
      return processes[2]->vanish();
    std::vector<double> own(100'000, 1);
    group(s).begin({&forward(), 3, 5, 0});
    EXPECT_EQ(group(s).sum(bytes(own), 100'000, Number::Float64), "the run has failed");
  });
  for (const int32_t s : {0, 1, 3})
    EXPECT_NE(failure(s).find("rank 0 shard "), std::string::npos) << failure(s);
  EXPECT_NE((failure(0) + failure(1) + failure(3)).find("lost rank 0 shard 2: "), std::string::npos) << failure(0);
}

TEST_P(ShardsConformance, AShardThatDoesNotComeIsNamedAtTheDeadline) {
  std::string all;
  const std::string says = ": F stage 0 microbatch 3: sum 1 (16 float32): rank 0 shard 1 did not come to it within";
  for (const plan::Time deadline : {1, 10, 100}) { // seconds: one may be too short for the others to come
    make(3, deadline * 1'000'000'000'000);
    each([&](int32_t s) {
      if (s == 1)
        return;
      std::vector<float> own(16, 1);
      group(s).begin({&forward(), 3, 5, 0});
      EXPECT_EQ(group(s).sum(bytes(own), 16, Number::Float32), "the run has failed");
    });
    all = failure(0) + failure(2);
    if (all.find(says) != std::string::npos)
      break;
  }
  EXPECT_NE(all.find(says), std::string::npos) << all;
}

TEST_P(ShardsConformance, AFailureFreesWhoWaits) {
  make(2);
  group(0).begin({&forward(), 3, 5, 0});
  std::thread waits([&] {
    plan::Time latest = 0;
    EXPECT_EQ(group(0).meet(0, latest), "the run has failed");
    EXPECT_EQ(group(0).meet(0, latest), "the run has failed");
  });
  processes[0]->failure().raise(Status::run("something else"));
  waits.join();
}

INSTANTIATE_TEST_SUITE_P(All, ShardsConformance, testing::ValuesIn(transportImplementations()),
                         [](const auto &info) { return info.param.name; });

} // namespace
