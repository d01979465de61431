// The proof against brute force: on random small programs, half of them disturbed, the walk and the rule of matching
// pairs say "runs" where every interleaving ends with what was expected, and nowhere else. A judge of the same rules,
// each of which can be left out, shows that no rule is idle. PIPEC_SOAK in the environment: a million programs.
#include "test/simulate/Explorer.h"
#include "runtime/plan/rules/Rules.h"
#include "runtime/simulate/Simulate.h"
#include "test/Rounds.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <tuple>

namespace pipec::explore {
namespace {

/// A program before its queues are known.
struct Sketch {
  struct Pass {
    std::vector<int> receives = {}, sends = {}; // transfers that it waits for
    bool sums = false;                          // between shards
  };
  struct Collective { // of a rank's replicas
    size_t place;     // so many transfers are issued before it
    int after;        // the pass that it waits for
    int before = -1;  // and the one that waits for it
  };
  struct Rank {
    std::vector<Pass> passes;
    std::vector<int> order;                      // of passes
    std::vector<std::pair<int, bool>> transfers; // in issue order; whether it sends
    std::vector<Collective> collectives;         // in issue order
  };
  struct Transfer {
    int from, to;
    int producer;       // pass of `from`
    int frees = -1;     // pass of `to` before which it does not start
    int sent, expected; // tags
  };
  std::vector<Rank> ranks;
  std::vector<Transfer> transfers;
};

class Random {
public:
  explicit Random(uint64_t seed) : engine(seed) {}
  int below(int n) { return int(engine() % uint64_t(n)); }
  bool chance(int oneIn) { return below(oneIn) == 0; }

  /// 2 to 4 ranks, 2 to 12 transfers in one order of all, then up to six disturbances.
  Sketch sketch() {
    Sketch made;
    made.ranks.resize(size_t(2 + below(3)));
    const int count = 2 + below(chance(3) ? 11 : 5);
    for (int t = 0; t != count; ++t) {
      const int from = below(int(made.ranks.size()));
      const int to = (from + 1 + below(int(made.ranks.size()) - 1)) % int(made.ranks.size());
      Sketch::Rank &sender = made.ranks[size_t(from)], &receiver = made.ranks[size_t(to)];
      if (sender.passes.empty() || chance(2))
        add(sender);
      made.transfers.push_back({from, to, int(sender.passes.size()) - 1, -1, t, t});
      sender.transfers.emplace_back(t, true);
      receiver.transfers.emplace_back(t, false);
      if (!receiver.passes.empty() && chance(4))
        made.transfers.back().frees = below(int(receiver.passes.size()));
      add(receiver).receives.push_back(t);
    }
    if (!chance(3))
      for (int i = 1 + below(6); i-- != 0;)
        disturb(made);
    return made;
  }

  /// The same, smaller, with up to three collectives a rank.
  Sketch sketchOfReplicas() {
    Sketch made;
    do
      made = sketch();
    while (made.transfers.size() > 3);
    for (Sketch::Rank &rank : made.ranks) {
      if (rank.passes.empty())
        continue;
      size_t place = 0;
      for (int i = below(4); i-- != 0;) {
        place += size_t(below(int(rank.transfers.size() - place) + 1));
        const int count = int(rank.passes.size()), after = below(count);
        rank.collectives.push_back({place, after});
        if (chance(2))
          rank.collectives.back().before = chance(6) ? below(count) : std::min(after + 1 + below(count), count - 1);
        if (rank.collectives.back().before == after)
          rank.collectives.back().before = -1;
      }
    }
    return made;
  }

  /// The same, with at most so many transfers, and sums in half of all passes.
  Sketch sketchOfShards(size_t most) {
    Sketch made;
    do
      made = sketch();
    while (made.transfers.size() > most);
    for (Sketch::Rank &rank : made.ranks)
      for (Sketch::Pass &pass : rank.passes)
        pass.sums = chance(2);
    return made;
  }

private:
  static Sketch::Pass &add(Sketch::Rank &rank) {
    rank.order.push_back(int(rank.passes.size()));
    return rank.passes.emplace_back();
  }
  template <typename T> void swapNeighbours(std::vector<T> &list) {
    if (list.size() < 2)
      return;
    const auto at = size_t(below(int(list.size()) - 1));
    std::swap(list[at], list[at + 1]);
  }
  void disturb(Sketch &made) {
    Sketch::Rank &rank = made.ranks[size_t(below(int(made.ranks.size())))];
    Sketch::Transfer &one = made.transfers[size_t(below(int(made.transfers.size())))];
    Sketch::Transfer &other = made.transfers[size_t(below(int(made.transfers.size())))];
    switch (below(12)) {
    case 0:
      if (one.to == other.to)
        std::swap(one.expected, other.expected);
      return;
    case 1: { // one transfer is missing at one end
      std::vector<std::pair<int, bool>> &list = rank.transfers;
      if (!list.empty() && list.back().second && chance(4))
        list.pop_back();
      return;
    }
    case 2:
    case 3:
      return swapNeighbours(rank.order);
    case 4:
    case 5:
      one.frees = below(int(made.ranks[size_t(one.to)].passes.size()));
      return;
    case 6: { // a pass waits for a send of its rank
      Sketch::Rank &sender = made.ranks[size_t(one.from)];
      sender.passes[size_t(below(int(sender.passes.size())))].sends.push_back(int(&one - made.transfers.data()));
      return;
    }
    default:
      return swapNeighbours(rank.transfers);
    }
  }
  std::mt19937_64 engine;
};

Program programOf(const Sketch &sketch, Model model) {
  Program program;
  for (const Sketch::Rank &rank : sketch.ranks) {
    Rank &made = program.emplace_back();
    made.queues[0].resize(rank.order.size());
    std::vector<int> passAt(rank.order.size());
    for (size_t i = 0; i != rank.order.size(); ++i)
      passAt[size_t(rank.order[i])] = int(i);
    std::map<int, int> queues;
    std::map<std::pair<int, bool>, std::pair<int, int>> at; // queue and how many are done with it
    const auto add = [&](int key, const Item &item) {
      const int queue = queues.try_emplace(key, int(made.queues.size())).first->second;
      if (queue == int(made.queues.size()))
        made.queues.emplace_back();
      if (model == Model::LaunchOrder)
        made.starts.emplace_back(queue, int(made.queues[size_t(queue)].size()));
      made.queues[size_t(queue)].push_back(item);
      return std::pair(queue, int(made.queues[size_t(queue)].size()));
    };
    auto collective = rank.collectives.begin();
    const auto addCollectives = [&](size_t place) {
      for (; collective != rank.collectives.end() && collective->place == place; ++collective) {
        Item item{Item::Kind::Collective, -1, int(collective - rank.collectives.begin())};
        item.waits.emplace_back(0, passAt[size_t(collective->after)] + 1);
        const auto done = add(model == Model::Shared ? 0 : -1, item);
        if (collective->before >= 0)
          made.queues[0][size_t(passAt[size_t(collective->before)])].waits.push_back(done);
      }
    };
    for (size_t n = 0; n != rank.transfers.size(); ++n) {
      addCollectives(n);
      const auto &[t, sends] = rank.transfers[n];
      const Sketch::Transfer &transfer = sketch.transfers[size_t(t)];
      const int peer = sends ? transfer.to : transfer.from;
      const int key = model == Model::Shared ? 0 : model == Model::PerPair ? peer : 2 * peer + int(sends);
      Item item{sends ? Item::Kind::Send : Item::Kind::Recv, peer, sends ? transfer.sent : transfer.expected};
      if (const int pass = sends ? transfer.producer : transfer.frees; pass >= 0)
        item.waits.emplace_back(0, passAt[size_t(pass)] + 1);
      at[{t, sends}] = add(key, item);
    }
    addCollectives(rank.transfers.size());
    for (size_t pass = 0; pass != rank.passes.size(); ++pass) {
      Item &item = made.queues[0][size_t(passAt[pass])];
      item.sums = rank.passes[pass].sums;
      item.tag = item.sums ? passAt[pass] : 0;
      for (int t : rank.passes[pass].receives)
        if (auto found = at.find({t, false}); found != at.end())
          item.waits.push_back(found->second);
      for (int t : rank.passes[pass].sends)
        if (auto found = at.find({t, true}); found != at.end())
          item.waits.push_back(found->second);
    }
  }
  return program;
}

/// The same as a plan's variant, with so many shards of each rank; costs are anything, for they change nothing.
plan::Variant variantOf(const Program &program, Random &random, int shards = 1) {
  plan::Variant variant;
  for (const Rank &rank : program) {
    plan::Program &made = variant.programs.emplace_back();
    made.rank = int32_t(variant.programs.size()) - 1;
    std::map<std::tuple<plan::Kind, int, bool>, uint32_t> operations;
    std::vector<std::pair<int, int>> order; // of issue: queue and place
    for (int q = 0; q != int(rank.queues.size()); ++q) {
      made.queues.push_back(
          {q == 0 ? plan::QueueKind::Device : plan::QueueKind::Communicator, plan::Priority::Compute});
      for (int i = 0; i != int(rank.queues[size_t(q)].size()) && (q == 0 || rank.starts.empty()); ++i)
        order.emplace_back(q, i);
    }
    order.insert(order.end(), rank.starts.begin(), rank.starts.end());
    variant.launchOrder |= !rank.starts.empty();
    for (const auto &[q, i] : order) {
      const Item &item = rank.queues[size_t(q)][size_t(i)];
      const plan::Kind kind = item.kind == Item::Kind::Pass         ? plan::Kind::Forward
                              : item.kind == Item::Kind::Collective ? plan::Kind::AllReduce
                              : item.kind == Item::Kind::Send       ? plan::Kind::Send
                                                                    : plan::Kind::Recv;
      auto [operation, isNew] = operations.try_emplace({kind, item.peer, item.sums}, uint32_t(made.operations.size()));
      if (isNew && kind == plan::Kind::AllReduce) {
        plan::Operation &own = made.operations.emplace_back();
        own.kind = kind;
        own.of = plan::Payload::Gradients;
        own.cost = random.below(4);
        own.group = made.rank;
      } else if (isNew) {
        const bool transfers = kind != plan::Kind::Forward;
        // Costs and latencies of both ends are the same.
        made.operations.push_back({kind, transfers ? plan::Payload::Forward : plan::Payload::None,
                                   kind == plan::Kind::Recv ? 1 : 0, item.peer, transfers ? 2 : random.below(4),
                                   transfers ? 1 : 0});
        made.operations.back().group = item.sums ? made.rank : -1;
        if (transfers)
          made.rings.push_back({item.peer, kind == plan::Kind::Send ? plan::Direction::Send : plan::Direction::Recv});
      }
      made.instructions.push_back({operation->second, uint32_t(q), uint32_t(made.waits.size()),
                                   uint32_t(item.waits.size()), kind == plan::Kind::AllReduce ? 0 : item.tag, 0});
      for (const auto &[queue, count] : item.waits)
        made.waits.push_back({uint32_t(queue), false, count, 0});
    }
    made.step = {{0, uint32_t(made.instructions.size()), 1}};
    for (int shard = 0; shards > 1 && shard != shards; ++shard) {
      plan::Own &own = variant.own.emplace_back();
      for (const plan::Operation &o : made.operations) {
        plan::OwnCost &cost = own.operations.emplace_back();
        if (o.kind == plan::Kind::Forward)
          cost = {random.below(4), plan::meets(o) ? std::min<plan::Time>(random.below(4), o.cost) : 0,
                  plan::meets(o) ? random.below(4) : 0};
      }
    }
  }
  return variant;
}

bool proven(const Program &program, Random &random, int shards = 1) {
  const plan::Variant variant = variantOf(program, random, shards);
  simulate::Result result;
  return simulate::simulate(variant, {}, result).ok() && plan::rules::transferOrder(variant).ok();
}

/// What a judge goes by; one left out, and it is wrong somewhere.
struct Rules {
  bool fifoSends = true, fifoReceives = true, fifoPasses = true; // queues are served in order
  bool rendezvous = true;                                        // a send ends with its receive, not alone
  bool waits = true;
  bool pairs = true;  // what meets must match
  bool starts = true; // where they have an order, transfers start in it
};

/// Runs whatever can run until nothing can.
class Judge {
public:
  Judge(const Program &program, Rules rules) : program(program), rules(rules) {
    for (const Rank &rank : program) {
      done.emplace_back();
      for (const Queue &queue : rank.queues)
        done.back().emplace_back(queue.size());
    }
    started.resize(program.size());
  }

  bool says() {
    for (bool progress = true; progress;) {
      progress = false;
      for (size_t rank = 0; rank != program.size(); ++rank)
        for (size_t q = 0; q != program[rank].queues.size(); ++q)
          for (size_t i = 0; i != program[rank].queues[q].size(); ++i)
            progress |= tryRun(rank, q, i);
      for (size_t rank = 0; rank != program.size() && rules.starts; ++rank)
        if (const auto &starts = program[rank].starts; started[rank].size() != starts.size())
          if (const auto &[q, i] = starts[started[rank].size()]; ready(rank, size_t(q), size_t(i), false))
            progress = started[rank].insert({q, i}).second;
    }
    for (const auto &rank : done)
      for (const auto &queue : rank)
        if (std::count(queue.begin(), queue.end(), true) != long(queue.size()))
          return false;
    return !(rules.pairs && mismatched);
  }

private:
  bool ready(size_t rank, size_t q, size_t i, bool hasStarted = true) const {
    if (hasStarted && rules.starts && q != 0 && !program[rank].starts.empty() && !started[rank].contains({q, i}))
      return false;
    const Item &item = program[rank].queues[q][i];
    const bool fifo = item.kind == Item::Kind::Pass   ? rules.fifoPasses
                      : item.kind == Item::Kind::Send ? rules.fifoSends
                                                      : rules.fifoReceives;
    if (done[rank][q][i] ||
        (fifo && std::count(done[rank][q].begin(), done[rank][q].begin() + long(i), true) != long(i)))
      return false;
    return !rules.waits || std::all_of(item.waits.begin(), item.waits.end(), [&](const auto &wait) {
      const std::vector<bool> &other = done[rank][size_t(wait.first)];
      return std::count(other.begin(), other.end(), true) >= wait.second;
    });
  }

  bool tryRun(size_t rank, size_t q, size_t i) {
    const Item &item = program[rank].queues[q][i];
    if (!ready(rank, q, i))
      return false;
    if (item.kind == Item::Kind::Pass)
      return done[rank][q][i] = true;
    if (item.kind == Item::Kind::Send && !rules.rendezvous) {
      onTheWay[{int(rank), item.peer}].push_back(item.tag);
      return done[rank][q][i] = true;
    }
    if (item.kind == Item::Kind::Recv) {
      if (rules.rendezvous)
        return false; // its send takes it along
      std::vector<int> &tags = onTheWay[{item.peer, int(rank)}];
      if (tags.empty())
        return false;
      mismatched |= tags.front() != item.tag;
      tags.erase(tags.begin());
      return done[rank][q][i] = true;
    }
    const auto peer = size_t(item.peer);
    for (size_t other = 0; other != program[peer].queues.size(); ++other)
      for (size_t j = 0; j != program[peer].queues[other].size(); ++j) {
        const Item &met = program[peer].queues[other][j];
        if (met.kind != Item::Kind::Recv || met.peer != int(rank) || !ready(peer, other, j))
          continue;
        mismatched |= met.tag != item.tag;
        done[rank][q][i] = done[peer][other][j] = true;
        return true;
      }
    return false;
  }

  const Program &program;
  const Rules rules;
  std::vector<std::vector<std::vector<bool>>> done;   // by rank, queue and item
  std::vector<std::set<std::pair<int, int>>> started; // by rank: transfers, by queue and place
  std::map<std::pair<int, int>, std::vector<int>> onTheWay;
  bool mismatched = false;
};

constexpr Model kModels[] = {Model::PerEdge, Model::PerPair, Model::LaunchOrder, Model::Shared};

TEST(Explorer, AgreesWithTheProof) {
  const int rounds = test::rounds(20'000, 1'000'000);
  Random random(1);
  int run = 0, hang = 0;
  for (int round = 0; round != rounds; ++round) {
    const Program program = programOf(random.sketch(), kModels[round % 4]);
    const Outcome outcome = explore(program);
    const bool runs = outcome.ends && !outcome.mismatched;
    run += runs;
    hang += !outcome.ends;
    // Nothing in a program chooses: whatever goes first, it comes to the same end.
    ASSERT_EQ(outcome.finals, 1) << "round " << round << "\n" << text(program);
    ASSERT_EQ(proven(program, random), runs) << "round " << round << "\n" << text(program);
    ASSERT_EQ(Judge(program, {}).says(), runs) << "round " << round << "\n" << text(program);
  }
  RecordProperty("run", run);
  RecordProperty("hang", hang);
  EXPECT_GE(run, rounds * 3 / 10);
  EXPECT_GE(hang, rounds * 3 / 10);
}

// Replicas run one program, and a ring begins when its own rank comes to it: what the walk of one replica says holds of
// two that go on at their own pace and meet in their collectives.
TEST(Explorer, OneWalkProvesAllReplicas) {
  Random random(5);
  int run = 0, hang = 0;
  const int rounds = test::rounds(1'000);
  for (int round = 0; round != rounds; ++round) {
    const Program program = programOf(random.sketchOfReplicas(), kModels[round % 4]);
    const Outcome outcome = explore(replicated(program, 2));
    const bool runs = outcome.ends && !outcome.mismatched;
    run += runs;
    hang += !outcome.ends;
    ASSERT_EQ(outcome.finals, 1) << "round " << round << "\n" << text(program);
    ASSERT_EQ(proven(program, random), runs) << "round " << round << "\n" << text(program);
  }
  EXPECT_GE(run, rounds / 4);
  EXPECT_GE(hang, rounds / 4);
}

// Shards run one program, each at its own pace, and meet in their sums.
TEST(Explorer, TheWalkOfShardsAgrees) {
  Random random(6);
  int run = 0, hang = 0;
  const int rounds = test::rounds(1'000);
  for (int round = 0; round != rounds; ++round) {
    const int shards = round % 10 == 0 ? 3 : 2;
    const Program program = programOf(random.sketchOfShards(shards == 3 ? 2 : 3), kModels[round % 4]);
    const Outcome outcome = explore(replicated(program, shards));
    const bool runs = outcome.ends && !outcome.mismatched;
    run += runs;
    hang += !outcome.ends;
    ASSERT_EQ(outcome.finals, 1) << "round " << round << "\n" << text(program);
    ASSERT_EQ(proven(program, random, shards), runs) << "round " << round << "\n" << text(program);
  }
  EXPECT_GE(run, rounds / 4);
  EXPECT_GE(hang, rounds / 4);
}

// Which a plan cannot say: replicas that come to their collectives in two orders.
TEST(Explorer, ReplicasInTwoOrdersDoNotMatch) {
  Sketch sketch;
  sketch.ranks.resize(1);
  sketch.ranks[0].passes.resize(1);
  sketch.ranks[0].order = {0};
  sketch.ranks[0].collectives = {{0, 0}, {0, 0}};
  Program two = replicated(programOf(sketch, Model::PerEdge), 2);
  EXPECT_FALSE(explore(two).mismatched);
  std::swap(two[1].queues[1][0].tag, two[1].queues[1][1].tag);
  EXPECT_TRUE(explore(two).mismatched);
}

// The same order of issue: what ends on one queue a rank ends in launch order, what ends in launch order ends where
// each direction has a queue of its own; and no sooner the one than the other. The walk gives it of any plan.
TEST(Explorer, LaunchOrderIsBetweenOneQueueAndOneForEachDirection) {
  Random random(3);
  int between = 0, stops = 0, longer = 0;
  for (int round = 0, last = test::rounds(5'000); round != last; ++round) {
    const Sketch sketch = random.sketch();
    const uint64_t costs = uint64_t(random.below(1 << 30));
    const auto took = [&](Model model, simulate::Launch launch) {
      Random same(costs);
      simulate::Result result;
      simulate::Options options;
      options.launch = launch;
      const bool ends = simulate::simulate(variantOf(programOf(sketch, model), same), options, result).ok();
      return ends ? result.makespan : std::numeric_limits<plan::Time>::max();
    };
    const plan::Time edge = took(Model::PerEdge, simulate::Launch::AsPlanned),
                     order = took(Model::LaunchOrder, simulate::Launch::AsPlanned),
                     shared = took(Model::Shared, simulate::Launch::AsPlanned);
    ASSERT_LE(edge, order) << text(programOf(sketch, Model::LaunchOrder));
    ASSERT_LE(order, shared) << text(programOf(sketch, Model::LaunchOrder));
    ASSERT_EQ(took(Model::LaunchOrder, simulate::Launch::InAnyOrder), edge);
    ASSERT_EQ(took(Model::LaunchOrder, simulate::Launch::InOrder), order);
    ASSERT_EQ(took(Model::Shared, simulate::Launch::InOrder), shared); // one queue starts in order anyway
    between += edge < order && order < shared;
    stops += edge != std::numeric_limits<plan::Time>::max() && order == std::numeric_limits<plan::Time>::max();
    longer += edge < order && order != std::numeric_limits<plan::Time>::max();
  }
  EXPECT_GT(between, test::seen(50));
  EXPECT_GT(stops, test::seen(50));
  EXPECT_GT(longer, test::seen(50));
}

// Each of three ranks sends twice to the next, then receives twice from the one before. The second send waits for its
// queue, which the first one holds until the next rank receives; and that waits for its own second send to start.
TEST(Explorer, ARingOfThreeStopsInLaunchOrderAlone) {
  Sketch sketch;
  sketch.ranks.resize(3);
  for (int t = 0; t != 6; ++t) {
    const int from = t / 2, to = (from + 1) % 3;
    sketch.transfers.push_back({from, to, -1, -1, t, t});
    sketch.ranks[size_t(from)].transfers.emplace_back(t, true);
  }
  for (int t = 0; t != 6; ++t)
    sketch.ranks[size_t((t / 2 + 1) % 3)].transfers.emplace_back(t, false);
  EXPECT_TRUE(explore(programOf(sketch, Model::PerEdge)).ends);
  EXPECT_FALSE(explore(programOf(sketch, Model::LaunchOrder)).ends);
  Random random(4);
  const plan::Variant variant = variantOf(programOf(sketch, Model::LaunchOrder), random);
  simulate::Options options;
  simulate::Result result;
  const Status status = simulate::simulate(variant, options, result);
  EXPECT_EQ(status.code, Code::Check);
  EXPECT_EQ(status.message.rfind("it stops in a cycle of 6 instructions, each waiting for the next:\n", 0), 0u)
      << status.message;
  for (const char *named : {"\n  rank 0: send F", "\n  rank 1: recv F", "\n  rank 2: send F"})
    EXPECT_NE(status.message.find(named), std::string::npos) << status.message;
  options.launch = simulate::Launch::InAnyOrder;
  EXPECT_TRUE(simulate::simulate(variant, options, result).ok());
}

TEST(Explorer, NoRuleIsIdle) {
  const std::map<std::string, Rules> without = {{"the order of sends", {.fifoSends = false}},
                                                {"the order of receives", {.fifoReceives = false}},
                                                {"the order of passes", {.fifoPasses = false}},
                                                {"rendezvous", {.rendezvous = false}},
                                                {"waits", {.waits = false}},
                                                {"matching pairs", {.pairs = false}},
                                                {"the order of starts", {.starts = false}}};
  std::map<std::string, int> wrong;
  Random random(2);
  for (int round = 0, last = test::rounds(3'000); round != last; ++round) {
    const Sketch sketch = random.sketch();
    for (Model model : kModels) {
      const Program program = programOf(sketch, model);
      const Outcome outcome = explore(program);
      const bool runs = outcome.ends && !outcome.mismatched;
      for (const auto &[name, rules] : without)
        wrong[name] += Judge(program, rules).says() != runs;
      for (Model other : kModels)
        if (other != model)
          wrong["the communicator"] += proven(programOf(sketch, other), random) != runs;
    }
  }
  EXPECT_EQ(wrong.size(), without.size() + 1);
  for (const auto &[name, count] : wrong)
    EXPECT_GT(count, test::seen(10)) << "without " << name;
}

} // namespace
} // namespace pipec::explore
