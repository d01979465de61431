// When to plan anew: now and then, and as soon as the network or a rank has changed. The same beside a run (`pipec
// replan`) and in virtual time.
#pragma once

#include "runtime/adapt/Estimator.h"

namespace pipec::adapt {

/// What plans are made for.
struct Conditions {
  struct Link {
    Time latency = 0;
    int64_t bandwidth = 0; // bytes a second; 0: unlimited
  };
  std::map<std::pair<int32_t, int32_t>, Link> links; // (from, to)
  std::map<int32_t, int64_t> percent;                // of ranks

  bool empty() const { return links.empty() && percent.empty(); }
};

Conditions conditionsOf(const Estimator &estimates);

/// Whether a link or a rank has changed by more than a twentieth, or is new.
bool differ(const Conditions &one, const Conditions &other);

class Rounds {
public:
  explicit Rounds(Time every) : every(every) {}

  /// Whether a round is to begin. Never before something has been measured, nor while one is under way.
  bool due(Time now, const Conditions &measured) const;
  void begin(Time now, Conditions measured);
  /// `busy`: for how long it kept a processor from others. Rounds take no more than a fifth of one.
  void end(Time now, Time busy);

private:
  const Time every;
  bool underWay = false;
  Conditions planned; // for: by the last round
  Time next = 0;      // when one is due, whatever was measured
  Time soonest = 0;   // and before that none is
};

} // namespace pipec::adapt
