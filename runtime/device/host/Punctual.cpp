// Timer slack (prctl(2)) and the length of a turn (sched_setattr(2), which glibc does not wrap). Linux' scheduler lets
// in first whoever has the earliest deadline, and a thread that asks for short turns has an early one when it wakes;
// since Linux 6.12 an ordinary thread may. Beside compilers on both processors, 8 ranks that wait were a tenth as late.
#include "runtime/device/host/Punctual.h"

#include <cstdint>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace pipec::runtime {

namespace {

struct Attributes { // struct sched_attr, of which libraries and kernel headers each have their own
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime, deadline, period;
};

bool read(Attributes &attributes) { return syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) == 0; }

} // namespace

void bePunctual() {
  prctl(PR_SET_TIMERSLACK, 1); // nanoseconds; else 50 us
  Attributes attributes{};
  if (!read(attributes))
    return;
  attributes.runtime = 100'000; // the least that there is
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

long turnLength() {
  Attributes attributes{};
  return read(attributes) ? long(attributes.runtime) : 0;
}

} // namespace pipec::runtime
