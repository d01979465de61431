// The exchange of a spec's replicas under each policy: of a published one, or found by a search.
#pragma once

#include "compiler/passes/Exchanges.h"
#include "compiler/replicas/SpecReplicas.h"
#include "compiler/schedule/bounds/Bounds.h"
#include "compiler/schedule/exchange/BoundsExchange.h"
#include "compiler/schedule/exchange/ChooseExchange.h"
#include "compiler/schedule/exchange/Policies.h"

#include <stop_token>
#include <string>

namespace pipec {

/// An exchange, the order that it goes with, and what a step then takes.
struct PolicyExchange {
  std::string policy;
  schedule::Exchange exchange;
  schedule::Words words;
  schedule::Replicas replicas; // as the policy uses them
  schedule::MayExchange may;
  plan::Time span = Exchanges::kNever;
  schedule::Bytes bundle = -1; // that `best` has found; -1: the policy has none, or was given one
  std::string wrong;           // why there is none; empty: there is one

  bool found() const { return span != Exchanges::kNever; }
};

/// Whether the exchange of a spec's policy is searched for.
bool searchesExchange(const spec::Spec &spec);

/// Which layers may be sharded. The variants of a plan shard the same ones, so that a swap moves no state.
enum class Sharding : uint8_t { Any, All, None };

class PolicyExchanges {
public:
  /// All but `cut` and `stop` outlive the object. `problem`: with the static memory of whole updates. Asked to stop,
  /// what searches goes on with the best so far.
  PolicyExchanges(const spec::Spec &spec, const schedule::Problem &problem, const schedule::Words &words,
                  const std::vector<int64_t> &cut, mlir::MLIRContext &context, std::stop_token stop = {});

  /// With the spec's parameters, where it names this policy.
  PolicyExchange published(const schedule::Policy &policy) const;
  /// What a search finds. `others`: what published policies make; where the spec leaves all to the search, it is never
  /// worse than those of which plans can be made.
  PolicyExchange searched(Sharding sharding, const std::vector<PolicyExchange> &others) const;
  /// That of the spec's own policy.
  PolicyExchange chosen(Sharding sharding) const;

  /// No exchange within what this one may use takes less.
  schedule::LeastTimes boundsOf(const PolicyExchange &of) const;
  /// The span less that of the same order with instant collectives.
  plan::Time exposedOf(const PolicyExchange &of) const;

private:
  /// Words, and how many W at the end of each are cut into layers (schedule::Exchange::tails).
  struct Order {
    schedule::Words words;
    std::vector<int32_t> tails;
  };

  Exchanges of(const schedule::Words &words) const {
    return {problem, words, pipe::Communicator(spec.communicator.value), context};
  }
  schedule::Replicas whole() const;
  __int128 piecesOf(schedule::Bytes piece) const;
  std::vector<schedule::Bytes> sizes() const;
  schedule::ExchangeChoice choiceFor(Sharding sharding) const;
  int64_t mostJudged() const;
  std::vector<Order> ordersFor(const schedule::Replicas &own, const schedule::ExchangeChoice &choice) const;
  void addLate(std::vector<schedule::Words> &all) const;
  void choose(const schedule::ExchangeChoice &choice, const Order &order, PolicyExchange &best) const;

  const spec::Spec &spec;
  const schedule::Problem &problem;
  const schedule::Words &words;
  mlir::MLIRContext &context;
  const std::stop_token stop;
  const schedule::Replicas replicas;
  const Exchanges exchanges; // of these words
  const std::vector<std::vector<int32_t>> stagesByRank;
  const schedule::Ready ready;
};

} // namespace pipec
