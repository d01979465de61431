"""Measurements on a machine that may have other work: a plain test run takes the best of three tries, and where all miss
while others kept the processors busy, it says so and skips. tools/soak (PIPEC_SOAK=1) tries once and takes it as it
comes."""
import ctypes
import os
import resource
import struct
import subprocess
import sys
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


class Sleepers:
    """A process on each processor that only sleeps, a millisecond at a time: with Sleepers() as sleepers. When one wakes
    late, the machine kept the processor from it, and may have done so with whoever else ran there: sleepers.stalls are
    (from, until), seconds of CLOCK_MONOTONIC. They ask for short turns, as piperun's ranks do."""

    PERIOD, LATE = 1e-3, 1e-3

    @classmethod
    def sleep(cls, processor):
        os.sched_setaffinity(0, {processor})
        turn = struct.pack("IIQiIQQQ", 48, 0, 0, 0, 0, 100_000, 0, 0)  # sched_attr of sched_setattr(2)
        if os.uname().machine == "x86_64":
            ctypes.CDLL(None).syscall(314, 0, turn, 0)
        due = time.monotonic()
        while True:
            due += cls.PERIOD
            time.sleep(max(0, due - time.monotonic()))
            now = time.monotonic()
            if now - due > cls.LATE:
                print(due, now, flush=True)
                due = now

    def __enter__(self):
        self.processes = [subprocess.Popen([sys.executable, "-B", __file__, str(each)], stdout=subprocess.PIPE, text=True)
                          for each in os.sched_getaffinity(0)]
        return self

    def __exit__(self, *_):
        self.stalls = []
        for process in self.processes:
            process.terminate()
            out, _ = process.communicate()
            self.stalls += [tuple(map(float, line.split())) for line in out.splitlines()]


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


if __name__ == "__main__":
    Sleepers.sleep(int(sys.argv[1]))
