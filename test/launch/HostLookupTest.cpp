// Lookups of a host, with a resolver that the test plays.
#include "runtime/launch/waits/HostLookup.h"

#include <atomic>
#include <future>
#include <gtest/gtest.h>

using namespace pipec;
using namespace pipec::runtime;
using namespace std::chrono_literals;

namespace {

using Addresses = std::vector<asio::ip::address>;

constexpr plan::Time kShort = 50'000'000'000; // 50 ms
const asio::ip::address kFirst = asio::ip::make_address("10.0.0.1");

/// A resolver whose questions nobody answers before the object ends.
class Silent {
public:
  ~Silent() { silence.set_value(); }
  HostLookup::Resolver resolver() {
    return [until = std::shared_future(silence.get_future()), asked = asked](const std::string &) {
      ++*asked;
      until.wait();
      return HostLookup::Answer{{kFirst}};
    };
  }
  const std::shared_ptr<std::atomic<int>> asked = std::make_shared<std::atomic<int>>(0);

private:
  std::promise<void> silence;
};

TEST(HostLookup, AHostThatIsKnownAtTheThirdQuestionIsFound) {
  std::atomic<int> asked = 0;
  HostLookup lookup(
      "first",
      [&asked](const std::string &host) {
        EXPECT_EQ(host, "first");
        return ++asked < 3 ? HostLookup::Answer{{}, "Name or service not known"} : HostLookup::Answer{{kFirst}};
      },
      1ms);
  Addresses found;
  const Status status = lookup.await(0, found);
  EXPECT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(found, Addresses{kFirst});
}

TEST(HostLookup, AHostThatStaysUnknownIsAskedForUntilTheTimeIsOver) {
  HostLookup lookup(
      "first", [](const std::string &) { return HostLookup::Answer{{}, "Name or service not known"}; }, 1ms);
  Addresses found;
  const Status status = lookup.await(kShort, found);
  EXPECT_EQ(status.code, Code::Run);
  // On a busy machine the first answer may come after that time.
  if (!status.message.ends_with("has not answered for 0.05 s")) {
    EXPECT_EQ(status.message, "the host of rank 0, first, is not known: Name or service not known, asked for 0.05 s");
  }
}

TEST(HostLookup, AResolverThatDoesNotAnswerHoldsNobody) {
  Silent silent;
  HostLookup lookup("first", silent.resolver(), 1ms);
  Addresses found;
  const Status status = lookup.await(kShort, found);
  EXPECT_EQ(status.code, Code::Run);
  EXPECT_EQ(status.message, "the host of rank 0, first, is not known: the resolver has not answered for 0.05 s");
  EXPECT_LE(*silent.asked, 1); // one question at a time
  EXPECT_TRUE(found.empty());
}

TEST(HostLookup, AnErrorThatStaysEndsItAtOnce) {
  std::atomic<int> asked = 0;
  HostLookup lookup("first", [&asked](const std::string &) {
    ++asked;
    return HostLookup::Answer{{}, "Bad value for ai_flags", false};
  });
  Addresses found;
  EXPECT_EQ(lookup.await(0, found).message, "the host of rank 0, first, is not known: Bad value for ai_flags");
  EXPECT_EQ(asked, 1);
}

TEST(HostLookup, WhoStopsItEndsIt) {
  Silent silent;
  auto lookup = std::make_unique<HostLookup>("first", silent.resolver());
  const std::function<void()> stop = lookup->stopper();
  std::future<Status> status = std::async(std::launch::async, [&] {
    Addresses found;
    return lookup->await(0, found);
  });
  stop();
  EXPECT_EQ(status.get().code, Code::Run);
  lookup.reset();
  stop(); // nobody is there any more
}

TEST(HostLookup, TheSystemKnowsAddresses) {
  for (const char *text : {"127.0.0.1", "::1"}) {
    const HostLookup::Answer answer = HostLookup::askSystem(text);
    EXPECT_EQ(answer.error, "");
    EXPECT_EQ(answer.addresses, Addresses{asio::ip::make_address(text)});
  }
  const HostLookup::Answer answer = HostLookup::askSystem("no host has spaces");
  EXPECT_NE(answer.error, "");
  EXPECT_TRUE(answer.mayPass);
}

} // namespace
