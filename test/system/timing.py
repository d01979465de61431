"""What the clock says. tools/soak (PIPEC_SOAK=1), which wants a quiet machine, holds it to its limit; elsewhere it is
printed, whatever it is."""
import ctypes
import os
import struct
import subprocess
import sys
import time

from support import SOAK


def judge(test, what, measured, limit):
    """Prints a figure that is a share of something; too large a one fails under tools/soak."""
    said = f"{what}: {100 * measured:.3f} %, at most {100 * limit:g} % on a quiet machine"
    print(said)
    if SOAK:
        test.assertLessEqual(measured, limit, said)


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


if __name__ == "__main__":
    Sleepers.sleep(int(sys.argv[1]))
