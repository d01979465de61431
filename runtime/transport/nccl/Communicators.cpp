#include "runtime/transport/nccl/Communicators.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

namespace pipec::runtime {

using plan::Kind;

int Communicator::placeOf(int32_t rank) const {
  return int(std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

namespace {

using End = std::pair<int32_t, QueueId>; // a queue of a rank

/// Disjoint sets that can be joined.
class Sets {
public:
  void join(const End &a, const End &b) { parent[root(a)] = root(b); }
  End root(const End &end) {
    const auto found = parent.try_emplace(end, end).first;
    return found->second == end ? end : found->second = root(found->second);
  }
  const std::map<End, End> &all() const { return parent; }

private:
  std::map<End, End> parent;
};

} // namespace

std::vector<Communicator> communicatorsOf(const plan::Plan &plan) {
  Sets sets;
  std::map<std::pair<int32_t, int32_t>, std::set<End>> sends;          // by edge: the ends that send
  std::map<int32_t, std::map<int32_t, std::vector<QueueId>>> ofLayers; // by group
  for (const plan::Variant &variant : plan.variants) {
    std::map<std::pair<int32_t, int32_t>, End> sender, receiver; // by edge
    std::map<int32_t, End> sums;                                 // by group: the queue of some member
    for (int32_t world = 0; world < plan.world(); ++world) {
      const plan::Place place = plan::placeOf(world, plan);
      const plan::Program &program = variant.programs[size_t(place.rank)];
      std::vector<uint32_t> queueOf;
      if (!layoutOf(plan, world).map(program, queueOf).ok()) // cannot fail: the layout has these queues
        continue;
      for (const plan::Instruction &i : program.instructions) {
        const plan::Operation &op = program.operations[i.operation];
        const End end{world, queueOf[i.queue]};
        if (plan::sends(op.kind))
          sender[{world, place.worldOf(op.peer)}] = end;
        else if (plan::receives(op.kind))
          receiver[{place.worldOf(op.peer), world}] = end;
        else if (plan::isOfLayers(op))
          ofLayers[op.group][world] = {end.second};
        else if (plan::isCollective(op.kind))
          sets.join(end, sums.try_emplace(op.group, end).first->second);
      }
    }
    for (const auto &[edge, end] : sender)
      if (const auto found = receiver.find(edge); found != receiver.end()) {
        sets.join(end, found->second);
        sends[edge].insert(end);
      }
  }
  std::map<End, Communicator> byRoot;
  for (const auto &[end, any] : sets.all()) {
    Communicator &of = byRoot[sets.root(end)];
    of.queuesOf[end.first].push_back(end.second);
  }
  for (const auto &[edge, ends] : sends)
    for (const End &end : ends)
      byRoot[sets.root(end)].edges.push_back(edge);
  std::vector<Communicator> all;
  for (auto &[root, of] : byRoot) {
    for (const auto &[rank, queues] : of.queuesOf)
      of.ranks.push_back(rank);
    std::sort(of.edges.begin(), of.edges.end());
    of.edges.erase(std::unique(of.edges.begin(), of.edges.end()), of.edges.end());
    all.push_back(std::move(of));
  }
  std::sort(all.begin(), all.end(), [](const Communicator &a, const Communicator &b) {
    return std::tie(a.ranks, a.edges, a.queuesOf) < std::tie(b.ranks, b.edges, b.queuesOf);
  });
  for (auto &[group, queuesOf] : ofLayers)
    all.push_back({plan.groups[size_t(group)].members, {}, std::move(queuesOf), group});
  return all;
}

} // namespace pipec::runtime
