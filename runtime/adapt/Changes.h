// Decides when to plan anew: regularly, and as soon as the network or a rank has changed. Used beside a run (`pipec
// replan`) and in virtual time.
#pragma once

#include "runtime/adapt/Estimator.h"

namespace pipec::adapt {

/// The conditions that plans are made for.
struct Conditions {
  struct Link {
    Time latency = 0;
    int64_t bandwidth = 0; // bytes a second; 0: unlimited
  };
  std::map<std::pair<int32_t, int32_t>, Link> links; // (from, to)
  std::map<int32_t, int64_t> percent; // by rank: duration of its operations in percent of the plan's costs

  bool empty() const { return links.empty() && percent.empty(); }
};

Conditions conditionsOf(const Estimator &estimates);

/// Whether a link or a rank has changed by more than a twentieth, or is new.
bool differ(const Conditions &one, const Conditions &other);

class Rounds {
public:
  explicit Rounds(Time every) : every(every) {}

  /// Whether a round of planning is to begin. Never before something has been measured, nor while a round is under way.
  bool due(Time now, const Conditions &measured) const;
  void begin(Time now, Conditions measured);
  /// `busy`: processor time that the round took. Rounds take at most a fifth of a processor.
  void end(Time now, Time busy);

private:
  const Time every;
  bool underWay = false;
  Conditions planned; // the conditions that the last round planned for
  Time next = 0;      // when the next round is due, whatever was measured
  Time soonest = 0;   // no round begins before this time
};

} // namespace pipec::adapt
