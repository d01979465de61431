"""Measurements on a machine that may have other work: a plain test run takes the best of three tries, and where all miss
while others kept the processors busy, it says so and skips. tools/soak (PIPEC_SOAK=1) tries once and takes it as it
comes."""
import os
import resource
import time

from support import SOAK

TRIES = 1 if SOAK else 3
BUSY = 0.2  # of all processors, used by others


def busy_seconds():
    """Of all processors since the start of the machine: whatever is not idle, time stolen by other machines included."""
    with open("/proc/stat", encoding="ascii") as stat:
        user, nice, system, _, _, *rest = map(int, stat.readline().split()[1:9])
    return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK")


def own_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Busy:
    """for _ in busy.tries(): busy.add(measured). Prints what came out; fails the test if even the best is too much."""

    def __init__(self, test, what, limit):
        self.test, self.what, self.limit = test, what, limit
        self.tried, self.others = [], []

    def tries(self):
        for _ in range(TRIES):
            begin, busy, own = time.monotonic(), busy_seconds(), own_seconds()
            yield
            elapsed = (time.monotonic() - begin) * os.cpu_count()
            self.others.append((busy_seconds() - busy - own_seconds() + own) / elapsed)
            if self.tried[-1] <= self.limit:
                break
        self.judge()

    def add(self, measured):
        self.tried.append(measured)

    def judge(self):
        said = (f"{self.what}: {', '.join(f'{100 * each:.3f} %' for each in self.tried)}, at most {100 * self.limit:g} %; "
                f"others used {', '.join(f'{100 * each:.0f} %' for each in self.others)} of the processors")
        print(said)
        if min(self.tried) > self.limit and min(self.others) > BUSY and not SOAK:
            self.test.skipTest(f"not measured, the machine is busy: {said}")
        self.test.assertLessEqual(min(self.tried), self.limit, said)
