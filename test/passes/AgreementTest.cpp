// Random pipelines through all passes, judged by everything that knows an answer: the plan's rules, the simulator, the
// evaluator, live ranges counted here, and the plan's file. PIPEC_SOAK in the environment multiplies the rounds.
#include "compiler/emit/Explain.h"
#include "compiler/emit/Limits.h"
#include "compiler/emit/Plan.h"
#include "compiler/emit/Rewait.h"
#include "compiler/passes/CrossCheck.h"
#include "compiler/passes/Lowered.h"
#include "compiler/passes/Passes.h"
#include "compiler/schedule/Evaluate.h"
#include "runtime/plan/Load.h"
#include "runtime/plan/Write.h"
#include "runtime/simulate/Recording.h"
#include "runtime/simulate/Simulate.h"
#include "test/passes/RandomPipeline.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <cstdlib>
#include <gtest/gtest.h>

using namespace pipec;
using test::Random;
using test::RandomPipeline;

namespace {

int rounds(int usual) {
  const char *soak = std::getenv("PIPEC_SOAK");
  return soak ? usual * std::max(1, std::atoi(soak)) : usual;
}

/// What the passes made of a pipeline.
struct Made {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  pipe::PipelineOp pipeline;
  std::vector<pipe::ProgramOp> programs;
  std::optional<Lowered> lowered;
  schedule::Words words;
  std::string errors; // of passes; all else is empty then
  std::string places; // of the errors
};

/// What passes have kept beside the ops must be what the ops say.
struct CheckStreams : mlir::PassWrapper<CheckStreams, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CheckStreams)
  void runOnOperation() override {
    markAllAnalysesPreserved();
    const Streams &kept = getAnalysis<Streams>();
    Streams fresh(getOperation());
    ASSERT_TRUE(mlir::succeeded(fresh.match()));
    ASSERT_EQ(kept.ranks.size(), fresh.ranks.size());
    ASSERT_EQ(kept.transfers.size(), fresh.transfers.size());
    for (size_t rank = 0; rank != kept.ranks.size(); ++rank) {
      const Stream &one = kept.ranks[rank], &other = fresh.ranks[rank];
      EXPECT_EQ(one.uses, other.uses);
      EXPECT_EQ(one.ops, other.ops);
      ASSERT_EQ(one.records.size(), other.records.size());
      for (size_t i = 0; i != one.records.size(); ++i) {
        const Record &a = one.records[i], &b = other.records[i];
        EXPECT_EQ(one.of(a), other.of(b));
        EXPECT_EQ(a.microbatch, b.microbatch);
        if (one.kind(a) != plan::Kind::Recv) {
          EXPECT_EQ(a.in, b.in);
        }
        if (one.kind(a) != plan::Kind::Send) {
          EXPECT_EQ(a.out, b.out);
        } else {
          EXPECT_EQ(kept.transfers[a.out], fresh.transfers[b.out]);
        }
      }
    }
  }
};

class Agreement : public testing::Test {
protected:
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  Agreement() {
    context.loadDialect<pipe::PipeDialect>();
    context.printOpOnDiagnostic(false);
  }

  Made make(const RandomPipeline &random, Ops ops = Ops::Written) {
    Made made;
    llvm::raw_string_ostream places(made.places);
    mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
      made.errors += diagnostic.str() + "\n";
      places << diagnostic.getLocation();
      for (mlir::Diagnostic &note : diagnostic.getNotes()) {
        made.errors += "  " + note.str() + "\n";
        places << note.getLocation();
      }
    });
    made.module = mlir::parseSourceString<mlir::ModuleOp>(random.text(), &context);
    if (!made.module)
      return made;
    mlir::PassManager manager(&context); // its verifier is on
    buildPipeline(manager, ops);
    if (ops == Ops::Written)
      manager.addPass(std::make_unique<CheckStreams>());
    manager.addPass(createTakeLowered(made.lowered, made.words));
    if (mlir::failed(manager.run(*made.module)))
      return made;
    made.pipeline = findPipeline(*made.module);
    made.programs = *findPrograms(*made.module);
    return made;
  }

  /// The most that is live at once: an activation or context from the op that yields it to the end of its last use.
  static int64_t livePeak(pipe::ProgramOp program) {
    std::vector<int64_t> change;
    llvm::DenseMap<mlir::Operation *, size_t> index;
    for (mlir::Operation &op : program.getStep().front())
      index[&op] = index.size();
    change.resize(index.size() + 1);
    auto bytes = [](mlir::Type type) -> int64_t {
      if (auto activation = mlir::dyn_cast<pipe::ActivationType>(type))
        return activation.getBytes();
      if (auto context = mlir::dyn_cast<pipe::ContextType>(type))
        return context.getBytes();
      return 0;
    };
    for (mlir::Operation &op : program.getStep().front())
      for (mlir::Value value : op.getResults()) {
        size_t last = index[&op];
        for (mlir::Operation *user : value.getUsers())
          last = std::max(last, index[user]);
        change[index[&op]] += bytes(value.getType());
        change[last + 1] -= bytes(value.getType());
      }
    int64_t live = 0, peak = 0;
    for (int64_t each : change)
      peak = std::max(peak, live += each);
    return peak;
  }

  static int64_t ringBytes(const plan::Program &program) {
    int64_t bytes = 0;
    for (const plan::Ring &ring : program.rings)
      bytes += int64_t(ring.size) * ring.slotBytes;
    return bytes;
  }

  void judge(const RandomPipeline &random, Made &made) {
    ASSERT_EQ(made.errors, "");
    const Lowered &lowered = *made.lowered;
    ASSERT_TRUE(lowered.rules.ok()) << lowered.rules.message;
    ASSERT_TRUE(lowered.progress.ok()) << lowered.progress.message;
    EXPECT_EQ(plan::verify(lowered.variant).message, "");
    EXPECT_EQ(crossCheck(random.problem, made.words), "");

    schedule::Words words = random.words();
    EXPECT_EQ(made.words, words); // no pass changes a word
    schedule::Evaluation fast = schedule::evaluate(random.problem, words);
    ASSERT_TRUE(fast.complete);
    for (size_t rank = 0; rank != made.programs.size(); ++rank) {
      const simulate::RankResult &result = lowered.result.ranks[rank];
      const plan::Program &program = lowered.variant.programs[rank];
      EXPECT_EQ(result.peakActivation, fast.peak[rank]);
      EXPECT_EQ(result.peakActivation, livePeak(made.programs[rank]));
      EXPECT_EQ(result.busy, fast.busy[rank]);
      EXPECT_EQ(result.peak, result.peakActivation + ringBytes(program) + random.problem.staticBytes[rank] +
                                 random.problem.workspace[rank]);
    }
    // Links that queue and buffers that are waited for only add time; without either, no time at all.
    EXPECT_GE(lowered.result.makespan, fast.makespan);
    EXPECT_GE(lowered.span, fast.span);
    if (random.communicator == "per_edge" && unlimited(random.problem) && random.problem.memoryLimit == 0) {
      EXPECT_EQ(lowered.result.makespan, fast.makespan);
      EXPECT_EQ(lowered.span, fast.span);
    }
  }

  static bool unlimited(const schedule::Problem &problem) {
    bool all = problem.link.bandwidth == 0;
    for (const auto &[pair, link] : problem.links)
      all = all && link.bandwidth == 0;
    return all;
  }

  /// Whatever starts does so when its cause ends; without one, when the run begins.
  static void judgeCauses(const plan::Variant &variant) {
    simulate::Recording recording;
    simulate::Options options;
    options.steps = 2;
    ASSERT_TRUE(recording.run(variant, options).ok());
    for (int32_t rank = 0; rank != int32_t(variant.programs.size()); ++rank)
      for (uint32_t q = 0; q != variant.programs[size_t(rank)].queues.size(); ++q)
        for (int64_t step : {0, 1})
          for (int64_t i = 0; i != int64_t(recording.queue(rank, q, step).size()); ++i) {
            simulate::Occurrence place{rank, q, step, i};
            simulate::Cause cause = recording.causeOf(place);
            ASSERT_EQ(cause.by ? recording.at(*cause.by).end : 0, recording.at(place).start)
                << rank << " " << q << " " << step << " " << i;
            ASSERT_EQ(cause.by.has_value(), cause.why != simulate::Why::Begin);
          }
    std::vector<simulate::Occurrence> path = recording.criticalPath(0);
    ASSERT_FALSE(path.empty());
    EXPECT_EQ(recording.at(path.front()).start, 0);
    EXPECT_EQ(recording.at(path.back()).end, recording.result.makespan);
  }

  /// A chain of causes goes from a moment back to the start of the step, each link starting when the one before it
  /// ends.
  static void judgeExplanations(const plan::Variant &variant) {
    const plan::Time makespan = variant.certificate.makespan;
    for (int i = 0; i != 8 && makespan != 0; ++i) {
      const auto rank = int32_t(i) % int32_t(variant.programs.size());
      const plan::Time at = plan::Time(__int128(makespan) * (2 * i + 1) / 16);
      emit::Explanation explanation;
      ASSERT_EQ(emit::explain(variant, rank, at, explanation).message, "");
      EXPECT_LE(explanation.from, at);
      EXPECT_GT(explanation.to, at);
      ASSERT_FALSE(explanation.chain.empty());
      EXPECT_EQ(explanation.chain.front().start, explanation.busy           ? explanation.from
                                                 : explanation.next.empty() ? explanation.chain.front().start
                                                                            : explanation.to);
      for (size_t link = 1; link != explanation.chain.size(); ++link)
        EXPECT_EQ(explanation.chain[link].end, explanation.chain[link - 1].start) << explanation.chain[link].what;
      EXPECT_EQ(explanation.chain.back().start, 0);
      EXPECT_EQ(explanation.chain.back().why, simulate::Why::Begin);
    }
  }

  /// The file holds the same plan, and the plan, rolled as it may be, runs as the programs did.
  void judgeFile(const RandomPipeline &random, Made &made) {
    plan::Time makespan = made.lowered->result.makespan, span = made.lowered->span;
    std::vector<simulate::RankResult> ranks = made.lowered->result.ranks;
    std::vector<plan::Variant> variants;
    variants.push_back(emit::variant(*made.lowered, random.problem, {}, "random"));
    plan::Plan plan = emit::plan(std::move(variants), 42, {});
    ASSERT_EQ(plan::verify(plan).message, "");
    plan::Plan read;
    ASSERT_EQ(plan::decode(plan::encode(plan), read).message, "");
    EXPECT_EQ(read, plan);
    plan::Time again = 0;
    simulate::Result result;
    ASSERT_TRUE(simulate::span(read.variants.front(), again, result).ok());
    EXPECT_EQ(again, span);
    EXPECT_EQ(result.makespan, makespan);
    EXPECT_EQ(read.variants.front().certificate.makespan, makespan);
    EXPECT_EQ(read.variants.front().certificate.span, span);
    for (size_t rank = 0; rank != ranks.size(); ++rank)
      EXPECT_EQ(result.ranks[rank].peak, ranks[rank].peak);
    judgeCauses(read.variants.front());
    judgeExplanations(read.variants.front());
  }
};

TEST_F(Agreement, freeLinks) {
  Random random(1);
  for (int round = 0, last = rounds(400); round != last && !HasFailure(); ++round) {
    RandomPipeline each = random.pipeline();
    SCOPED_TRACE("round " + std::to_string(round) + "\n" + each.text());
    Made made = make(each);
    judge(each, made);
    if (!HasFailure())
      judgeFile(each, made);
  }
}

TEST_F(Agreement, slowLinks) {
  Random random(2);
  for (int round = 0, last = rounds(300); round != last && !HasFailure(); ++round) {
    RandomPipeline each = random.pipeline();
    // A byte in a picosecond is 10^12 bytes a second; sizes are below 64 bytes, times below 10^6 ps.
    auto bandwidth = [&] { return int64_t(1'000'000'000'000) / (1 + random.below(random.chance(2) ? 4 : 20'000)); };
    each.problem.link.bandwidth = bandwidth();
    for (auto &[pair, link] : each.problem.links)
      link.bandwidth = random.chance(4) ? 0 : bandwidth();
    SCOPED_TRACE("round " + std::to_string(round) + "\n" + each.text());
    Made made = make(each);
    judge(each, made);
    if (!HasFailure())
      judgeFile(each, made);
  }
}

/// The most that a rank holds at once in the simulated run, by the times of its passes.
std::vector<int64_t> heldPeaks(const plan::Variant &variant) {
  struct Change {
    plan::Time at;
    int64_t bytes;
    auto operator<=>(const Change &) const = default;
  };
  std::vector<std::vector<Change>> changes(variant.programs.size());
  simulate::Options options;
  options.observe = [&](const simulate::Event &event) {
    const plan::Operation &operation = *event.operation;
    int64_t bytes = operation.activation + operation.context;
    if (operation.kind == plan::Kind::Forward)
      changes[size_t(event.rank)].push_back({event.start, bytes});
    else if (plan::isCompute(operation.kind))
      changes[size_t(event.rank)].push_back({event.end, -bytes});
  };
  simulate::Result result;
  EXPECT_TRUE(simulate::simulate(variant, options, result).ok());
  std::vector<int64_t> peaks;
  for (auto &own : changes) {
    std::sort(own.begin(), own.end()); // at one instant, what ends goes first
    int64_t live = 0, peak = 0;
    for (const Change &change : own)
      peak = std::max(peak, live += change.bytes);
    peaks.push_back(peak);
  }
  return peaks;
}

/// The W of each word, or all else.
schedule::Words only(bool weights, schedule::Words words) {
  for (schedule::Word &word : words)
    std::erase_if(word, [&](schedule::Op op) { return (op.letter == schedule::Letter::W) != weights; });
  return words;
}

/// W on a queue of its own: the rules hold, the run keeps within the proven peak, and that within what the words hold
/// on the rank that needs most.
TEST_F(Agreement, fills) {
  Random random(4);
  int deferring = 0;
  for (int round = 0, last = rounds(400); round != last && !HasFailure();) {
    RandomPipeline each = random.pipeline();
    if (each.problem.backward == schedule::BackwardMode::Fused)
      continue;
    ++round;
    each.fillWeights = true;
    SCOPED_TRACE("round " + std::to_string(round) + "\n" + each.text());
    Made made = make(each);
    ASSERT_EQ(made.errors, "");
    ASSERT_TRUE(made.lowered->rules.ok()) << made.lowered->rules.message;
    ASSERT_TRUE(made.lowered->progress.ok()) << made.lowered->progress.message;
    for (bool weights : {false, true}) // each queue keeps its order
      EXPECT_EQ(only(weights, made.words), only(weights, each.words()));
    schedule::Evaluation ordered = schedule::evaluate(each.problem, each.words());
    int64_t most = *std::max_element(ordered.peak.begin(), ordered.peak.end());
    std::vector<int64_t> held = heldPeaks(made.lowered->variant);
    for (size_t rank = 0; rank != held.size(); ++rank) {
      int64_t proven = made.lowered->result.ranks[rank].peakActivation;
      EXPECT_LE(held[rank], proven) << rank;
      EXPECT_LE(proven, most) << rank;
      deferring += proven > ordered.peak[rank];
    }
    judgeFile(each, made);
  }
  EXPECT_GT(deferring, rounds(100));
}

/// Between one slot a ring and what the programs take without a limit, every limit is kept, and nothing else breaks;
/// a byte below the least, the check says so.
TEST_F(Agreement, memoryLimits) {
  Random random(3);
  int kept = 0;
  for (int round = 0, last = rounds(200); round != last && !HasFailure(); ++round) {
    RandomPipeline each = random.pipeline();
    SCOPED_TRACE("round " + std::to_string(round) + "\n" + each.text());
    Made free = make(each);
    judge(each, free);
    if (HasFailure())
      return;
    int64_t least = 0, most = 0;
    for (size_t rank = 0; rank != free.programs.size(); ++rank) {
      const plan::Program &program = free.lowered->variant.programs[rank];
      int64_t own = free.lowered->result.ranks[rank].peak, fewer = 0;
      for (const plan::Ring &ring : program.rings)
        fewer += int64_t(ring.size - 1) * ring.slotBytes;
      most = std::max(most, own);
      least = std::max(least, own - fewer);
    }
    each.problem.memoryLimit = std::max<int64_t>(1, least + random.below(most - least + 1));
    Made limited = make(each);
    // Where several stages of a rank share a pair, one slot may not do, whatever its size; that is said as what it is.
    bool oneStageEach = each.problem.stages.size() == size_t(each.problem.ranks);
    if (oneStageEach || limited.errors.find("the memory limit leaves rank") == std::string::npos) {
      judge(each, limited);
      if (HasFailure())
        return;
      judgeFile(each, limited);
      for (const simulate::RankResult &rank : limited.lowered->result.ranks)
        EXPECT_LE(rank.peak, each.problem.memoryLimit);
      ++kept;
    }
    if (least > 1) {
      each.problem.memoryLimit = least - 1;
      Made tooLittle = make(each);
      EXPECT_TRUE(tooLittle.errors.find("; the least limit that would do is ") != std::string::npos ||
                  tooLittle.errors.find("the memory limit leaves rank") != std::string::npos)
          << tooLittle.errors;
    }
  }
  EXPECT_GT(kept, rounds(180));
}

/// What the limits of random pipelines are: slow links, latencies, too little memory for all buffers, W that wait.
struct Tight {
  Random random;
  explicit Tight(uint64_t seed) : random(seed) {}

  RandomPipeline next() {
    RandomPipeline each = random.pipeline();
    auto bandwidth = [&] { return int64_t(1'000'000'000'000) / (1 + random.below(random.chance(2) ? 4 : 20'000)); };
    if (random.chance(2)) {
      each.problem.link.bandwidth = bandwidth();
      for (auto &[pair, link] : each.problem.links)
        link.bandwidth = random.chance(4) ? 0 : bandwidth();
    }
    each.fillWeights = each.problem.backward == schedule::BackwardMode::Split && !random.chance(3);
    return each;
  }

  /// Between one slot a ring and all that it would take.
  int64_t limit(const plan::Variant &free, const simulate::Result &result) {
    int64_t least = 1, most = 1;
    for (size_t rank = 0; rank != free.programs.size(); ++rank) {
      int64_t fewer = 0;
      for (const plan::Ring &ring : free.programs[rank].rings)
        fewer += int64_t(ring.size - 1) * ring.slotBytes;
      most = std::max(most, result.ranks[rank].peak);
      least = std::max(least, result.ranks[rank].peak - fewer);
    }
    return least + random.below(most - least + 1);
  }
};

/// Programs without ops make the same plans, and what is wrong with them is said in the same words at the same places.
TEST_F(Agreement, opsThatAreLeftOutChangeNothing) {
  Tight tight(6);
  int refused = 0;
  for (int round = 0, last = rounds(300); round != last && !HasFailure(); ++round) {
    RandomPipeline each = tight.next();
    for (bool limited : {false, true}) {
      SCOPED_TRACE("round " + std::to_string(round) + "\n" + each.text());
      const Made written = make(each), left = make(each, Ops::LeftOut);
      EXPECT_EQ(written.errors, left.errors);
      EXPECT_EQ(written.places, left.places);
      EXPECT_EQ(written.words, left.words);
      ASSERT_EQ(written.lowered.has_value(), left.lowered.has_value());
      refused += !written.lowered;
      if (!written.lowered)
        break;
      EXPECT_EQ(written.lowered->variant, left.lowered->variant);
      EXPECT_EQ(written.lowered->span, left.lowered->span);
      if (!limited)
        each.problem.memoryLimit = std::max<int64_t>(1, tight.limit(written.lowered->variant, written.lowered->result) -
                                                            tight.random.below(9));
    }
  }
  EXPECT_GT(refused, rounds(5));
}

/// When each instruction starts and ends in the first step, by rank and queue.
using Timing = std::vector<std::vector<std::vector<std::pair<plan::Time, plan::Time>>>>;
Timing timing(const plan::Variant &variant, const simulate::Scenario *network, simulate::Result &result) {
  Timing times(variant.programs.size());
  for (size_t rank = 0; rank != times.size(); ++rank)
    times[rank].resize(variant.programs[rank].queues.size());
  simulate::Options options;
  options.scenario = network;
  options.observe = [&](const simulate::Event &event) {
    times[size_t(event.rank)][event.queue].emplace_back(event.start, event.end);
  };
  EXPECT_TRUE(simulate::simulate(variant, options, result).ok());
  return times;
}

/// What a program executes, in issue order, whatever its transfers take.
std::vector<std::pair<plan::Operation, int64_t>> issued(const plan::Program &program) {
  std::vector<std::pair<plan::Operation, int64_t>> all;
  for (plan::Cursor cursor(program); !cursor.done(); cursor.next()) {
    plan::Operation operation = *cursor.at().operation;
    if (plan::isTransfer(operation.kind))
      operation.cost = operation.latency = 0;
    all.emplace_back(operation, cursor.at().microbatch());
  }
  return all;
}

/// Of 1,000 random idle intervals in random plans: whatever limit their chains meet, raising it by as much as is said
/// gains what is said. A link's is asked of the simulator by way of a scenario, which leaves the plan as it is, and of
/// the whole compiler, where it makes rings of the same sizes.
TEST_F(Agreement, limitsGainWhatIsSaid) {
  Tight tight(5);
  int intervals = 0, recompiled = 0;
  std::map<emit::Limit::Kind, int> met, gaining;
  for (int round = 0; intervals < rounds(1000) && !HasFailure(); ++round) {
    RandomPipeline each = tight.next();
    SCOPED_TRACE("round " + std::to_string(round) + "\n" + each.text());
    Made made = make(each);
    if (!made.errors.empty()) // a shared communicator may stop with deferred W and a norm of all gradients
      continue;
    if (tight.random.chance(2)) {
      each.problem.memoryLimit = tight.limit(made.lowered->variant, made.lowered->result);
      made = make(each);
      if (!made.errors.empty()) // one slot will not do
        continue;
    }
    const plan::Variant &variant = made.lowered->variant;
    simulate::Result own;
    const Timing times = timing(variant, nullptr, own);
    std::vector<std::tuple<int32_t, plan::Time, size_t>> idle; // rank, when it ends, what starts then
    for (size_t rank = 0; rank != times.size(); ++rank)
      for (size_t i = 1; i < times[rank][0].size(); ++i)
        if (times[rank][0][i].first > times[rank][0][i - 1].second)
          idle.emplace_back(int32_t(rank), times[rank][0][i].first, i);
    for (size_t rank = 0; rank != times.size(); ++rank) // the warm-up
      if (times[rank][0].front().first > 0)
        idle.emplace_back(int32_t(rank), times[rank][0].front().first, 0);
    for (int pick = 0; pick != 8 && !idle.empty(); ++pick) {
      const auto [rank, end, index] = idle[size_t(tight.random.below(int64_t(idle.size())))];
      emit::Explanation explanation;
      ASSERT_EQ(emit::explain(variant, rank, end - 1, explanation).message, "");
      if (explanation.busy || explanation.to != end || times[size_t(rank)][0][index].second == end)
        continue; // W ran meanwhile, or what starts takes no time
      ++intervals;
      EXPECT_EQ(explanation.chain.back().start, 0);
      for (size_t link = 1; link != explanation.chain.size(); ++link)
        EXPECT_EQ(explanation.chain[link].end, explanation.chain[link - 1].start) << explanation.chain[link].what;
      // What waits for a limit has it named.
      const bool limited = std::any_of(explanation.chain.begin(), explanation.chain.end(), [](const auto &link) {
        return link.why == simulate::Why::Buffer || link.why == simulate::Why::Memory;
      });
      EXPECT_TRUE(!limited || !explanation.gains.empty());
      for (const emit::Gain &gain : explanation.gains) {
        const emit::Limit &limit = gain.limit;
        SCOPED_TRACE(emit::describe(limit));
        ++met[limit.kind];
        gaining[limit.kind] += gain.start < end || gain.makespan < own.makespan;
        simulate::Result after;
        if (limit.kind == emit::Limit::Kind::Bandwidth || limit.kind == emit::Limit::Kind::Latency) {
          schedule::Link link = each.problem.linkBetween(limit.rank, limit.peer);
          const bool wide = limit.kind == emit::Limit::Kind::Bandwidth;
          if (!wide) {
            EXPECT_EQ(limit.now, link.latency);
          }
          (wide ? link.bandwidth : link.latency) = limit.raised;
          simulate::Scenario network;
          network.links[{limit.rank, limit.peer}] = {{0, link.bandwidth, link.latency}};
          const Timing then = timing(variant, &network, after);
          EXPECT_EQ(then[size_t(rank)][0][index].first, gain.start);
          EXPECT_EQ(after.makespan, gain.makespan);
          if (intervals % 4 != 0)
            continue;
          RandomPipeline changed = each;
          changed.problem.links[{limit.rank, limit.peer}] = link;
          Made again = make(changed);
          bool same = again.errors.empty();
          for (size_t r = 0; same && r != variant.programs.size(); ++r)
            same = again.lowered->variant.programs[r].rings == variant.programs[r].rings &&
                   issued(again.lowered->variant.programs[r]) == issued(variant.programs[r]);
          if (same) {
            ++recompiled;
            EXPECT_EQ(again.lowered->result.makespan, gain.makespan);
          }
          continue;
        }
        // Buffers and contexts: a plan that keeps every rule, whose rank holds so much more and not less, and that
        // runs as said.
        const plan::Variant raised = emit::raised(variant, limit);
        EXPECT_EQ(plan::verify(raised).message, "");
        const Timing then = timing(raised, nullptr, after);
        EXPECT_EQ(then[size_t(rank)][0][index].first, gain.start);
        EXPECT_EQ(after.makespan, gain.makespan);
        EXPECT_EQ(after.ranks[size_t(limit.rank)].peak - own.ranks[size_t(limit.rank)].peak, limit.memory);
        std::vector<int64_t> held = heldPeaks(raised);
        for (size_t r = 0; r != held.size(); ++r)
          EXPECT_LE(held[r], after.ranks[r].peakActivation);
        if (limit.raised - limit.now > 1) { // half as many gain nothing
          emit::Limit half = limit;
          half.raised = limit.now + (limit.raised - limit.now) / 2;
          const Timing less = timing(emit::raised(variant, half), nullptr, after);
          EXPECT_GE(less[size_t(rank)][0][index].first, end);
          EXPECT_GE(after.makespan, own.makespan);
        }
      }
    }
  }
  EXPECT_GT(recompiled, rounds(100));
  for (auto kind : {emit::Limit::Kind::Bandwidth, emit::Limit::Kind::Latency, emit::Limit::Kind::Buffers,
                    emit::Limit::Kind::Contexts}) {
    EXPECT_GT(met[kind], rounds(15)) << emit::name(kind);
    EXPECT_GT(gaining[kind], rounds(10)) << emit::name(kind);
  }
}

/// Rings raised in a finished plan are those that the compiler makes: raised one after the other to the sizes that it
/// gives without a limit, they run as its plan does; raised by nothing, as they did.
TEST_F(Agreement, raisedRingsAreTheCompilers) {
  Tight tight(6);
  int raisedRings = 0, compared = 0;
  for (int round = 0, last = rounds(150); round != last && !HasFailure(); ++round) {
    RandomPipeline each = tight.next();
    SCOPED_TRACE("round " + std::to_string(round) + "\n" + each.text());
    Made free = make(each);
    ASSERT_EQ(free.errors, "");
    each.problem.memoryLimit = tight.limit(free.lowered->variant, free.lowered->result);
    Made limited = make(each);
    if (!limited.errors.empty())
      continue;
    plan::Variant variant = limited.lowered->variant;
    simulate::Result before, after;
    const Timing own = timing(variant, nullptr, before);
    for (plan::Program &program : variant.programs) {
      program = emit::unrolled(program);
      emit::rewait(program);
    }
    EXPECT_EQ(timing(variant, nullptr, after), own);
    for (size_t rank = 0; rank != variant.programs.size(); ++rank)
      for (size_t ring = 0; ring != variant.programs[rank].rings.size(); ++ring) {
        const plan::Ring &now = variant.programs[rank].rings[ring],
                         &goal = free.lowered->variant.programs[rank].rings[ring];
        raisedRings += now.size != goal.size;
        ASSERT_EQ(std::pair(now.peer, now.direction), std::pair(goal.peer, goal.direction));
        variant = emit::raised(
            variant, {emit::Limit::Kind::Buffers, int32_t(rank), now.peer, now.direction, now.size, goal.size, 0, 0});
      }
    // Few slots may ask for another order of the transfers.
    bool sameOrder = true;
    for (size_t rank = 0; rank != variant.programs.size(); ++rank)
      sameOrder = sameOrder && issued(variant.programs[rank]) == issued(free.lowered->variant.programs[rank]);
    if (!sameOrder || each.fillWeights) // W fill what the compiler expects to be idle
      continue;
    ++compared;
    plan::Time span = 0;
    ASSERT_TRUE(simulate::span(variant, span, after).ok());
    EXPECT_EQ(after.makespan, free.lowered->result.makespan);
    EXPECT_EQ(span, free.lowered->span);
  }
  EXPECT_GT(compared, rounds(40));
  EXPECT_GT(raisedRings, rounds(40));
}

} // namespace
