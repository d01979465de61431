#include "compiler/replicas/DataParallel.h"

#include "compiler/driver/DesignLevel.h"
#include "compiler/driver/Diagnostics.h"
#include "compiler/replicas/Exchanges.h"
#include "compiler/schedule/bounds/Bounds.h"
#include "compiler/schedule/catalogue/Catalogue.h"
#include "compiler/schedule/exchange/BoundsExchange.h"
#include "compiler/schedule/exchange/LateWeights.h"
#include "compiler/spec/Spec.h"
#include "runtime/plan/Limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>

using namespace mlir;

namespace pipec {

namespace {

schedule::CollectiveTimes timesOf(const spec::DataParallel &replicas) {
  if (!replicas.allReduce)
    return schedule::ringOf(replicas.degree.value, {replicas.link.latency, replicas.link.bandwidth});
  const auto of = [](const spec::CollectiveCost &cost) {
    return schedule::CollectiveTime{cost.start, cost.bandwidth, 1, 1};
  };
  const schedule::CollectiveTime whole = of(*replicas.allReduce);
  return {whole, replicas.reduceScatter ? of(*replicas.reduceScatter) : whole.half(),
          replicas.allGather ? of(*replicas.allGather) : whole.half()};
}

schedule::ExchangedLayer exchangedOf(const spec::Layer &layer) {
  schedule::ExchangedLayer made;
  made.forward = layer.forward;
  made.backwardInput = layer.backwardInput;
  made.backwardWeight = layer.backwardWeight;
  made.backward = layer.backward > 0 ? layer.backward : layer.backwardInput + layer.backwardWeight;
  made.update = layer.optimizer;
  made.tensors = layer.tensors;
  made.weights = layer.weights > 0 ? layer.weights : layer.gradients;
  made.state = layer.optimizerState;
  return made;
}

constexpr int64_t kMostPieces = 1 << 16; // of tensors

/// The rows of one spec.
class PolicySweep {
public:
  PolicySweep(const spec::Spec &spec, const Compiled &compiled, MLIRContext &context, const Say &say)
      : spec(spec), problem(compiled.problems.front()), say(say),
        replicas(replicasOf(spec, problem,
                            {compiled.plan.variants.front().cut.begin(), compiled.plan.variants.front().cut.end()})),
        words(compiled.words.front()), context(context), exchanges(of(words)), stagesByRank(problem.stagesByRank()),
        ready(exchanges.readyOf(replicas)) {}

  std::vector<PolicyRow> run() {
    for (const schedule::Policy &policy : schedule::policies()) {
      say(fmt::format("trying {} …", policy.name));
      add(policy);
    }
    addAuto();
    std::sort(rows.begin(), rows.end(), [](const PolicyRow &one, const PolicyRow &other) {
      return std::pair(one.span, std::string_view(one.policy)) < std::pair(other.span, std::string_view(other.policy));
    });
    return std::move(rows);
  }

private:
  Exchanges of(const schedule::Words &words) const {
    return {problem, words, pipe::Communicator(spec.communicator.value), context};
  }

  schedule::Replicas whole() const { // the published policies update whole layers
    schedule::Replicas own = replicas;
    own.mayShard = false;
    return own;
  }

  plan::Time boundOf(const schedule::Replicas &own, const schedule::MayExchange &may) const {
    schedule::Problem bare = problem;
    for (schedule::Stage &stage : bare.stages)
      stage.optimizer = 0;
    return std::max(schedule::lowerBounds(bare).span, schedule::exchangeBound(problem, own, may));
  }

  void add(const schedule::Policy &policy) {
    const schedule::Replicas own = whole();
    const schedule::ExchangeInput input{own, stagesByRank, ready};
    schedule::PolicyParameters parameters;
    if (policy.bundle != 0)
      parameters.bundle = policy.bundle;
    std::vector<schedule::Bytes> bundles{parameters.bundle};
    const bool isOwn = spec.dataParallel.policy.value == policy.name;
    const auto given = [&](const char *name, int64_t &into) {
      const auto found = spec.dataParallel.parameters.find(name);
      if (!isOwn || found == spec.dataParallel.parameters.end() || found->second.value < 0)
        return false;
      into = found->second.value;
      return true;
    };
    bool tries = policy.triesBundles;
    if (given("bundle", parameters.bundle)) {
      bundles = {parameters.bundle};
      tries = false;
    }
    given("first", parameters.first);
    given("cycle", parameters.cycle);
    given("piece", parameters.piece);
    given("credit", parameters.credit);
    if (tries)
      bundles = sizes();
    PolicyRow row;
    row.policy = policy.name;
    row.span = Exchanges::kNever;
    if (piecesOf(parameters.piece) > kMostPieces && policy.name == "bytescheduler") {
      row.wrong = fmt::format("has more than {} pieces", kMostPieces);
      return rows.push_back(std::move(row));
    }
    schedule::Exchange best;
    for (const schedule::Bytes bundle : bundles) {
      parameters.bundle = bundle;
      schedule::Exchange exchange = policy.make(input, parameters);
      const plan::Time span = exchanges.spanOf(own, exchange);
      if (span >= row.span)
        continue;
      row.span = span;
      row.bundle = tries ? bundle : -1;
      best = std::move(exchange);
    }
    if (policy.compiles && (bestPublished.queues.empty() || row.span < bestSpan)) {
      bestPublished = best;
      bestSpan = row.span;
    }
    finish(std::move(row), own, best, {!policy.decoupled, policy.decoupled}, exchanges);
  }

  /// Of all tensors.
  __int128 piecesOf(schedule::Bytes piece) const {
    __int128 pieces = 0;
    for (const auto &layers : replicas.layers)
      for (const schedule::ExchangedLayer &layer : layers)
        for (const schedule::Bytes tensor : layer.tensors)
          pieces += (__int128(tensor) + piece - 1) / piece;
    return pieces;
  }

  /// Sizes of bundles that make different ones, half a MiB apart up to 256 MiB; and a layer each.
  std::vector<schedule::Bytes> sizes() const {
    constexpr schedule::Bytes kStep = 512 << 10, kMost = 256 << 20;
    std::vector<schedule::Bytes> all;
    std::vector<std::vector<int32_t>> last;
    for (schedule::Bytes size = 0; size <= kMost; size += kStep) {
      std::vector<std::vector<int32_t>> bundles;
      for (const auto &layers : replicas.layers)
        bundles.push_back(schedule::bundlesBelow(layers, size));
      if (bundles == last)
        continue;
      all.push_back(size);
      last = std::move(bundles);
    }
    return all;
  }

  void finish(PolicyRow row, const schedule::Replicas &own, const schedule::Exchange &exchange,
              const schedule::MayExchange &may, const Exchanges &exchanges) {
    if (row.span == Exchanges::kNever) {
      row.wrong = "takes too long, or does not fit into memory";
      return rows.push_back(std::move(row));
    }
    schedule::Replicas instant = own;
    instant.times = {};
    schedule::Exchange bare = exchange;
    for (std::vector<schedule::Collective> &queue : bare.queues)
      for (schedule::Collective &each : queue)
        each.rounds = 0;
    row.exposed = row.span - exchanges.spanOf(instant, bare);
    row.bound = boundOf(own, may);
    for (const std::vector<schedule::Collective> &queue : exchange.queues)
      row.collectives.push_back(int64_t(queue.size()));
    rows.push_back(std::move(row));
  }

  void addAuto() {
    say("trying auto …");
    const spec::DataParallel &given = spec.dataParallel;
    schedule::Replicas own = replicas;
    own.mayShard = !given.shard || given.shard->value == spec::Shard::Optimizer;
    schedule::ExchangeChoice choice;
    const spec::Collective collective = given.collective ? given.collective->value : spec::Collective::Auto;
    choice.mayReduce = collective != spec::Collective::Decoupled;
    choice.mayDecouple = collective != spec::Collective::AllReduce;
    if (given.fusion && given.fusion->value >= 0)
      choice.fusion = given.fusion->value;
    const schedule::MayExchange may{choice.mayReduce, choice.mayDecouple};
    choice.lower = boundOf(own, may);
    // What is judged is as much work for a few large steps as for many small ones.
    constexpr int64_t kLetters = 2'000'000, kLayers = 10'000'000, kLeast = 300, kMost = 24'000;
    int64_t letters = 0, layers = 0;
    for (const schedule::Word &word : words)
      letters += int64_t(word.size());
    for (const auto &stage : replicas.layers)
      layers += int64_t(stage.size());
    const std::vector<Order> orders = ordersFor(own, choice);
    choice.most = std::clamp(std::min(kLetters / letters, kLayers / layers), kLeast, kMost) / int64_t(orders.size());
    Chosen best;
    for (const Order &each : orders)
      choose(own, choice, each, best);
    PolicyRow row;
    row.policy = "auto";
    row.span = best.time;
    // What is left to it may also be what a published policy does.
    const bool isOpen = !choice.fusion && choice.mayReduce && choice.mayDecouple;
    if (isOpen && bestSpan < best.time) {
      row.span = bestSpan;
      finish(std::move(row), whole(), bestPublished, may, exchanges);
    } else {
      finish(std::move(row), own, best.exchange, may, of(best.words));
    }
  }

  /// Words, and how many W at the end of each are cut into layers (schedule::Exchange::tails).
  struct Order {
    schedule::Words words;
    std::vector<int32_t> tails;
  };
  /// An exchange, and the words that it goes with.
  struct Chosen : schedule::ChosenExchange {
    Chosen() { time = Exchanges::kNever; }
    schedule::Words words;
  };

  /// Makes `best` the best exchange of this order, if it is better.
  void choose(const schedule::Replicas &own, const schedule::ExchangeChoice &choice, const Order &order,
              Chosen &best) const {
    const Exchanges others = of(order.words);
    schedule::ChosenExchange made = schedule::chooseExchange({own, stagesByRank, others.readyOf(own, order.tails)},
                                                             choice, [&](const schedule::Exchange &exchange) {
                                                               schedule::Exchange with = exchange;
                                                               with.tails = order.tails;
                                                               return others.spanOf(own, with);
                                                             });
    if (made.time >= best.time)
      return;
    made.exchange.tails = order.tails;
    static_cast<schedule::ChosenExchange &>(best) = std::move(made);
    best.words = order.words;
  }

  /// The most promising orders, by what they take with each layer by itself: of the spec's words, and with `schedule:
  /// auto` of those whose W run later.
  std::vector<Order> ordersFor(const schedule::Replicas &own, const schedule::ExchangeChoice &choice) const {
    constexpr size_t kTaken = 2;
    std::vector<schedule::Words> all{words};
    if (spec.schedule.name == "auto" && problem.backward == schedule::BackwardMode::Split && choice.mayDecouple)
      addLate(all);
    struct Tried {
      plan::Time time;
      size_t number;
      Order order;
    };
    std::vector<Tried> tried;
    for (const schedule::Words &each : all) {
      const Exchanges others = of(each);
      std::vector<std::vector<int32_t>> tails{{}};
      if (std::vector<int32_t> behind = others.tails(); !behind.empty())
        tails.push_back(std::move(behind));
      for (std::vector<int32_t> &cut : tails) {
        schedule::Exchange exchange =
            schedule::layerByLayer({own, stagesByRank, others.readyOf(own, cut)}, own.mayShard);
        exchange.tails = cut;
        tried.push_back({others.spanOf(own, exchange), tried.size(), {each, std::move(cut)}});
      }
    }
    std::sort(tried.begin(), tried.end(), [](const Tried &one, const Tried &other) {
      return std::pair(one.time, one.number) < std::pair(other.time, other.number);
    });
    tried.resize(std::min(tried.size(), kTaken));
    std::vector<Order> best;
    for (Tried &each : tried)
      best.push_back(std::move(each.order));
    return best;
  }

  /// Adds words whose W run late, each a little later than the one before.
  void addLate(std::vector<schedule::Words> &all) const {
    constexpr int32_t kLatest = 16;
    std::vector<schedule::Words> from{words};
    for (const char *name : {"zb-h1", "zb-h2"})
      if (const schedule::Entry *entry = schedule::find(name); entry && schedule::check(*entry, problem, {}).empty())
        from.push_back(schedule::wordsOf(*entry, problem, {}));
    for (const schedule::Words &each : from)
      for (int32_t late = 0; late <= kLatest; ++late)
        for (const int32_t more : {0, 1, 2}) {
          schedule::Words made =
              schedule::withLateWeights(problem, each, [&](int32_t rank) { return late + more * rank; });
          if (schedule::verify(problem, made).empty() && std::find(all.begin(), all.end(), made) == all.end())
            all.push_back(std::move(made));
        }
  }

  const spec::Spec &spec;
  const schedule::Problem &problem;
  const Say &say;
  const schedule::Replicas replicas;
  const schedule::Words &words;
  MLIRContext &context;
  const Exchanges exchanges; // of these words
  const std::vector<std::vector<int32_t>> stagesByRank;
  const schedule::Ready ready;
  std::vector<PolicyRow> rows;
  schedule::Exchange bestPublished; // of those that a plan can be made of
  plan::Time bestSpan = 0;
};

} // namespace

schedule::Replicas replicasOf(const spec::Spec &spec, const schedule::Problem &problem,
                              const std::vector<int64_t> &cut) {
  const spec::DataParallel &given = spec.dataParallel;
  schedule::Replicas made;
  made.degree = given.degree.value;
  made.times = timesOf(given);
  made.mayShard = !given.shard || given.shard->value == spec::Shard::Optimizer;
  made.sharesPort = given.sharesPort;
  made.round = given.round;
  made.layers.resize(problem.stages.size());
  if (!spec.layers) {
    for (size_t s = 0; s != problem.stages.size(); ++s) {
      const schedule::Stage &stage = problem.stages[s];
      made.layers[s].push_back({stage.forward,
                                stage.backward,
                                stage.backwardInput,
                                stage.backwardWeight,
                                stage.optimizer,
                                {spec.gradients[s]},
                                spec.gradients[s],
                                0});
    }
    return made;
  }
  size_t entry = 0;
  int64_t used = 0; // layers of it
  for (size_t s = 0; s != problem.stages.size(); ++s) {
    schedule::Time updates = 0;
    for (int64_t i = 0; i != cut[s]; ++i) {
      made.layers[s].push_back(exchangedOf(spec.layers->entries[entry]));
      updates += made.layers[s].back().update;
      if (++used == spec.layers->entries[entry].count) {
        ++entry;
        used = 0;
      }
    }
    // What a stage updates beside its layers comes with the last of them.
    made.layers[s].back().update += problem.stages[s].optimizer - updates;
  }
  return made;
}

/// What a policy fixes, the spec may repeat and not contradict.
static LogicalResult checkPolicy(const spec::Spec &spec, MLIRContext &context) {
  const spec::DataParallel &given = spec.dataParallel;
  const schedule::Policy *policy = schedule::findPolicy(given.policy.value);
  const auto error = [&](const spec::Mark &mark) { return emitError(locationOf(spec, mark, context)); };
  for (const auto &[name, value] : given.parameters) {
    const auto has = [&](std::string_view each) { return each == name; };
    if (!policy || llvm::none_of(policy->parameters, has))
      return error(value.mark) << "data_parallel.policy." << name << ": " << given.policy.value
                               << " has no such parameter";
    if (value.value < 0 && !policy->triesBundles)
      return error(value.mark) << "data_parallel.policy." << name << ": expected a size, found best, which dear and "
                               << "dear-queue take";
  }
  if (!policy)
    return success();
  if (given.collective && given.collective->value != spec::Collective::Auto &&
      (given.collective->value == spec::Collective::Decoupled) != policy->decoupled)
    return error(given.collective->mark) << "data_parallel.collective: " << policy->name << " sums by "
                                         << (policy->decoupled ? "decoupled" : "all_reduce") << ", found "
                                         << (policy->decoupled ? "all_reduce" : "decoupled");
  if (given.fusion)
    return error(given.fusion->mark) << "data_parallel.fusion: " << policy->name << " has bundles of its own";
  if (given.shard && given.shard->value == spec::Shard::Optimizer)
    return error(given.shard->mark) << "data_parallel.shard: " << policy->name
                                    << " updates whole layers, found optimizer";
  return success();
}

/// What the walk of an exchange cannot do yet, or has nothing to do with.
static LogicalResult checkExchange(const spec::Spec &spec, const Compiled &compiled, MLIRContext &context) {
  const spec::DataParallel &given = spec.dataParallel;
  const schedule::Problem &problem = compiled.problems.front();
  const auto error = [&](const spec::Mark &mark) { return emitError(locationOf(spec, mark, context)); };
  if (given.degree.value < 2)
    return error(given.degree.mark.line > 1 ? given.degree.mark : given.mark)
           << "data_parallel.degree: expected 2 replicas or more, found " << given.degree.value;
  if (problem.copies > 1 || problem.slices > 1)
    return error(given.degree.mark) << "data_parallel.degree: replicas of "
                                    << (problem.copies > 1 ? "two copies" : "slices") << " are not supported yet";
  if (spec.weights.value == spec::Weights::Fill)
    return error(spec.weights.mark) << "weights: fill with replicas is not supported yet";
  if (given.sharesPort)
    return error(given.mark) << "data_parallel.port: shared is not supported yet";
  constexpr int64_t kMostLayers = 4096;
  if (spec.layers && spec.layers->count() > kMostLayers)
    return error(spec.layers->mark) << "layers: expected at most " << kMostLayers << " with replicas, found "
                                    << spec.layers->count();
  size_t tensors = 0;
  for (size_t i = 0; spec.layers && i != spec.layers->entries.size(); ++i)
    tensors += spec.layers->entries[i].tensors.size() * size_t(spec.layers->entries[i].count);
  if (tensors > size_t(kMostPieces))
    return error(spec.layers->mark) << "layers: expected at most " << kMostPieces << " tensors with replicas, found "
                                    << tensors;
  const auto isPositive = [](int64_t bytes) { return bytes > 0; };
  const bool any = spec.layers
                       ? llvm::any_of(spec.layers->entries, [](const spec::Layer &each) { return each.gradients > 0; })
                       : llvm::any_of(spec.gradients.values, isPositive);
  if (!any)
    return error(given.mark) << "data_parallel: there is nothing to exchange: give "
                             << (spec.layers ? "layers[].gradients" : "tensors.gradients");
  return success();
}

bool sweepDataParallel(const Source &source, const Say &say, std::vector<PolicyRow> &rows, Failure &failure) {
  std::vector<spec::Spec> specs;
  if (!readSpecs(source.path, source.set, specs, failure))
    return false;
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<pipe::PipeDialect>();
  const FirstError first(context, failure, Said::Everything);
  const auto refused = [&](LogicalResult result) {
    if (failed(result))
      failure.code = Code::Input;
    return failed(result);
  };
  if (specs.size() > 1)
    return !refused(emitError(locationOf(specs.front(), {}, context))
                    << "a sweep of policies is of one spec, found variants: leave 'variants' out");
  if (refused(checkPolicy(specs.front(), context)))
    return false;
  // The order is that of one replica.
  std::vector<std::string> one = source.set;
  one.emplace_back("data_parallel.degree=1");
  Compiled compiled;
  compiled.encodes = false;
  if (!compile(source.path, one, Stage::Plan, compiled, failure))
    return false;
  if (refused(checkExchange(specs.front(), compiled, context)))
    return false;
  rows = PolicySweep(specs.front(), compiled, context, say).run();
  return true;
}

} // namespace pipec
