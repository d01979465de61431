#include "test/driver/Agreement.h"

#include "compiler/driver/CrossCheck.h"
#include "compiler/emit/EmitPlan.h"
#include "compiler/explain/Explain.h"
#include "compiler/program/ProgramText.h"
#include "compiler/schedule/bounds/Bounds.h"
#include "compiler/schedule/evaluate/Evaluate.h"
#include "runtime/plan/Load.h"
#include "runtime/plan/Write.h"
#include "runtime/simulate/Recording.h"
#include "runtime/simulate/Simulate.h"
#include "test/schedule/Reference.h"
#include "test/schedule/Support.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

namespace pipec::test {

namespace {

/// Two sets say the same, whatever numbers their rows have.
void expectSame(const ProgramSet &one, const ProgramSet &other) {
  ASSERT_EQ(one.ranks(), other.ranks());
  ASSERT_EQ(one.transfers.size(), other.transfers.size());
  for (size_t rank = 0; rank != one.ranks(); ++rank) {
    const Program &a = one.programs[rank], &b = other.programs[rank];
    EXPECT_EQ(a.uses, b.uses);
    EXPECT_EQ(a.rings, b.rings);
    EXPECT_EQ(a.stages, b.stages);
    EXPECT_EQ(a.memoryLimit, b.memoryLimit);
    ASSERT_EQ(a.instructions.size(), b.instructions.size());
    for (uint32_t i = 0; i != a.instructions.size(); ++i) {
      const Instruction &its = a.instructions[i], &others = b.instructions[i];
      EXPECT_EQ(a.of(its), b.of(others));
      EXPECT_EQ(its.microbatch, others.microbatch);
      EXPECT_EQ(a.yieldOf(i), b.yieldOf(i));
      EXPECT_EQ(a.queues[its.queue], b.queues[others.queue]);
      if (a.kind(its) != plan::Kind::Recv) {
        EXPECT_EQ(its.in, others.in);
      }
      if (a.kind(its) != plan::Kind::Send) {
        EXPECT_EQ(its.out, others.out);
      } else {
        EXPECT_EQ(one.transfers[its.out], other.transfers[others.out]);
      }
    }
  }
}

} // namespace

Agreement::Agreement() {
  context.loadDialect<pipe::PipeDialect>();
  context.printOpOnDiagnostic(false);
  static const bool registered = (registerPasses(), true);
  (void)registered;
}

Made Agreement::make(const RandomPipeline &random) {
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
  pipe::PipelineOp pipeline = findPipeline(*made.module);
  LowerPipelineOptions options;
  options.keepVisits = true;
  options.see = [&](const ProgramSet &set) {
    EXPECT_EQ(set.check(), "");
    made.ideal = idealOf(set);
    std::promise<void> seen;
    seen.set_value();
    return seen.get_future();
  };
  Lowering lowering = lowerPipeline(pipeline, options);
  EXPECT_EQ(lowering.set.check(), "");
  if (!lowering.lowered)
    return made;
  made.pipeline = pipeline;
  made.lowered = std::move(lowering.lowered);
  made.words = wordsOf(lowering.set);
  made.set = std::move(lowering.set);
  // Their text is right, and says all of them.
  writePrograms(made.set, *made.module);
  EXPECT_TRUE(mlir::succeeded(mlir::verify(*made.module)));
  mlir::FailureOr<ProgramSet> read = readPrograms(*made.module);
  EXPECT_TRUE(mlir::succeeded(read) && mlir::succeeded(matchTransfers(*read)));
  if (mlir::succeeded(read))
    expectSame(made.set, *read);
  for (auto program : made.module->getOps<pipe::ProgramOp>())
    made.programs.push_back(program);
  return made;
}

std::string Agreement::textOf(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  return text;
}

std::string Agreement::passByPass(const RandomPipeline &random) {
  std::string text = random.text(), errors;
  mlir::ScopedDiagnosticHandler handler(&context,
                                        [&](mlir::Diagnostic &diagnostic) { errors += diagnostic.str() + "\n"; });
  for (const char *pass :
       {"pipe-build-schedule", "pipe-insert-communication", "pipe-overlap-communication", "pipe-hoist-recompute",
        "pipe-allocate-slots", "pipe-check-length", "pipe-check-memory", "pipe-check-deadlock"}) {
    mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    mlir::PassManager manager(&context); // its verifier is on
    if (!module || mlir::failed(mlir::parsePassPipeline(pass, manager)) || mlir::failed(manager.run(*module)))
      return errors;
    text = textOf(*module);
  }
  return text;
}

/// The most that is live at once: an activation or context from the op that yields it to the end of its last use, an
/// input to its start.
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
    if (auto input = mlir::dyn_cast<pipe::InputType>(type))
      return input.getBytes();
    return 0;
  };
  for (mlir::Operation &op : program.getStep().front())
    for (mlir::Value value : op.getResults()) { // of a pair, all that its two yield
      size_t last = index[&op];
      for (mlir::Operation *user : value.getUsers())
        last = std::max(last, index[program.getStep().front().findAncestorOpInBlock(*user)]);
      change[index[&op]] += bytes(value.getType());
      change[last + (mlir::isa<pipe::InputType>(value.getType()) ? 0 : 1)] -= bytes(value.getType());
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

static bool unlimited(const schedule::Problem &problem) {
  bool all = problem.link.bandwidth == 0;
  for (const auto &[pair, link] : problem.links)
    all = all && link.bandwidth == 0;
  return all;
}

/// The words with their R, where these stand.
static schedule::Words lettersOf(const ProgramSet &set) {
  schedule::Words words;
  for (const Program &program : set.programs) {
    schedule::Word &word = words.emplace_back();
    bool overlapped = false;
    for (const Instruction &instruction : program.instructions) {
      const plan::Operation &operation = program.of(instruction);
      overlapped |= operation.kind == plan::Kind::Overlapped;
      if (plan::isCompute(operation.kind))
        word.push_back({operation.stage, schedule::letterOf(operation.kind), std::exchange(overlapped, false)});
    }
  }
  return words;
}

/// R have moved: no step is longer for it, and memory and times are those of where they stand.
void Agreement::judgeHoisted(const RandomPipeline &random, const Made &made, const schedule::Words &all,
                             const schedule::Evaluation &fast) {
  ++hoisted;
  const Lowered &lowered = *made.lowered;
  for (size_t rank = 0; rank != made.programs.size(); ++rank) {
    const simulate::PlaceResult &result = lowered.result.places[rank];
    EXPECT_EQ(result.peakActivation, livePeak(made.programs[rank]));
    EXPECT_EQ(result.busy, fast.busy[rank]);
    EXPECT_EQ(result.peak, result.peakActivation + ringBytes(lowered.variant.programs[rank]) +
                               random.problem.staticBytes[rank] + random.problem.workspace[rank]);
    if (random.problem.memoryLimit != 0) {
      EXPECT_LE(result.peak, random.problem.limitOf(int32_t(rank)));
    }
  }
  if (random.communicator != "per_edge" || !unlimited(random.problem) || random.problem.memoryLimit != 0)
    return;
  EXPECT_LE(lowered.result.makespan, fast.makespan);
  EXPECT_LE(lowered.span, fast.span);
  EXPECT_LT(lowered.result.makespan + lowered.span, fast.makespan + fast.span);
  if (!random.problem.mixed && random.problem.copies == 1 && random.problem.slices == 1 && !random.problem.globalNorm &&
      random.problem.backwardGroup == 1) {
    const schedule::test::Reference reference(random.problem, all);
    EXPECT_EQ(lowered.result.makespan, reference.makespan());
    EXPECT_EQ(lowered.span, reference.span());
    for (size_t rank = 0; rank != made.programs.size() && !random.problem.hasBackwardContexts(); ++rank)
      EXPECT_EQ(lowered.result.places[rank].peakActivation, reference.peaks()[rank]);
  }
}

void Agreement::judge(const RandomPipeline &random, Made &made) {
  ASSERT_EQ(made.errors, "");
  const Lowered &lowered = *made.lowered;
  ASSERT_TRUE(lowered.rules.ok()) << lowered.rules.message;
  ASSERT_TRUE(lowered.progress.ok()) << lowered.progress.message;
  EXPECT_EQ(plan::verify(lowered.variant).message, "");
  EXPECT_EQ(crossCheck(random.problem, made.words, made.ideal), "");

  schedule::Words words = random.words();
  EXPECT_EQ(made.words, words); // no pass changes a word
  schedule::Evaluation fast = schedule::evaluate(random.problem, words);
  ASSERT_TRUE(fast.complete);
  const schedule::Bounded bounds = schedule::lowerBounds(random.problem);
  EXPECT_LE(bounds.makespan, lowered.result.makespan);
  EXPECT_LE(bounds.span, lowered.span);
  if (const schedule::Words all = lettersOf(made.set); all != schedule::test::withRecompute(random.problem, words))
    return judgeHoisted(random, made, all, fast);
  for (size_t rank = 0; rank != made.programs.size(); ++rank) {
    const simulate::PlaceResult &result = lowered.result.places[rank];
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

void Agreement::judgeFile(const RandomPipeline &random, Made &made) {
  plan::Time makespan = made.lowered->result.makespan, span = made.lowered->span;
  std::vector<simulate::PlaceResult> ranks = made.lowered->result.places;
  std::vector<plan::Variant> variants;
  variants.push_back(emit::variant(*made.lowered, {{schedule::LeastProblem::proven(random.problem)}}, "random"));
  plan::Plan plan = emit::plan(std::move(variants), 1, 42, {});
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
    EXPECT_EQ(result.places[rank].peak, ranks[rank].peak);
  judgeCauses(read.variants.front());
  judgeExplanations(read.variants.front());
}

RandomPipeline Tight::next() {
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

int64_t Tight::limit(const plan::Variant &free, const simulate::Result &result) {
  int64_t least = 1, most = 1;
  for (size_t rank = 0; rank != free.programs.size(); ++rank) {
    int64_t fewer = 0;
    for (const plan::Ring &ring : free.programs[rank].rings)
      fewer += int64_t(ring.size - 1) * ring.slotBytes;
    most = std::max(most, result.places[rank].peak);
    least = std::max(least, result.places[rank].peak - fewer);
  }
  return least + random.below(most - least + 1);
}

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

} // namespace pipec::test
