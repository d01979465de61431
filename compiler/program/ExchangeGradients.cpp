#include "compiler/program/ExchangeGradients.h"

#include "compiler/program/PassParts.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>

using namespace mlir;

namespace pipec {

using schedule::Collective;

namespace {

/// A sum of a shared weight over the ranks that hold it, as it is without replicas.
struct SharedSum {
  plan::Operation operation;
  std::vector<int32_t> ranks;
};

std::vector<SharedSum> sharedSumsOf(const ProgramSet &set, const Program &program) {
  std::vector<SharedSum> sums;
  for (const Instruction &own : program.instructions)
    if (const plan::Operation &operation = program.of(own); plan::isOfShared(operation))
      sums.push_back({operation, set.groups[size_t(operation.group)].members});
  return sums;
}

/// One rank's program, made anew.
class RankExchange {
public:
  /// `shared`: the rank's sums of shared weights, and the ranks that have each.
  RankExchange(ProgramSet &set, size_t rank, const schedule::Replicas &replicas, const schedule::Exchange &exchange,
               std::vector<SharedSum> shared)
      : shared(std::move(shared)), summed(set.shared.size(), kNone), set(set), program(set.programs[rank]),
        replicas(replicas), exchange(exchange), queue(exchange.queues[rank]),
        passes(program, replicas, cutsOfStages(), exchange.tails.empty() ? 0 : exchange.tails[rank]) {
    members = processesOf({program.rank}, replicas.degree);
  }

  void run() {
    passes.run();
    passCount = uint32_t(nodes.size());
    if (exchange.ahead)
      addGathersAhead();
    addCollectives();
    addUpdatesOfStages();
    finish();
  }

private:
  using Layers = std::vector<schedule::ExchangedLayer>;

  const Layers &layersOf(int32_t stage) const { return replicas.layers[size_t(stage)]; }
  int32_t layerCount(int32_t stage) const { return int32_t(layersOf(stage).size()); }

  std::map<int32_t, StageCuts> cutsOfStages() const {
    std::map<int32_t, StageCuts> all;
    for (const int32_t stage : program.stages)
      all[stage] = cutsOf(stage);
    return all;
  }

  /// Forwards are cut where a gather, or the layers that an update covers, begin; backwards where sums do.
  StageCuts cutsOf(int32_t stage) const {
    StageCuts own;
    own.forward = own.backward = {0, layerCount(stage)};
    const bool byLayer = exchange.updates == schedule::Updates::Layers;
    for (const Collective &c : queue) {
      if (c.stage != stage)
        continue;
      if (c.isSum() && !exchange.atEnd)
        own.backward.push_back(c.firstLayer);
      if (byLayer && c.kind != plan::Kind::ReduceScatter) {
        own.forward.push_back(c.firstLayer);
        own.forward.push_back(c.firstLayer + c.layers);
      }
    }
    for (Cuts *each : {&own.forward, &own.backward}) {
      llvm::sort(*each);
      each->erase(std::unique(each->begin(), each->end()), each->end());
    }
    return own;
  }

  /// Of gathers: whether they bring weights.
  bool isSharded(const Collective &c) const { return !c.isSum() && exchange.sharded; }

  plan::Operation operationOf(const Collective &c) {
    const schedule::CollectiveTimes &times = replicas.times;
    plan::Operation made;
    made.kind = c.kind;
    made.of = isSharded(c) ? plan::Payload::Weights : plan::Payload::Gradients;
    made.stage = c.stage;
    made.bytes = c.end - c.begin;
    made.begin = c.begin;
    made.end = c.end;
    made.firstLayer = c.firstLayer;
    made.layers = c.layers;
    made.group = set.groupOf(members);
    made.cost = c.rounds + (c.kind == plan::Kind::AllReduce       ? times.allReduce
                            : c.kind == plan::Kind::ReduceScatter ? times.reduceScatter
                                                                  : times.allGather)
                               .of(made.bytes);
    return made;
  }
  uint32_t addCollective(const Collective &c) { return passes.add(operationOf(c), placeOfRest()); }
  uint32_t placeOfRest() {
    if (rest == kNone) {
      rest = uint32_t(program.places.size());
      program.places.push_back(program.place);
    }
    return rest;
  }

  /// Puts a node into the order: behind `at`, another node, and behind what stands there already.
  void place(uint32_t node, uint32_t at) { behind[at].push_back(node); }

  /// DeAR's gathers: at the head of the step, of what the one before has summed, one ahead of the forward.
  void addGathersAhead() {
    uint32_t before = kNone; // the part of the forward before which the gather is issued
    for (const Collective &c : queue) {
      if (c.isSum())
        continue;
      const uint32_t node = addCollective(c);
      aheadOrder.push_back({node, before});
      if (before == kNone)
        nodes[node].carried.push_back(lastPass);
      else
        nodes[node].uses.push_back(before);
      const uint32_t update = addUpdate(c.stage, c.firstLayer, c.layers, false);
      for (int32_t layer = c.firstLayer; layer <= c.lastLayer(); ++layer)
        updateOf[{c.stage, layer}] = update;
      nodes[update].uses.push_back(node);
      aheadOrder.push_back({update, before});
      updatesAhead.push_back(update);
      for (const uint32_t part : partsOf(c.stage, c.firstLayer, c.layers))
        nodes[part].uses.push_back(update);
      // The next is issued when the forward has come to this one: when the part before it is done, and this is there.
      const Cuts &at = cuts.at(c.stage).forward;
      const size_t first = size_t(llvm::lower_bound(at, c.firstLayer) - at.begin());
      if (first > 0)
        before = parts[c.stage][first - 1];
    }
  }

  uint32_t addUpdate(int32_t stage, int32_t first, int32_t layers, bool sharded) {
    plan::Operation update;
    update.kind = plan::Kind::Optimizer;
    update.stage = stage;
    update.firstLayer = first;
    update.layers = layers;
    for (int32_t layer = first; layer != first + layers; ++layer)
      update.cost += replicas.updateOf(layersOf(stage)[size_t(layer)], sharded);
    const uint32_t node = passes.add(update, placeOfRest());
    waitForShared(node, stage, first, layers);
    return node;
  }

  /// Whether layers of a stage hold the weight of a sum.
  bool hold(const SharedSum &sum, int32_t stage, int32_t first, int32_t layers) const {
    int32_t before = first; // of the model
    for (int32_t s = 0; s != stage; ++s)
      before += layerCount(s);
    return llvm::any_of(set.shared[size_t(sum.operation.firstLayer)].layers,
                        [&](int32_t layer) { return layer >= before && layer - before < layers; });
  }

  /// An update of layers that hold a shared weight waits for its sum, which may be still to come.
  void waitForShared(uint32_t node, int32_t stage, int32_t first, int32_t layers) {
    for (const SharedSum &sum : shared) {
      if (!hold(sum, stage, first, layers))
        continue;
      if (const uint32_t known = summed[size_t(sum.operation.firstLayer)]; known != kNone)
        nodes[node].uses.push_back(known);
      else
        heldUp[node].push_back(sum.operation.firstLayer);
    }
  }

  /// Behind all other sums of the rank, so that none of them waits for another rank.
  void addSharedSums(uint32_t &at) {
    for (const SharedSum &sum : shared) {
      plan::Operation made = sum.operation;
      made.group = set.groupOf(processesOf(sum.ranks, replicas.degree));
      made.cost = replicas.sharedTimes[size_t(made.firstLayer)];
      const uint32_t node = passes.add(made, placeOfRest());
      uint32_t last = exchange.atEnd ? lastPass : 0;
      for (const int32_t stage : set.shared[size_t(made.firstLayer)].stages)
        if (const auto found = makers.find(stage); found != makers.end())
          for (const uint32_t maker : found->second)
            last = std::max(last, maker);
      nodes[node].uses.push_back(last);
      at = std::max(at, last);
      place(node, at);
      lastCollective = node;
      sums.push_back(node);
      summed[size_t(made.firstLayer)] = node;
    }
    for (const auto &[node, weights] : std::exchange(heldUp, {})) {
      // An update ahead stands at the head of the step, and waits for the sum of the step before.
      std::vector<uint32_t> &waits = exchange.ahead ? nodes[node].carried : nodes[node].uses;
      for (const int32_t weight : weights)
        waits.push_back(summed[size_t(weight)]);
      if (!exchange.ahead && !replicas.norm) // else the node has a place, or the norm gives it one
        place(node, at);
    }
  }

  void addCollectives() {
    std::vector<Collective> ordered = queue;
    if (replicas.norm) { // for which all sums are needed
      ordered.clear();
      for (const bool sums : {true, false})
        llvm::copy_if(queue, std::back_inserter(ordered), [&](const Collective &c) { return c.isSum() == sums; });
    }
    for (const Collective &c : ordered)
      for (int32_t layer = c.firstLayer; c.isSum() && layer <= c.lastLayer(); ++layer)
        ++sumsLeft[{c.stage, layer}];
    uint32_t at = 0; // nodes are placed behind it
    bool normed = !replicas.norm;
    auto toCome = llvm::count_if(ordered, [](const Collective &c) { return c.isSum(); });
    if (toCome == 0)
      addSharedSums(at);
    for (const Collective &c : ordered) {
      if (c.isSum()) {
        addSum(c, at);
        if (--toCome == 0)
          addSharedSums(at);
      } else if (!exchange.ahead) {
        if (!std::exchange(normed, true))
          addNorm(at);
        addGather(c, at);
      }
    }
    if (!normed)
      addNorm(at);
    // Layers without gradients are updated with the last of all.
    if (exchange.updates == schedule::Updates::Layers)
      for (const int32_t stage : program.stages)
        updateRest(stage, at);
  }

  void addSum(const Collective &c, uint32_t &at) {
    const uint32_t node = addCollective(c);
    uint32_t last = exchange.atEnd ? lastPass : 0;
    for (int32_t layer = c.firstLayer; layer <= c.lastLayer(); ++layer)
      last = std::max(last, makers[c.stage][size_t(layer)]);
    nodes[node].uses.push_back(last);
    at = std::max(at, last);
    place(node, at);
    lastCollective = node;
    sums.push_back(node);
    Cuts done; // layers that are summed now
    for (int32_t layer = c.firstLayer; layer <= c.lastLayer(); ++layer)
      if (--sumsLeft[{c.stage, layer}] == 0)
        done.push_back(layer);
    if (exchange.updates != schedule::Updates::Layers || done.empty() || exchange.ahead)
      return;
    if (c.kind == plan::Kind::AllReduce || exchange.sharded)
      update(c, done, node, at);
  }

  /// Updates layers, of which those next to each other go together; with a norm that is still to come, later.
  void update(const Collective &c, const Cuts &done, uint32_t sum, uint32_t at) {
    for (size_t i = 0; i != done.size();) {
      size_t end = i + 1;
      while (end != done.size() && done[end] == done[end - 1] + 1)
        ++end;
      const bool sharded = exchange.sharded && c.kind == plan::Kind::ReduceScatter;
      const uint32_t node = addUpdate(c.stage, done[i], int32_t(end - i), sharded);
      nodes[node].uses.push_back(sum);
      if (replicas.norm)
        afterNorm.push_back(node);
      else if (heldUp.count(node) == 0)
        place(node, at);
      for (size_t n = i; n != end; ++n)
        updateOf[{c.stage, done[n]}] = node;
      if (c.kind == plan::Kind::AllReduce)
        feed(c.stage, done[i], int32_t(end - i), node);
      i = end;
    }
  }

  /// The parts of a stage's first forward that have any of these layers.
  ArrayRef<uint32_t> partsOf(int32_t stage, int32_t first, int32_t layers) const {
    const Cuts &at = cuts.at(stage).forward;
    const auto begin = size_t(llvm::upper_bound(at, first) - at.begin() - 1);
    const auto end = size_t(llvm::lower_bound(at, first + layers) - at.begin());
    return ArrayRef<uint32_t>(parts.at(stage)).slice(begin, end - begin);
  }

  /// The forward of the next step waits for what makes the weights of layers.
  void feed(int32_t stage, int32_t first, int32_t layers, uint32_t node) {
    for (const uint32_t part : partsOf(stage, first, layers))
      nodes[part].carried.push_back(node);
  }

  void addGather(const Collective &c, uint32_t &at) {
    const uint32_t node = addCollective(c);
    if (exchange.barrier)
      nodes[node].uses.push_back(lastPass);
    for (int32_t layer = c.firstLayer; exchange.sharded && layer <= c.lastLayer(); ++layer)
      if (const auto found = updateOf.find({c.stage, layer}); found != updateOf.end())
        nodes[node].uses.push_back(found->second);
    if (exchange.barrier)
      at = std::max(at, lastPass);
    place(node, at);
    lastCollective = node;
    if (exchange.sharded)
      return feed(c.stage, c.firstLayer, c.layers, node);
    const uint32_t update = addUpdate(c.stage, c.firstLayer, c.layers, false);
    nodes[update].uses.push_back(node);
    if (normNode != kNone)
      nodes[update].uses.push_back(normNode);
    if (heldUp.count(update) == 0)
      place(update, at);
    for (int32_t layer = c.firstLayer; layer <= c.lastLayer(); ++layer)
      updateOf[{c.stage, layer}] = update;
    feed(c.stage, c.firstLayer, c.layers, update);
  }

  /// Layers that no collective has brought an update to: those whose updates take time, and those whose gradients are a
  /// shared weight's alone.
  void updateRest(int32_t stage, uint32_t at) {
    for (int32_t layer = 0; layer != layerCount(stage); ++layer) {
      const bool sums = llvm::any_of(shared, [&](const SharedSum &sum) { return hold(sum, stage, layer, 1); });
      if (updateOf.count({stage, layer}) != 0 || (!sums && layersOf(stage)[size_t(layer)].update == 0))
        continue;
      const uint32_t node = addUpdate(stage, layer, 1, false);
      nodes[node].uses.push_back(makers[stage][size_t(layer)]);
      if (sums && normNode != kNone)
        nodes[node].uses.push_back(normNode);
      place(node, std::max(at, lastPass));
      feed(stage, layer, 1, node);
    }
  }

  void addNorm(uint32_t &at) {
    const uint32_t node = passes.add(normOf(program.stages.front(), *replicas.norm), placeOfRest());
    nodes[node].uses = sums;
    nodes[node].uses.push_back(lastPass);
    at = std::max(at, lastPass);
    place(node, at);
    for (const uint32_t each : afterNorm) {
      nodes[each].uses.push_back(node);
      place(each, at);
    }
    for (const uint32_t each : updatesAhead) // of the gradients of the step before
      nodes[each].carried.push_back(node);
    normNode = node;
  }

  void addUpdatesOfStages() {
    if (exchange.updates != schedule::Updates::Stages)
      return;
    for (const int32_t stage : program.stages) {
      plan::Operation update;
      update.kind = plan::Kind::Optimizer;
      update.stage = stage;
      for (const schedule::ExchangedLayer &layer : layersOf(stage))
        update.cost += layer.update;
      const uint32_t node = passes.add(update, placeOfRest());
      waitForShared(node, stage, 0, layerCount(stage));
      if (lastCollective != kNone)
        nodes[node].uses.push_back(lastCollective);
      if (normNode != kNone)
        nodes[node].uses.push_back(normNode);
      ending.push_back(node);
    }
  }

  void finish() {
    std::vector<uint32_t> order;
    const auto append = [&](uint32_t node) {
      order.push_back(node);
      if (const auto found = behind.find(node); found != behind.end())
        llvm::append_range(order, found->second);
    };
    // Gathers ahead stand behind the part before which they are issued; the first two at the head of the step.
    std::map<uint32_t, std::vector<uint32_t>> issued;
    for (const auto &[node, before] : aheadOrder)
      issued[before].push_back(node);
    if (const auto found = issued.find(kNone); found != issued.end())
      llvm::append_range(order, found->second);
    for (uint32_t pass = 0; pass != passCount; ++pass) {
      append(pass);
      if (const auto found = issued.find(pass); found != issued.end())
        llvm::append_range(order, found->second);
    }
    llvm::append_range(order, ending);
    std::vector<uint32_t> placed(nodes.size(), kNone);
    for (uint32_t i = 0; i != order.size(); ++i)
      placed[order[i]] = i;
    program.instructions.clear();
    program.uses.clear();
    program.carried.clear();
    for (const uint32_t node : order) {
      const auto user = uint32_t(program.instructions.size());
      program.instructions.push_back(nodes[node].instruction);
      for (const uint32_t definition : nodes[node].uses)
        program.uses.push_back({user, placed[definition]});
      for (const uint32_t definition : nodes[node].carried)
        program.carried.push_back({user, placed[definition]});
    }
    program.sortUses();
    for (std::vector<Use> *uses : {&program.uses, &program.carried}) // several layers may wait for one bundle
      uses->erase(std::unique(uses->begin(), uses->end()), uses->end());
    program.dropUnused(); // the optimizer steps that were, and passes of which all are cut
  }

  const std::vector<SharedSum> shared;
  std::vector<uint32_t> summed; // nodes of sums, by shared weight; kNone: not added yet
  std::map<uint32_t, std::vector<int32_t>>
      heldUp; // by node of an update: shared weights whose sums are still to be added
  ProgramSet &set;
  Program &program;
  const schedule::Replicas &replicas;
  const schedule::Exchange &exchange;
  const std::vector<Collective> &queue;
  PassParts passes;
  std::vector<Node> &nodes = passes.nodes; // passes first
  const std::map<int32_t, StageCuts> &cuts = passes.cuts;
  std::map<int32_t, std::vector<uint32_t>> &parts = passes.parts, &makers = passes.makers;
  const uint32_t &lastPass = passes.lastPass;
  std::vector<int32_t> members; // world ranks of the rank's replicas
  uint32_t passCount = 0;
  uint32_t lastCollective = kNone, normNode = kNone;
  uint32_t rest = kNone;                                    // the place of what has none of its own
  std::map<std::pair<int32_t, int32_t>, int32_t> sumsLeft;  // of each stage and layer
  std::map<std::pair<int32_t, int32_t>, uint32_t> updateOf; // likewise
  std::map<uint32_t, std::vector<uint32_t>> behind;         // a pass → what stands behind it
  std::vector<std::pair<uint32_t, uint32_t>> aheadOrder;    // node, and the part behind which it stands
  std::vector<uint32_t> updatesAhead;                       // the updates of aheadOrder
  std::vector<uint32_t> sums, afterNorm, ending;
};

} // namespace

std::vector<plan::Layer> rowsOf(const schedule::Replicas &replicas) {
  std::vector<plan::Layer> rows;
  for (size_t stage = 0; stage != replicas.layers.size(); ++stage)
    for (const schedule::ExchangedLayer &layer : replicas.layers[stage])
      rows.push_back({int32_t(stage), layer.gradients(), layer.weights, false});
  return rows;
}

/// A reduce-scatter of an exchange with shares shards its layers.
static std::vector<plan::Layer> rowsOf(const schedule::Replicas &replicas, const schedule::Exchange &exchange) {
  std::vector<plan::Layer> rows = rowsOf(replicas);
  std::vector<size_t> first{0}; // row of each stage
  for (const auto &layers : replicas.layers)
    first.push_back(first.back() + layers.size());
  for (const std::vector<Collective> &queue : exchange.queues)
    for (const Collective &c : queue)
      for (int32_t layer = c.firstLayer; c.kind == plan::Kind::ReduceScatter && layer <= c.lastLayer(); ++layer)
        if (plan::Layer &row = rows[first[size_t(c.stage)] + size_t(layer)]; row.gradients > 0)
          row.sharded = exchange.sharded;
  return rows;
}

void exchangeGradients(ProgramSet &set, const schedule::Replicas &replicas, const schedule::Exchange &exchange) {
  set.degree = replicas.degree;
  set.layers = rowsOf(replicas, exchange);
  set.sharedPort = replicas.sharesPort;
  size_t row = 0;
  std::vector<plan::Bytes> saved(replicas.layers.size()); // by stage
  for (size_t stage = 0; stage != saved.size(); ++stage)
    for (const schedule::ExchangedLayer &layer : replicas.layers[stage])
      saved[stage] += set.layers[row++].sharded ? replicas.savedOf(layer) : 0;
  std::vector<std::vector<SharedSum>> shared;
  for (const Program &program : set.programs)
    shared.push_back(sharedSumsOf(set, program));
  set.groups.clear(); // of ranks; all that have one are made anew
  for (size_t rank = 0; rank != set.ranks(); ++rank) {
    for (const int32_t stage : set.programs[rank].stages)
      set.programs[rank].staticBytes -= saved[size_t(stage)];
    RankExchange(set, rank, replicas, exchange, std::move(shared[rank])).run();
  }
}

} // namespace pipec
