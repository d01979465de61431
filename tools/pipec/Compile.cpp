#include "tools/pipec/Compile.h"

#include "compiler/emit/Plan.h"
#include "compiler/passes/Beside.h"
#include "compiler/passes/CrossCheck.h"
#include "compiler/passes/FromSpec.h"
#include "compiler/passes/Lowered.h"
#include "compiler/passes/Passes.h"
#include "compiler/spec/Reader.h"
#include "runtime/plan/Provider.h"
#include "runtime/plan/Rules.h"
#include "runtime/plan/Write.h"
#include "tools/pipec/Diagnostics.h"
#include "tools/pipec/HugeHeap.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <tuple>
#include <unistd.h>

using namespace mlir;

namespace pipec {

namespace {

/// Prints every diagnostic, and keeps the first error's place and words.
class FirstError {
public:
  FirstError(MLIRContext &context, Failure &failure, Said said)
      : handler(&context, [&failure, said](Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == DiagnosticSeverity::Error && failure.message.empty()) {
            failure.message = diagnostic.str();
            if (auto place = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>()) {
              failure.file = place.getFilename().str();
              failure.line = place.getLine();
              failure.column = place.getColumn();
            }
          }
          if (said == Said::Everything)
            print(diagnostic);
          return success();
        }) {}

private:
  ScopedDiagnosticHandler handler;
};

/// A failed check is not a wrong file: memory, deadlock and programs that wait for each other end with code 3.
struct CodeOfFailure : PassInstrumentation {
  explicit CodeOfFailure(Code &code) : code(code) {}
  void runAfterPassFailed(Pass *pass, Operation *) override {
    StringRef name = pass->getArgument();
    code = name == "pipe-build-schedule" || name == "pipe-check-length" ? Code::Input : Code::Check;
  }
  Code &code;
};

std::string textOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, OpPrintingFlags().enableDebugInfo(false));
  stream << "\n";
  return text;
}

/// One compilation: a context, and every variant through the passes.
class Compilation {
public:
  Compilation(Stage until, Compiled &compiled, Failure &failure, Said said)
      : until(until), compiled(compiled), failure(failure), said(said), context(MLIRContext::Threading::DISABLED),
        first(context, failure, said) {
    context.printOpOnDiagnostic(false);
  }

  bool run(const std::string &path, const std::vector<std::string> &set) {
    auto begin = std::chrono::steady_clock::now();
    std::vector<spec::Spec> specs;
    std::vector<spec::Diagnostic> diagnostics;
    bool read = spec::readSpecs(path, set, specs, diagnostics);
    report(diagnostics, context);
    if (!read)
      return stop(Code::Input);
    compiled.stages = specs.front().stages;
    for (const spec::Spec &spec : specs)
      for (const std::string &file : {spec.path, spec::orderFileOf(spec)})
        if (Status status = plan::keepsInputs(compiled.output, {file}, "-o"); !status.ok())
          return stop(path, status);
    if (until == Stage::Checked || until == Stage::Space)
      return specs.front().ofVariants
                 ? stop(path, Status::input("a search is of one spec, found variants: leave 'variants' out"))
                 : space(specs.front());
    makeRoom(specs);
    std::vector<plan::Variant> variants;
    size_t compiledVariants = 0;
    Failure leftOut;
    for (const spec::Spec &spec : specs) {
      bool internal = false;
      Code code = compileVariant(spec, variants, internal);
      if (code == Code::Ok) {
        ++compiledVariants;
        continue;
      }
      if (code != Code::Check || specs.size() == 1 || internal)
        return stop(code);
      // A variant that does not fit leaves room for those that do.
      if (said == Said::Everything)
        llvm::errs() << "variant '" << spec.variantName << "' is left out\n";
      leftOut = std::exchange(failure, {});
    }
    if (compiledVariants == 0) {
      failure = leftOut;
      return stop(Code::Check);
    }
    if (until != Stage::Plan)
      return true;
    std::vector<uint8_t> provider;
    Status status = plan::providerOf(specs.front().provider.value, provider);
    compiled.plan = emit::plan(std::move(variants), specs.front().hash, std::move(provider));
    // What looks at the whole of a variant has been asked: check-deadlock passes no variant that breaks a rule.
    if (status.ok())
      status = plan::checkTables(compiled.plan);
    if (compiled.encodes)
      compiled.bytes = plan::encode(compiled.plan);
    if (status.ok() && compiled.encodes && compiled.bytes.empty())
      status = Status::input("the plan has more than 1 GiB");
    if (!status.ok())
      return stop(path, status);
    compiled.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    return true;
  }

private:
  bool stop(Code code) {
    failure.code = code;
    return false;
  }

  /// What is wrong with the file as a whole.
  bool stop(const std::string &path, const Status &status) {
    emitError(FileLineColLoc::get(&context, path, 1, 1)) << status.message;
    return stop(status.code);
  }

  /// A schedule of the spec's own must go with it, before a search takes its place.
  bool space(const spec::Spec &spec) {
    const bool searches = spec.schedule.name == "auto" && !choosesFromCatalogue(spec);
    if (!searches)
      if (const Imported imported = fromSpec(spec, context); !imported.module)
        return stop(imported.code);
    if (!searches && until == Stage::Checked)
      return true;
    SearchSpace found = searchSpaceOf(spec, context);
    compiled.problems = std::move(found.problems);
    compiled.objective = found.objective;
    return compiled.problems.empty() ? stop(Code::Input) : true;
  }

  /// What compiling takes for each stage and microbatch: the peak of whole compiles of 131,072 to 1,048,576 of them,
  /// all three communicators, is 920 to 1,100 bytes each; where a plan does not roll, as Hanayo's, 2,250.
  static constexpr size_t kBytesEach = 1200;

  static void makeRoom(const std::vector<spec::Spec> &specs) {
    constexpr size_t kLarge = size_t(16) << 20;
    size_t most = 0;
    for (const spec::Spec &spec : specs)
      most = std::max(most,
                      size_t(spec.stages) * size_t(spec.microbatches.value) * size_t(spec.slices.value) * kBytesEach);
    if (most > kLarge)
      growHeap(most);
  }

  /// What cannot fit into this machine's memory is not begun: the system would end some process in the middle of it.
  bool fits(const spec::Spec &spec, pipe::PipelineOp pipeline) {
    constexpr double kGiB = 1 << 30;
    const int64_t stages = int64_t(pipeline.getPlacement().size());
    const double need = double(kBytesEach) * double(stages) * double(pipeline.getMicrobatches()) / kGiB;
    const double have = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGESIZE)) / kGiB;
    if (need <= have)
      return true;
    const spec::Mark &mark = spec.microbatches.mark;
    emitError(
        FileLineColLoc::get(&context, spec.sources[size_t(mark.source)], unsigned(mark.line), unsigned(mark.column)))
        << llvm::formatv("compiling {0} stages and {1} microbatches takes about {2:F0} GiB of memory, this machine "
                         "has {3:F0} GiB: fewer microbatches or stages",
                         stages, spec.microbatches.value, need, have);
    return false;
  }

  /// What one variant's spec came to.
  struct Made {
    std::string text;
    plan::Variant variant;
    simulate::Result walk;
    schedule::Problem problem;
    schedule::Words words;
    std::map<std::string, int64_t> parameters;
    schedule::Objective objective = schedule::Objective::Span;
  };

  /// A spec whose words are searched for, and the rings of transfer buffers that the search leaves room for.
  struct Choice {
    spec::Spec spec;
    int32_t buffers;
  };

  /// `internal` says that the failure is pipec's own, not the variant's.
  Code compileVariant(const spec::Spec &spec, std::vector<plan::Variant> &variants, bool &internal) {
    const bool searches = spec.schedule.name == "auto" && !choosesFromCatalogue(spec);
    Choice choice{spec, 1};
    Made made;
    Code code = Code::Ok;
    if (searches)
      code = compileSearched(choice, made, internal);
    if (code == Code::Ok && (!searches || until != Stage::Plan))
      code = compileOnce(choice, until, made, internal);
    if (code != Code::Ok)
      return code;
    compiled.text += made.text;
    if (until != Stage::Plan)
      return Code::Ok;
    variants.push_back(std::move(made.variant));
    compiled.walks.push_back(std::move(made.walk));
    compiled.problems.push_back(std::move(made.problem));
    compiled.parameters.push_back(std::move(made.parameters));
    compiled.objective = made.objective;
    return Code::Ok;
  }

  static schedule::Time timeOf(const Made &made) { return pipec::timeOf(made.variant.certificate, made.objective); }

  /// Whether it is worth while to compile this more often than once, for a shorter time.
  static bool mayGain(const Choice &choice, const Made &made) {
    constexpr int64_t kMost = int64_t(1) << 15; // passes F of a plan
    return timeOf(made) > boundOf(made.variant.certificate, made.objective) &&
           int64_t(choice.spec.stages) * choice.spec.microbatches.value <= kMost;
  }

  /// The search weighs words on links that never queue and keeps the buffers that let them run at all; the passes may
  /// have to queue, and where memory holds no more buffers transfers wait for one. So it compiles several and keeps the
  /// best. Leaves in `choice` what it came from.
  Code compileSearched(Choice &choice, Made &made, bool &internal) {
    const Code code = compileWithRoom(choice, made, internal);
    if (code == Code::Ok)
      compileFromCatalogue(choice, made);
    return code;
  }

  /// Under a limit, what is left for buffers is what the words do not hold: the search is asked for words that hold
  /// less until they hardly wait for buffers, or, where none compiles, as on shared communicators that need more, until
  /// one does.
  Code compileWithRoom(Choice &choice, Made &made, bool &internal) {
    constexpr int kTries = 3;
    constexpr schedule::Time kWorth = 200; // waits of a 200th are not
    bool found = false;
    schedule::Time words = 0; // the shortest, if they waited for no buffer
    Choice trial = choice;
    trial.buffers = 2;
    for (int i = 0; choice.spec.memoryLimit.value != 0 && i != kTries; ++i) {
      ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
      Made other;
      const Code code = compileOnce(trial, Stage::Plan, other, internal);
      if (internal || (code != Code::Ok && code != Code::Check))
        break; // said below
      if (code == Code::Ok) {
        const schedule::Time time = schedule::timeOf(other.problem, other.words, other.objective);
        words = found ? std::min(words, time) : time;
        if (!found || timeOf(other) < timeOf(made)) {
          made = std::move(other);
          choice = trial;
        }
        found = true;
        if (timeOf(made) - words <= words / kWorth || !mayGain(choice, made))
          break;
      }
      trial.buffers *= found ? 2 : 4;
    }
    internal = false;
    return found ? Code::Ok : compileOnce(choice, Stage::Plan, made, internal);
  }

  /// Schedules of the catalogue that could be better than what was found.
  void compileFromCatalogue(Choice &choice, Made &made) {
    constexpr int kTries = 4;
    if (!mayGain(choice, made))
      return;
    ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
    const schedule::Objective by = made.objective;
    const spec::Spec searched = choice.spec;
    int tries = 0;
    for (const CatalogueTime &each : catalogueTimes(searched, context)) {
      if (each.time >= timeOf(made) || tries++ == kTries)
        return;
      Choice named{searched, 1};
      named.spec.schedule = {each.name, searched.schedule.mark, {}};
      Made other;
      bool internal = false;
      if (compileOnce(named, Stage::Plan, other, internal) != Code::Ok ||
          pipec::timeOf(other.variant.certificate, by) >= timeOf(made))
        continue;
      // What bounds every placement that the spec allows.
      plan::Certificate &own = other.variant.certificate;
      const plan::Certificate &all = made.variant.certificate;
      std::tie(own.lowerBound, own.bound) = std::pair(all.lowerBound, all.bound);
      std::tie(own.spanLowerBound, own.spanBound) = std::pair(all.spanLowerBound, all.spanBound);
      other.objective = by;
      made = std::move(other);
      choice = std::move(named);
    }
  }

  Code compileOnce(const Choice &choice, Stage until, Made &made, bool &internal) {
    const auto &[spec, buffers] = choice;
    Imported imported = fromSpec(spec, context, buffers);
    OwningOpRef<ModuleOp> &module = imported.module;
    if (!module)
      return imported.code;
    if (until == Stage::Design) {
      made.text = textOf(*module);
      return Code::Ok;
    }
    if (!fits(spec, findPipeline(*module)))
      return Code::Input;
    PassManager manager(&context);
    manager.enableVerifier(false); // Every op was made by our own code; pipe-opt and the tests verify.
    Code code = Code::Ok;
    manager.addInstrumentation(std::make_unique<CodeOfFailure>(code));
    buildPrograms(manager, {.ops = until == Stage::Programs, .visits = compiled.keepVisits});
    std::future<std::string> checked;
    manager.addPass(createTakeWords([&](schedule::Words words) {
      made.words = words;
      size_t letters = 0;
      for (const schedule::Word &word : words)
        letters += word.size();
      // Beside the passes' own walk this holds half as much again.
      const bool pays = until == Stage::Plan && letters >= kManyOperations && letters <= (size_t(1) << 20);
      checked = beside(pays, [problem = problemOf(findPipeline(*module)), words = std::move(words)] {
        return crossCheck(problem, words);
      });
    }));
    buildChecks(manager);
    std::optional<Lowered> lowered;
    manager.addPass(createTakeLowered(lowered));
    if (failed(manager.run(*module)))
      return code;
    if (until == Stage::Programs) {
      made.text = textOf(*module);
      return Code::Ok;
    }
    pipe::PipelineOp pipeline = findPipeline(*module);
    made.problem = problemOf(pipeline);
    if (const std::string differs = checked.get(); !differs.empty()) {
      internal = true;
      pipeline.emitError() << "internal: " << differs << "; please report this spec";
      return Code::Check;
    }
    made.variant = emit::variant(*lowered, made.problem, imported.alternatives, spec.variantName);
    made.variant.schedule = pipeline.getSymName().str();
    made.walk = std::move(lowered->result);
    made.objective = imported.objective;
    if (DictionaryAttr given = pipeline.getParametersAttr())
      for (NamedAttribute each : given)
        if (auto value = dyn_cast<IntegerAttr>(each.getValue()))
          made.parameters[each.getName().str()] = value.getInt();
    // Where this is not one trial of many, the process ends soon; taking a large module apart would cost more than
    // making it.
    if (said == Said::Everything)
      (void)module.release();
    return Code::Ok;
  }

  Stage until;
  Compiled &compiled;
  Failure &failure;
  Said said;
  MLIRContext context;
  FirstError first;
};

} // namespace

bool compile(const std::string &path, const std::vector<std::string> &set, Stage until, Compiled &compiled,
             Failure &failure, Said said) {
  return Compilation(until, compiled, failure, said).run(path, set);
}

} // namespace pipec
