// One more walk of a rank's step, where there are replicas: the sums, gathers and updates of each layer (rules P39 and
// P48 to P50), and what changes ranks between stages of unlike width (P57). Each of them is executed once (P47), so
// where it stands on its queue is known before the walk; the walk asks of each instruction whether its queue knows that
// what it needs is complete, as RankWalk does.
#pragma once

#include "runtime/plan/StageLayers.h"
#include "runtime/plan/rules/Rules.h"

#include <array>
#include <map>

namespace pipec::plan {

class LayerWalk {
public:
  LayerWalk(const Program &program, const rules::Facts &facts, const StageLayers &layers);
  Status run();

private:
  /// The queues that it is about: compute, updates, that of collectives, and the norm's if that is another.
  using Line = uint32_t;
  static constexpr Line kCompute = 0, kLines = 4, kNone = ~0u;

  /// An instruction that is executed once, or the last of its operation.
  struct Place {
    Line line = kNone;  // none: there is no such instruction
    uint32_t place = 0; // on it, from 1
    bool operator<(const Place &other) const { return place < other.place; }
  };
  struct Own {
    Place made;             // the last pass that adds to its gradients
    Place sum;              // the last all-reduce that has bytes of it, or its reduce-scatter
    Place gather, update;   // none: it is not gathered
    bool exchanged = false; // it has gradients
    bool scattered = false; // its sum is a reduce-scatter
    bool sharded = false;   // its gather moves weights
  };
  struct Known {
    int64_t now = 0, previous = 0; // as in RankWalk
  };
  struct Now {
    Step step;
    Line line;
    uint32_t place;
  };
  /// What a stage makes of a microbatch, and where it changes ranks.
  struct Crossing {
    Place made, reshard; // none: another rank makes it; it does not change ranks
  };
  using Crossings = std::map<std::pair<int32_t, Payload>, Crossing>; // by stage, and what its pass gives

  struct Layers { // of a stage
    std::vector<Own>::iterator begin, end;
  };

  /// Numbers that are taken one by one, each once.
  class Left {
  public:
    explicit Left(size_t count);
    /// The first from `at` on that is not taken; `count` if all are.
    uint32_t from(uint32_t at);
    void take(uint32_t number) { next[number] = number + 1; }

  private:
    std::vector<uint32_t> next;
  };

  void findLines();
  void findPlaces();
  void noteCrossing(const Operation &o, Place last);
  void notePass(const Operation &o, Place last, Left &left);
  Layers of(const Operation &o);
  size_t firstOf(int32_t stage) const;
  void meetWaits(const Now &now);
  bool knows(const Now &now, Place place) const;
  bool knowsBefore(const Now &now, Place place) const;
  std::string text(const Now &now) const;
  Status visit(const Now &now);

  Status normInput(const Now &now);    // P39
  Status sumInput(const Now &now);     // P48
  Status gatherInput(const Now &now);  // P49
  Status updateInput(const Now &now);  // P49
  Status forwardInput(const Now &now); // P50
  Status reshardInput(const Now &now); // P57
  Status resharded(const Now &now);    // P57, of a pass

  const Program &program;
  const rules::Facts &facts;
  const StageLayers &layers;
  std::vector<size_t> first; // of each of the rank's stages, in `all`
  std::vector<Own> all;
  std::vector<Line> lines;                               // of each queue; kNone: of no matter
  std::array<uint32_t, kLines> queues{};                 // the reverse
  std::array<std::array<Known, kLines>, kLines> known{}; // what the first knows of the second
  Place norm, lastSum, lastMade, lastAlone;              // the last: of gradients that nothing sums
  std::vector<bool> hasRun;                              // of each operation
  Crossings crossings;                                   // with stages on several ranks alone
  Left withoutForward;                                   // layers to whose first F the walk has not come yet
};

} // namespace pipec::plan
