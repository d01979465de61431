#include "compiler/driver/Compile.h"

#include "compiler/driver/Auto.h"
#include "compiler/driver/BestPlan.h"
#include "compiler/driver/CompileJobs.h"
#include "compiler/driver/CompileMemory.h"
#include "compiler/driver/CompileReplicas.h"
#include "compiler/driver/CrossCheck.h"
#include "compiler/driver/Cut.h"
#include "compiler/driver/DesignLevel.h"
#include "compiler/driver/Diagnostics.h"
#include "compiler/driver/Files.h"
#include "compiler/driver/FromSpec.h"
#include "compiler/driver/Recompute.h"
#include "compiler/emit/BoundsHold.h"
#include "compiler/emit/EmitPlan.h"
#include "compiler/passes/Beside.h"
#include "compiler/passes/Lowered.h"
#include "compiler/passes/Passes.h"
#include "compiler/passes/Roll.h"
#include "compiler/program/BuildPrograms.h"
#include "compiler/program/ProgramText.h"
#include "compiler/shards/LeastProblems.h"
#include "compiler/shards/ShardedRanks.h"
#include "compiler/spec/Reader.h"
#include "compiler/spec/Stages.h"
#include "compiler/widths/CompileBurst.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Load.h"
#include "runtime/plan/Provider.h"
#include "runtime/plan/Write.h"
#include "runtime/plan/rules/Rules.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"

#include <cassert>
#include <chrono>
#include <fmt/format.h>
#include <memory>
#include <set>

using namespace mlir;

namespace pipec {

namespace {

/// One compilation: a context, and every variant through the passes.
class Compilation {
public:
  Compilation(Stage until, Compiled &compiled, Failure &failure, Said said)
      : until(until), compiled(compiled), failure(failure), said(said), context(MLIRContext::Threading::DISABLED),
        first(context, failure, said) {
    context.printOpOnDiagnostic(false);
  }

  bool read(const std::string &input, const std::vector<std::string> &set, std::vector<spec::Spec> &specs) {
    std::vector<spec::Diagnostic> diagnostics;
    const bool done = readSpecs(input, set, specs, diagnostics);
    report(diagnostics, context);
    return done || stop(Code::Input);
  }

  bool run(const std::string &input, const std::vector<std::string> &set) {
    std::vector<spec::Spec> specs;
    return read(input, set, specs) && run(nameOf(input), std::move(specs));
  }

  bool run(const std::string &path, std::vector<spec::Spec> specs) {
    auto begin = std::chrono::steady_clock::now();
    compiled.stages = specs.front().layers && !specs.front().stagesGiven ? 0 : specs.front().stages;
    compiled.hasLayers = specs.front().layers.has_value();
    compiled.choosesCut = compiled.hasLayers && specs.front().layers->choosesCut;
    compiled.choosesRecompute = specs.front().recomputed.chooses;
    compiled.isBurst = specs.front().isBurst();
    compiled.isSharded = hasShards(specs.front());
    const spec::BalanceKind balance = specs.front().tensorParallel.balance.kind.value;
    compiled.ofOwnPortions =
        compiled.isSharded && (balance == spec::BalanceKind::Resize || balance == spec::BalanceKind::Semi);
    // Shards do what their layers say, whole or not.
    compiled.wholeAsParts = specs.front().schedule.name == "auto" && specs.front().has(plan::Figure::BackwardInput) &&
                            !specs.front().has(plan::Figure::Backward) && !compiled.isSharded;
    for (const spec::Spec &spec : specs)
      for (const std::string &file : {spec.path, spec::orderFileOf(spec)})
        if (Status status = keepsInputs(compiled.output, {file}); !status.ok())
          return stop(path, status);
    compiled.degree = degree = specs.front().dataParallel.degree.value;
    const auto differs = [&](const spec::Spec &spec) { return spec.dataParallel.degree.value != degree; };
    if ((degree > 1 || llvm::any_of(specs, differs)) && failed(checkPlans(specs, context, sharding)))
      return stop(Code::Input);
    for (const spec::Spec &spec : specs)
      if (hasShards(spec) && spec.measured) {
        emitError(locationOf(spec, spec.tensorParallel.mark, context))
            << "tensor_parallel: a plan of shards is not made anew for what was measured yet";
        return stop(Code::Input);
      }
    if (until <= Stage::Space) {
      if (specs.front().ofVariants)
        return stop(path, Status::input("a search is of one spec, found variants: leave 'variants' out"));
      if (!compiled.isBurst)
        return space(specs.front());
      return until == Stage::Checked || stop(path, Status::input("a search for orders is of schedules whose stages are "
                                                                 "on one rank each, found burst"));
    }
    makeRoom(specs);
    std::vector<plan::Variant> variants;
    std::vector<std::shared_ptr<Programs>> programs;
    size_t compiledVariants = 0;
    Failure leftOut;
    std::optional<std::vector<int64_t>> cut; // that the first variant has chosen: they share it
    for (spec::Spec &spec : specs) {
      bool internal = false;
      if (cut && spec.layers && spec.layers->choosesCut)
        spec.layers->cut = {*cut, spec.layers->cutMark};
      Code code = compileVariant(spec, variants, programs, internal);
      if (code == Code::Ok) {
        ++compiledVariants;
        if (spec.layers && spec.layers->choosesCut)
          cut = spec.layers->cut->value;
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
    if (until == Stage::Plan)
      warnOfLinks(specs);
    if (!specs.front().jobs.work.empty() && (!variants.empty() || !programs.empty()))
      if (const Code code = addJobs(specs.front(), programs, variants); code != Code::Ok)
        return stop(code);
    for (const std::shared_ptr<Programs> &each : programs)
      compiled.text += textOf(*each);
    if (until != Stage::Plan)
      return true;
    std::vector<uint8_t> provider;
    Status status = plan::providerOf(specs.front().provider.value, provider);
    if (status.ok())
      status = checkBounds(variants);
    compiled.plan = emit::plan(std::move(variants), degree, specs.front().hash, std::move(provider));
    // What looks at the whole of a variant has been asked: check-deadlock passes no variant that breaks a rule, and
    // jobs are placed where their memory fits.
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

  /// Of a link with figures of its own that no variant uses: what it says changes nothing.
  void warnOfLinks(const std::vector<spec::Spec> &specs) {
    if (said != Said::Everything)
      return;
    std::set<std::pair<int32_t, int32_t>> known; // used, or warned of
    for (const schedule::Problem &each : compiled.problems)
      known.merge(each.linksUsed());
    for (const spec::Spec &spec : specs)
      for (const spec::LinkException &link : spec.links)
        if (known.emplace(link.from, link.to).second)
          emitWarning(locationOf(spec, link.mark, context))
              << "costs.links: nothing goes from rank " << link.from << " to rank " << link.to
              << (specs.size() > 1 ? " in any variant" : "") << ", so this link changes nothing";
  }

  static bool readSpecs(const std::string &path, const std::vector<std::string> &set, std::vector<spec::Spec> &specs,
                        std::vector<spec::Diagnostic> &diagnostics) {
    const Kept *kept = keptOf(path);
    if (!kept)
      return spec::readSpecs(path, set, specs, diagnostics);
    if (!kept->status.ok())
      return diagnostics.push_back({nameOf(path), 1, 1, withoutName(kept->status.message, path), {}}), false;
    return spec::readSpecsText({reinterpret_cast<const char *>(kept->bytes.data()), kept->bytes.size()}, nameOf(path),
                               set, specs, diagnostics);
  }

  /// Variants may be of different work: a bound of one may speak of another where it is not.
  Status checkBounds(const std::vector<plan::Variant> &variants) const {
    std::vector<emit::Claim> claims;
    for (size_t v = 0; v != variants.size(); ++v) {
      const plan::Variant &each = variants[v];
      const bool comparable = v < compiled.problems.size() && degree == 1 && each.own.empty();
      claims.push_back({.name = each.name.empty() ? each.schedule : each.name,
                        .certificate = &each.certificate,
                        .problem = comparable ? &compiled.problems[v] : nullptr,
                        .cut = each.cut});
    }
    return emit::checkBounds(claims);
  }

  static std::string textOf(Programs &programs) {
    writePrograms(programs.lowering.set, *programs.module);
    assert(succeeded(verify(*programs.module)) && "programs are written as pipe-opt reads them");
    return pipec::textOf(*programs.module);
  }

  /// Opens the windows of jobs in the variants of a plan, or of programs.
  Code addJobs(const spec::Spec &spec, const std::vector<std::shared_ptr<Programs>> &programs,
               std::vector<plan::Variant> &variants) {
    std::vector<Walked> walked;
    for (size_t v = 0; v != variants.size(); ++v)
      walked.push_back({&variants[v], &compiled.walks[v]});
    for (const std::shared_ptr<Programs> &each : programs) {
      Lowered &lowered = *each->lowering.lowered;
      lowered.variant.certificate.span = lowered.span;
      walked.push_back({&lowered.variant, &lowered.result});
    }
    if (const Code code = pipec::addJobs(spec, said == Said::Everything, walked, context); code != Code::Ok)
      return code;
    for (size_t v = 0; v != variants.size(); ++v)
      simulate::addJobMemory(variants[v], compiled.walks[v]);
    for (plan::Variant &variant : variants)
      for (plan::Program &program : variant.programs)
        roll(program);
    for (const std::shared_ptr<Programs> &each : programs)
      noteWindows(each->lowering.lowered->variant, each->lowering.set);
    return Code::Ok;
  }

  /// What is wrong with the file as a whole.
  bool stop(const std::string &path, const Status &status) {
    emitError(FileLineColLoc::get(&context, path, 1, 1)) << status.message;
    return stop(status.code);
  }

  /// The schedule that the spec names must go with the spec, also where a search then takes its place.
  bool space(const spec::Spec &given) {
    const spec::Spec spec = ofOneReplica(given);
    const bool searches = spec.schedule.name == "auto" && !choosesFromCatalogue(spec);
    if (compiled.choosesCut && until == Stage::Space) {
      emitError(locationOf(spec, spec.layers->cutMark, context))
          << "a search for the exact order is of one cut, found auto: give the layers of each stage, such as those "
             "that "
             "pipec report shows";
      return stop(Code::Input);
    }
    if (compiled.choosesRecompute && until == Stage::Space) {
      emitError(locationOf(spec, spec.recomputed.stages.mark, context))
          << "a search for the exact order is of one choice of stages to recompute, found auto: give a list of stages, "
             "such as that which pipec report shows, or all, or none";
      return stop(Code::Input);
    }
    if (!spec.shared.empty() && until == Stage::Space) {
      emitError(locationOf(spec, spec.shared.front().mark, context))
          << "a search for the exact order does not count the sums of shared weights yet: leave shared out";
      return stop(Code::Input);
    }
    if (!searches)
      if (const Imported imported = fromSpec(spec, context); !imported.module)
        return stop(imported.code);
    if (until == Stage::Least)
      return compiled.leastLimit = leastLimitOf(spec, context), true;
    if (!searches && until == Stage::Checked)
      return true;
    SearchSpace found = searchSpaceOf(spec, context);
    compiled.problems = std::move(found.problems);
    if (until == Stage::Space)
      for (const schedule::Problem &each : compiled.problems) {
        schedule::LeastCases &proofs = compiled.proofs.emplace_back();
        for (const schedule::LeastCases &way : leastWays(spec, {each}))
          proofs.push_back(degree > 1 ? leastOfReplica(way.front().problem(), given) : way.front());
      }
    compiled.objective = found.objective;
    return compiled.problems.empty() ? stop(Code::Input) : true;
  }

  static void makeRoom(const std::vector<spec::Spec> &specs) {
    constexpr int64_t kLarge = int64_t(32) << 20;
    constexpr int64_t kParts = 8; // the heap grows by a part of what there is, else its last growth would not fit
    int64_t most = 0;
    for (const spec::Spec &spec : specs)
      most = std::max(most, bytesToCompile({.stages = spec.stages,
                                            .microbatches = int64_t(spec.microbatches.value) * spec.slices.value,
                                            .anyRings = spec.rings.value == spec::Rings::Any}));
    if (most > kLarge)
      growHeap(size_t(std::min(most, memoryHere().bytes / kParts)));
  }

  /// `internal` says that the failure is pipec's own, not the variant's.
  Code compileVariant(spec::Spec &spec, std::vector<plan::Variant> &variants,
                      std::vector<std::shared_ptr<Programs>> &programs, bool &internal) {
    Made made;
    Code code = spec.isBurst()                         ? compileBurst(spec, made)
                : degree == 1 || until < Stage::Design ? compileReplica(spec, until, made, internal)
                                                       : compileReplicas(spec, made, internal);
    if (code != Code::Ok)
      return code;
    compiled.isCutShort |= compiled.stop.stop_requested() &&
                           (spec.schedule.name == "auto" || compiled.choosesCut || compiled.choosesRecompute);
    compiled.text += made.text;
    if (made.programs && spec.jobs.work.empty())
      compiled.text += textOf(*made.programs);
    else if (made.programs) // their windows are open once all variants are there
      programs.push_back(std::move(made.programs));
    if (until != Stage::Plan)
      return Code::Ok;
    variants.push_back(std::move(made.variant));
    compiled.walks.push_back(std::move(made.walk));
    if (spec.isBurst())
      return Code::Ok; // no order of passes was looked for
    compiled.problems.push_back(std::move(made.problem));
    compiled.words.push_back(std::move(made.words));
    compiled.parameters.push_back(std::move(made.parameters));
    compiled.objective = made.objective;
    return Code::Ok;
  }

  /// Compiles a spec each of whose layers has a width of its own.
  Code compileBurst(const spec::Spec &spec, Made &made) {
    const Location place = locationOf(spec, spec.schedule.mark, context);
    widths::BurstLowering lowering = widths::compileBurst(spec, place, compiled.keepVisits);
    if (lowering.code != Code::Ok)
      return lowering.code;
    if (until != Stage::Plan) {
      made.programs = std::make_shared<Programs>(ModuleOp::create(place), std::move(static_cast<Lowering &>(lowering)));
      return Code::Ok;
    }
    made.variant = std::move(lowering.lowered->variant);
    made.variant.name = spec.variantName;
    made.variant.schedule = spec.schedule.name;
    made.variant.cut = std::move(lowering.cut);
    made.walk = std::move(lowering.lowered->result);
    plan::Certificate &certificate = made.variant.certificate;
    certificate.makespan = made.walk.makespan;
    certificate.span = lowering.lowered->span;
    certificate.lowerBound = certificate.spanLowerBound = plan::LeastTime::proven(lowering.least);
    certificate.bound = certificate.spanBound = plan::Bound::CriticalPath;
    return Code::Ok;
  }

  /// Compiles one replica of a spec, which says the order of the passes, and then all of them.
  Code compileReplicas(spec::Spec &spec, Made &made, bool &internal) {
    if (failed(checkExchange(spec, context)))
      return Code::Input;
    const spec::Spec whole = std::exchange(spec, ofOneReplica(spec));
    if (const Code code = compileReplica(spec, Stage::Plan, made, internal); code != Code::Ok)
      return code;
    ReplicasOptions options{sharding, until};
    options.lower.keepVisits = compiled.keepVisits;
    options.stop = compiled.stop;
    if (said == Said::Everything)
      options.lower.others = [&] { return fittingSchedules(spec, made.problem.stagesOfCopy(), context); };
    const Code code = pipec::compileReplicas(whole, options, context, made);
    compiled.isCutShort |= compiled.stop.stop_requested() && searchesExchange(whole);
    return code;
  }

  /// Compiles one replica of a spec.
  Code compileReplica(spec::Spec &spec, Stage until, Made &made, bool &internal) {
    Choice choice{spec, {1}, {}};
    Code code = Code::Ok;
    const auto settled = [&](const spec::Spec &each, schedule::Time, Made &made, bool &internal) {
      Choice trial{each, {1}, {}};
      return compilePlan(trial, made, internal);
    };
    const auto ofCut = [&](const spec::Spec &each, schedule::Time below, Made &made, bool &internal) {
      if (!each.recomputed.isOpen())
        return settled(each, below, made, internal);
      spec::Spec own = each;
      return compileRecompute(own, context, compiled.stop, settled, below, /*ofMany=*/true, made, internal);
    };
    if (spec.layers && spec.layers->choosesCut && !spec.layers->cut) {
      say(spec, "choosing the cut");
      code = compileCut(spec, context, compiled.stop, ofCut, made, internal);
    }
    if (code == Code::Ok && spec.recomputed.isOpen()) {
      say(spec, "choosing the stages to recompute");
      code = chooseRecompute(spec, settled, made, internal);
    }
    choice.spec = spec;
    // Where less than a plan is asked for, only a search must have made one: it says what to go on with.
    if (code == Code::Ok && (until == Stage::Plan ? made.variant.programs.empty() : searches(choice.spec)))
      code = compilePlan(choice, made, internal);
    if (code == Code::Ok && until != Stage::Plan)
      code = compileOnce(choice, until, made, internal);
    if (code == Code::Ok && until == Stage::Plan && choice.spec.measured)
      code = asTheSpecSays(choice.spec, made, internal);
    return code;
  }

  /// Gives a plan that was made for what was measured the costs and the network of its spec.
  Code asTheSpecSays(spec::Spec spec, Made &made, bool &internal) {
    spec.measured.reset();
    const auto withOwn = [&](schedule::Problem &problem) {
      std::optional<schedule::Problem> own = withFigures(spec, std::move(problem), context);
      if (own)
        problem = std::move(*own);
      return own.has_value();
    };
    if (!withOwn(made.problem) || !llvm::all_of(made.alternatives, withOwn))
      return Code::Input;
    setTimes(made.problem, made.variant);
    made.variant.cutBound = {}; // of other times
    plan::Time span = 0;
    Status status = plan::verify(made.variant);
    if (status.ok())
      status = simulate::span(made.variant, span, made.walk);
    made.variant.certificate =
        emit::certificate(made.walk.makespan, span, schedule::leastTimes(leastWays(spec, placementsOf(made))));
    if (!status.ok()) {
      internal = true;
      emitError(locationOf(spec, spec.schedule.mark, context))
          << "internal: " << status.message << "; please report this spec";
      return Code::Check;
    }
    if (spec.recomputed.chooses)
      emit::widen(made.variant.certificate, choicesFor(spec, made));
    return Code::Ok;
  }

  /// Leaves in `made` the best plan, which may be there already, of the cut that has been chosen.
  Code chooseRecompute(spec::Spec &spec, CompileSpec compile, Made &made, bool &internal) {
    const bool found = !made.variant.programs.empty();
    Made other;
    const Code code = compileRecompute(spec, context, compiled.stop, compile, found ? timeOf(made) : 0,
                                       /*ofMany=*/false, other, internal);
    if (code == Code::Ok) {
      other.variant.cutBound = made.variant.cutBound;
      made = std::move(other);
    } else if (!found) {
      return code;
    }
    std::vector<int64_t> chosen; // its other copies are recomputed with a stage
    for (const int32_t stage : plan::stagesDoing(made.variant, plan::kRecomputation))
      if (stage < made.variant.stagesOfCopy())
        chosen.push_back(stage);
    spec.recomputed.choose(std::move(chosen));
    emit::widen(made.variant.certificate, choicesFor(spec, made));
    return Code::Ok;
  }

  static std::vector<schedule::Problem> placementsOf(const Made &made) {
    std::vector<schedule::Problem> all{made.problem};
    all.insert(all.end(), made.alternatives.begin(), made.alternatives.end());
    return all;
  }

  /// What bounds the plans of all choices of stages to recompute. With shards an R only adds time.
  schedule::LeastWays choicesFor(spec::Spec spec, const Made &made) {
    if (!hasShards(spec))
      return choicesOf(spec, context);
    spec.recomputed.choose({});
    return leastWays(spec, placementsOf(made), made.variant.portions);
  }

  static bool searches(const spec::Spec &spec) { return spec.schedule.name == "auto" && !choosesFromCatalogue(spec); }

  /// Compiles a spec that has a cut to its plan. Leaves in `choice` what that was made from.
  Code compilePlan(Choice &choice, Made &made, bool &internal) {
    const auto once = [this](const Choice &each, Made &made, bool &internal) {
      return compileOnce(each, Stage::Plan, made, internal);
    };
    return searches(choice.spec) ? compileAuto(choice, context, compiled.stop, once, made, internal)
                                 : once(choice, made, internal);
  }

  Code compileOnce(const Choice &choice, Stage until, Made &made, bool &internal) {
    const spec::Spec &spec = choice.spec;
    SearchRoom room = choice.room;
    room.makesPrograms = until != Stage::Design;
    room.stop = compiled.stop;
    ++attempts;
    say(spec, "making the order");
    Imported imported = fromSpec(spec, context, room);
    OwningOpRef<ModuleOp> &module = imported.module;
    if (!module)
      return imported.code;
    if (until == Stage::Design) {
      made.text = pipec::textOf(*module);
      return Code::Ok;
    }
    pipe::PipelineOp pipeline = findPipeline(*module);
    std::future<std::string> checked;
    LowerPipelineOptions options;
    options.keepVisits = compiled.keepVisits;
    options.see = [&](const ProgramSet &set) {
      made.words = wordsOf(set);
      // Of more, what runs beside the other passes would hold half as much memory again.
      const size_t count = set.instructions();
      const bool pays = count >= kManyOperations && count <= (size_t(3) << 19);
      auto seen = std::make_shared<std::promise<void>>();
      checked = beside(pays, [problem = problemOf(pipeline), &words = made.words, &set, seen] {
        const plan::Variant ideal = idealOf(set);
        seen->set_value();
        return crossCheck(problem, words, ideal);
      });
      if (checked.wait_for(std::chrono::seconds(0)) == std::future_status::deferred)
        checked.wait();
      return seen->get_future();
    };
    if (said == Said::Everything)
      options.others = [&] { return fittingSchedules(spec, problemOf(pipeline).stagesOfCopy(), context); };
    say(spec, "making and checking the programs");
    Lowering lowering = lowerPipeline(pipeline, options);
    if (lowering.code != Code::Ok)
      return lowering.code;
    if (until == Stage::Programs) {
      made.programs = std::make_shared<Programs>(std::move(module), std::move(lowering));
      return Code::Ok;
    }
    if (choice.searched) {
      SearchSpace space = searchSpaceOf(*choice.searched, context);
      imported.alternatives = std::move(space.problems);
      imported.objective = space.objective;
    }
    made.problem = problemOf(pipeline);
    if (const std::string differs = checked.get(); !differs.empty()) {
      internal = true;
      pipeline.emitError() << "internal: " << differs << "; please report this spec";
      return Code::Check;
    }
    made.alternatives = std::move(imported.alternatives);
    made.variant = emit::variant(
        *lowering.lowered, leastWays(spec, placementsOf(made), lowering.lowered->variant.portions), spec.variantName);
    made.placesTransfers = pipeline.placesTransfers();
    made.variant.schedule = pipeline.getSymName().str();
    const std::vector<int64_t> cut = spec::cutOf(spec, made.variant.stagesOfCopy());
    made.variant.cut.assign(cut.begin(), cut.end());
    made.walk = std::move(lowering.lowered->result);
    made.objective = imported.objective;
    if (DictionaryAttr given = pipeline.getParametersAttr())
      for (NamedAttribute each : given)
        if (auto value = dyn_cast<IntegerAttr>(each.getValue()))
          made.parameters[each.getName().str()] = value.getInt();
    return Code::Ok;
  }

  /// Tells the caller what the compile does now: for which schedule, and in which attempt.
  void say(const spec::Spec &spec, const std::string &what) {
    if (compiled.says)
      compiled.says(fmt::format("{}{}: {}", spec.schedule.name,
                                attempts > 1 ? fmt::format(", attempt {}", attempts) : std::string(), what));
  }

  Stage until;
  int64_t attempts = 0; // plans begun
  int32_t degree = 1;   // replicas of each rank
  Sharding sharding = Sharding::Any;
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

bool compile(const spec::Spec &spec, Compiled &compiled, Failure &failure, Said said) {
  return Compilation(Stage::Plan, compiled, failure, said).run(spec.path, {spec});
}

bool readSpecs(const std::string &path, const std::vector<std::string> &set, std::vector<spec::Spec> &specs,
               Failure &failure, Said said) {
  Compiled ignored;
  return Compilation(Stage::Checked, ignored, failure, said).read(path, set, specs);
}

} // namespace pipec
