// The queues that a process needs over all programs that it may run: what the device allocates once. Programs number
// their queues each in its own way (one communicator for each direction, for each pair, or one in all), so a queue is
// known here by its name, which says what runs on it (plan::queueNames).
#pragma once

#include "runtime/plan/Place.h"
#include "runtime/plan/Status.h"

#include <string>
#include <vector>

namespace pipec::runtime {

/// Among the places of a variant, ranks times shards (plan::Variant::places): the row of a process.
inline size_t placeIn(const plan::Place &place) {
  return size_t(place.rank) * size_t(place.shards) + size_t(place.shard);
}

struct Layout {
  Layout() = default;
  /// Of one program: the same queues in the same order. There is one process a rank.
  Layout(const plan::Program &program);

  /// Adds what `program` needs beyond this. All programs are of one rank.
  void add(const plan::Program &program);

  /// queueOf[q] is the place here of queue q of `program`. Refused (Code::Check) where a queue is missing here, and
  /// where the program has an all-reduce and no program added before had one, since ranks are not connected for it.
  Status map(const plan::Program &program, std::vector<uint32_t> &queueOf) const;

  plan::Place place;
  std::vector<plan::Queue> queues;
  std::vector<std::string> names;
  std::vector<int64_t> executed; // instructions in a step, the most of any program
  bool reduces = false;          // some program has an all-reduce of all processes
  bool reducesInGroups = false;  // likewise a collective of some
};

/// The layout of a process, by its world rank, over all variants of a plan.
Layout layoutOf(const plan::Plan &plan, int32_t world);

} // namespace pipec::runtime
