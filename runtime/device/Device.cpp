// What every device needs to know of a program.
#include "runtime/device/Device.h"

namespace pipec::runtime {

std::vector<int64_t> executedByQueue(const plan::Program &program) {
  std::vector<int64_t> executed(program.queues.size(), 0);
  for (const plan::Segment &segment : program.step)
    for (uint32_t i = 0; i < segment.count; ++i)
      executed[program.instructions[segment.first + i].queue] += segment.trips;
  return executed;
}

} // namespace pipec::runtime
