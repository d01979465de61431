#include "compiler/replicas/PolicyExchanges.h"

#include "compiler/schedule/catalogue/Catalogue.h"
#include "compiler/schedule/exchange/LateWeights.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

using namespace mlir;

namespace pipec {

static constexpr int64_t kMostPieces = 1 << 16; // of tensors

bool searchesExchange(const spec::Spec &spec) {
  const schedule::Policy *policy = schedule::findPolicy(spec.dataParallel.policy.value);
  return spec.dataParallel.degree.value > 1 && (!policy || policy->triesBundles);
}

PolicyExchanges::PolicyExchanges(const spec::Spec &spec, const schedule::Problem &problem, const schedule::Words &words,
                                 const std::vector<int64_t> &cut, MLIRContext &context, std::stop_token stop)
    : spec(spec), problem(problem), words(words), context(context), stop(std::move(stop)),
      replicas(replicasOf(spec, problem, cut)), exchanges(of(words)), stagesByRank(problem.stagesByRank()),
      ready(exchanges.readyOf(replicas)) {}

/// As the published policies use them, which update whole layers.
schedule::Replicas PolicyExchanges::whole() const {
  schedule::Replicas own = replicas;
  own.mayShard = false;
  return own;
}

/// Of all tensors.
__int128 PolicyExchanges::piecesOf(schedule::Bytes piece) const {
  __int128 pieces = 0;
  for (const auto &layers : replicas.layers)
    for (const schedule::ExchangedLayer &layer : layers)
      for (const schedule::Bytes tensor : layer.tensors)
        pieces += (__int128(tensor) + piece - 1) / piece;
  return pieces;
}

/// Sizes of bundles that make different ones, half a MiB apart up to 256 MiB; and a layer each.
std::vector<schedule::Bytes> PolicyExchanges::sizes() const {
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

PolicyExchange PolicyExchanges::published(const schedule::Policy &policy) const {
  PolicyExchange made;
  made.policy = policy.name;
  made.words = words;
  made.replicas = whole();
  made.may = {!policy.decoupled, policy.decoupled};
  schedule::PolicyParameters parameters;
  if (policy.bundle != 0)
    parameters.bundle = policy.bundle;
  const bool isOwn = spec.dataParallel.policy.value == policy.name;
  const auto given = [&](const char *name, int64_t &into) {
    const auto found = spec.dataParallel.parameters.find(name);
    if (!isOwn || found == spec.dataParallel.parameters.end() || found->second.value < 0)
      return false;
    into = found->second.value;
    return true;
  };
  const bool tries = !given("bundle", parameters.bundle) && policy.triesBundles;
  given("first", parameters.first);
  given("cycle", parameters.cycle);
  given("piece", parameters.piece);
  given("credit", parameters.credit);
  if (piecesOf(parameters.piece) > kMostPieces && policy.name == "bytescheduler") {
    made.wrong = fmt::format("has more than {} pieces", kMostPieces);
    return made;
  }
  for (const schedule::Bytes bundle : tries ? sizes() : std::vector<schedule::Bytes>{parameters.bundle}) {
    if (made.found() && stop.stop_requested())
      break;
    parameters.bundle = bundle;
    schedule::Exchange exchange = policy.make({made.replicas, stagesByRank, ready}, parameters);
    const plan::Time span = exchanges.spanOf(made.replicas, exchange);
    if (span >= made.span)
      continue;
    made.span = span;
    made.bundle = tries ? bundle : -1;
    made.exchange = std::move(exchange);
  }
  if (!made.found())
    made.wrong = "takes too long, or does not fit into memory";
  return made;
}

schedule::ExchangeChoice PolicyExchanges::choiceFor(Sharding sharding) const {
  schedule::ExchangeChoice choice;
  choice.stop = stop;
  const schedule::MayExchange may = mayOf(spec);
  choice.mayReduce = may.whole && sharding != Sharding::All;
  choice.mayDecouple = may.decoupled;
  if (const auto &fusion = spec.dataParallel.fusion; fusion && fusion->value >= 0)
    choice.fusion = fusion->value;
  return choice;
}

/// Judging is as much work for a few large steps as for many small ones.
int64_t PolicyExchanges::mostJudged() const {
  constexpr int64_t kLetters = 2'000'000, kLayers = 10'000'000, kLeast = 300, kMost = 24'000;
  int64_t letters = 0, layers = 0;
  for (const schedule::Word &word : words)
    letters += int64_t(word.size());
  for (const auto &stage : replicas.layers)
    layers += int64_t(stage.size());
  return std::clamp(std::min(kLetters / letters, kLayers / layers), kLeast, kMost);
}

PolicyExchange PolicyExchanges::searched(Sharding sharding, const std::vector<PolicyExchange> &others) const {
  PolicyExchange best;
  best.policy = "auto";
  best.replicas = replicas;
  best.replicas.mayShard &= sharding != Sharding::None;
  schedule::ExchangeChoice choice = choiceFor(sharding);
  best.may = {choice.mayReduce, choice.mayDecouple};
  choice.lower = boundsOf(best).span.picoseconds();
  const std::vector<Order> orders = ordersFor(best.replicas, choice);
  choice.most = mostJudged() / int64_t(orders.size());
  for (const Order &each : orders)
    choose(choice, each, best);
  if (schedule::ExchangeChoice halves = choice; halves.mayReduce && halves.mayDecouple) {
    halves.mayReduce = false; // where bundles are all of one sort, moves lead further
    choose(halves, orders.front(), best);
  }
  const bool isOpen = !choice.fusion && choice.mayReduce && choice.mayDecouple;
  for (const PolicyExchange &other : others)
    if (const schedule::Policy *policy = schedule::findPolicy(other.policy);
        isOpen && policy && policy->compiles && other.span < best.span) {
      best = other;
      best.policy = "auto";
      best.bundle = -1;
      best.may = {true, true};
    }
  if (!best.found())
    best.wrong = "takes too long, or does not fit into memory";
  return best;
}

PolicyExchange PolicyExchanges::chosen(Sharding sharding) const {
  if (const schedule::Policy *policy = schedule::findPolicy(spec.dataParallel.policy.value))
    return published(*policy);
  std::vector<PolicyExchange> others;
  for (const schedule::Policy &policy : schedule::policies())
    if (policy.compiles && sharding != Sharding::All && (others.empty() || !stop.stop_requested()))
      others.push_back(published(policy));
  return searched(sharding, others);
}

/// Makes `best` the best exchange of this order, if it is better.
void PolicyExchanges::choose(const schedule::ExchangeChoice &choice, const Order &order, PolicyExchange &best) const {
  const Exchanges others = of(order.words);
  schedule::ChosenExchange made =
      schedule::chooseExchange({best.replicas, stagesByRank, others.readyOf(best.replicas, order.tails)}, choice,
                               [&](const schedule::Exchange &exchange) {
                                 schedule::Exchange with = exchange;
                                 with.tails = order.tails;
                                 return others.spanOf(best.replicas, with);
                               });
  if (made.time >= best.span)
    return;
  best.span = made.time;
  best.exchange = std::move(made.exchange);
  best.exchange.tails = order.tails;
  best.words = order.words;
}

/// The most promising orders, by what they take with each layer by itself: of the spec's words, and with `schedule:
/// auto` of those whose W run later.
std::vector<PolicyExchanges::Order> PolicyExchanges::ordersFor(const schedule::Replicas &own,
                                                               const schedule::ExchangeChoice &choice) const {
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
    if (!tried.empty() && stop.stop_requested())
      break;
    const Exchanges others = of(each);
    std::vector<std::vector<int32_t>> tails{{}};
    if (std::vector<int32_t> behind = others.tails(); !behind.empty())
      tails.push_back(std::move(behind));
    for (std::vector<int32_t> &cut : tails) {
      schedule::Exchange exchange = schedule::layerByLayer({own, stagesByRank, others.readyOf(own, cut)}, own.mayShard);
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
void PolicyExchanges::addLate(std::vector<schedule::Words> &all) const {
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

schedule::LeastTimes PolicyExchanges::boundsOf(const PolicyExchange &of) const {
  schedule::Problem least = problem;
  if (of.replicas.mayShard && of.may.decoupled &&
      !least.staticBytes.empty()) { // so far with the state of whole updates
    const std::vector<schedule::Bytes> saved = savedByRank(of.replicas, least);
    for (size_t rank = 0; rank != saved.size(); ++rank)
      least.staticBytes[rank] -= saved[rank];
  }
  schedule::LeastTimes bounds = schedule::leastTimes(leastOfReplica(std::move(least), spec));
  if (const auto exchange = plan::LeastTime::proven(schedule::exchangeBound(problem, of.replicas, of.may));
      exchange > bounds.span) {
    bounds.span = exchange;
    bounds.spanArgument = schedule::Argument::Exchange;
  }
  return bounds;
}

plan::Time PolicyExchanges::exposedOf(const PolicyExchange &of) const {
  schedule::Replicas instant = of.replicas;
  instant.times = {};
  schedule::Exchange bare = of.exchange;
  for (std::vector<schedule::Collective> &queue : bare.queues)
    for (schedule::Collective &each : queue)
      each.rounds = 0;
  return of.span - this->of(of.words).spanOf(instant, bare);
}

} // namespace pipec
