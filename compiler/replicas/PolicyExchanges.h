// The exchange of a spec's replicas under each policy: a published policy, or a search.
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

/// An exchange, the order that it belongs to, and the resulting time of a step.
struct PolicyExchange {
  std::string policy;
  schedule::Exchange exchange;
  schedule::Words words;
  schedule::Replicas replicas; // as the policy uses them
  schedule::MayExchange may;
  plan::Time span = Exchanges::kNever;
  /// Bundle size that `best` found, in bytes; -1: the policy has none, or the spec gives it.
  schedule::Bytes bundle = -1;
  std::string wrong; // why there is no exchange; empty: there is one

  bool found() const { return span != Exchanges::kNever; }
};

/// Whether the exchange of a spec's policy is searched for.
bool searchesExchange(const spec::Spec &spec);

/// Which layers may be sharded. All variants of a plan shard the same layers, so that a switch of variants moves no
/// state.
enum class Sharding : uint8_t { Any, All, None };

class PolicyExchanges {
public:
  /// All arguments except `cut` and `stop` must outlive the object. `problem`: with the static memory of whole updates.
  /// On a request to stop, a search continues with the best so far.
  PolicyExchanges(const spec::Spec &spec, const schedule::Problem &problem, const schedule::Words &words,
                  const std::vector<int64_t> &cut, mlir::MLIRContext &context, std::stop_token stop = {});

  /// The exchange of a published policy, with the spec's parameters if the spec names this policy.
  PolicyExchange published(const schedule::Policy &policy) const;
  /// The exchange that a search finds. `others`: the exchanges of published policies. If the spec leaves everything to
  /// the search, the result is never worse than those of `others` that plans can be made of.
  PolicyExchange searched(Sharding sharding, const std::vector<PolicyExchange> &others) const;
  /// The exchange of the spec's own policy.
  PolicyExchange chosen(Sharding sharding) const;

  /// Lower bounds for all exchanges that use what this one may use.
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
