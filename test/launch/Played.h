// The controller with processes that are played: each is the other end of a channel, and says what the test wants.
#pragma once

#include "runtime/launch/Controller.h"
#include "test/plan/MakePlan.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

namespace pipec::test {

using namespace runtime;

inline constexpr plan::Time kLong = 600'000'000'000'000, kShort = 1'000'000'000'000; // 10 minutes, 1 s

/// A message as its fields and its "type", sent as it is, right or wrong.
inline Encoded encoded(Message message) {
  auto body = std::make_shared<messages::Body>();
  const auto type = message.at("type").get<std::string>();
  while (body->header.kind < messages::kKinds.size() && messages::kKinds[body->header.kind].name != type)
    ++body->header.kind;
  message.erase("type");
  body->bytes = Message::to_cbor(message);
  body->header.size = body->bytes.size();
  return body;
}

inline Message emptyReport() {
  Message report = messages::write(toMessage(RankReport()));
  report["type"] = "report";
  return report;
}

class Played {
public:
  Played(int32_t ranks, plan::Time deadline, int64_t steps = 100, const std::string &checkpoint = "",
         plan::Time rendezvous = 0, std::optional<Adaptation::Mode> adapt = std::nullopt,
         const std::function<void(RunOptions &)> &change = {}, int32_t later = 0)
      : said(size_t(ranks)) {
    plan::test::Make make;
    make.ranks = ranks;
    make.slots = adapt ? 1 : 2;
    auto plan = std::make_shared<plan::Plan>(plan::test::makePlan(make));
    plan->variants.front().cut.assign(size_t(ranks), 4);
    plan->variants.front().certificate.span = 5'000'000'000; // 5 ms: a permit covers four steps
    plan->variants.push_back(plan->variants.front());
    plan->variants.back().name = "second";
    if (adapt) { // the second has larger rings; a permit covers one step
      make.slots = 2;
      plan->variants.back() = plan::test::makePlan(make).variants.front();
      plan->variants.back().cut.assign(size_t(ranks), 4);
      plan->variants.back().name = "second";
      for (plan::Variant &each : plan->variants)
        each.certificate.span = 100'000'000'000;
    }
    Controller::Setup setup;
    setup.plan = plan;
    setup.options.steps = steps;
    setup.options.deadline = deadline;
    setup.options.rendezvous = rendezvous;
    setup.options.checkpoint = checkpoint;
    setup.options.keepsCut = checkpoint.empty() ? "the run has no --checkpoint" : "";
    setup.adapt = adapt;
    if (change)
      change(setup.options);
    Controller::Owner owner;
    owner.started = [this] { started = true; };
    owner.end = [this](int32_t rank) { ends[size_t(rank)]->close(); };
    owner.title = [](int32_t rank) { return "rank " + std::to_string(rank); };
    owner.leader = "the controller";
    controller.emplace(io, setup, owner);
    while (int32_t(ends.size()) < ranks - later)
      join();
  }

  /// The next rank comes.
  void join() {
    const auto rank = int32_t(ends.size());
    int pair[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    controller->join(rank, std::make_shared<Channel>(io, pair[0]),
                     [this, rank](const std::string &why) { controller->gone(rank, why); });
    ends.push_back(std::make_shared<Channel>(io, pair[1]));
    ends.back()->start(
        messages::ToRank,
        [this, rank](uint32_t kind, std::span<const uint8_t> bytes) {
          said[size_t(rank)].push_back(Message::from_cbor(bytes.begin(), bytes.end()));
          said[size_t(rank)].back()["type"] = messages::kKinds[kind].name;
          return std::string();
        },
        [](const std::string &) {});
  }

  void say(size_t rank, const Message &message) { ends[rank]->send(encoded(message)); }
  void allSay(const Message &message) {
    for (auto &end : ends)
      end->send(encoded(message));
  }

  /// Runs until it holds; false: it did not within minutes.
  bool until(const std::function<bool()> &holds) {
    auto end = std::chrono::steady_clock::now() + std::chrono::minutes(5);
    while (!holds() && std::chrono::steady_clock::now() < end)
      io.run_one_until(end);
    return holds();
  }

  /// The last message of a type that a process heard; null: none.
  Message last(size_t rank, const std::string &type) {
    for (auto m = said[rank].rbegin(); m != said[rank].rend(); ++m)
      if (m->at("type") == type)
        return *m;
    return nullptr;
  }
  bool hears(size_t rank, const std::string &type) {
    return until([&] { return !last(rank, type).is_null(); });
  }

  void comeTogether() {
    allSay({{"type", "listening"}, {"address", "127.0.0.1"}, {"port", 1}});
    ASSERT_TRUE(hears(0, "table"));
    allSay({{"type", "ready"}});
    ASSERT_TRUE(until([&] { return started; }));
  }
  /// And may begin. Hosts would have to ask first.
  void meet() {
    comeTogether();
    ASSERT_TRUE(until([&] { return !last(said.size() - 1, "permit").is_null(); }));
  }

  Message prepared(int64_t program, Code code = Code::Ok, const std::string &message = "") {
    return {{"type", "prepared"}, {"program", program}, {"code", int(code)}, {"message", message}};
  }

  struct Answer {
    bool came = false;
    Status status;
    std::optional<Epoch> epoch;
  };
  void swap(const std::string &variant, Answer &answer) {
    controller->swaps().swap(
        variant, [&answer](Status status, std::optional<Epoch> epoch) { answer = {true, std::move(status), epoch}; });
  }

  asio::io_context io;
  std::optional<Controller> controller;
  std::vector<std::shared_ptr<Channel>> ends;
  std::vector<std::vector<Message>> said;
  bool started = false;
};

} // namespace pipec::test
