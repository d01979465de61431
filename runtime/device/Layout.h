// The queues that a process needs for all programs that it may run, which the device allocates once. Each program
// numbers its queues in its own way (one communicator per direction, per pair, or one in all), so a layout knows a
// queue by its name, which says what runs on the queue (plan::queueNames).
#pragma once

#include "runtime/plan/Place.h"
#include "runtime/plan/Status.h"

#include <string>
#include <vector>

namespace pipec::runtime {

/// The index of a process among the places of a variant, ranks times shards (plan::Variant::places).
inline size_t placeIn(const plan::Place &place) {
  return size_t(place.rank) * size_t(place.shards) + size_t(place.shard);
}

struct Layout {
  Layout() = default;
  /// The layout of one program: the same queues in the same order. There is one process per rank.
  Layout(const plan::Program &program);

  /// Adds the queues that `program` needs besides. All programs are of one rank.
  void add(const plan::Program &program);

  /// queueOf[q] is the index here of queue q of `program`. Code::Check if a queue is missing here, or if the program
  /// has an all-reduce and no program added before had one, since ranks are not connected for it.
  Status map(const plan::Program &program, std::vector<uint32_t> &queueOf) const;

  plan::Place place;
  std::vector<plan::Queue> queues;
  std::vector<std::string> names;
  std::vector<int64_t> executed; // by queue: instructions in a step, the most of any program
  bool reduces = false;          // some program has an all-reduce of all processes
  bool reducesInGroups = false;  // some program has a collective of some processes
};

/// The layout of a process, by its world rank, over all variants of a plan.
Layout layoutOf(const plan::Plan &plan, int32_t world);

} // namespace pipec::runtime
