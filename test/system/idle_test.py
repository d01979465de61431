"""Who waits uses no processor: ranks in the middle of a long operation and ranks that wait for its result, looked at
from outside for a second at a time (ten with PIPEC_SOAK=1)."""
import pathlib
import time
import unittest

from support import SOAK, SPECS, ToolTest, until

SECONDS = 10 if SOAK else 1
LIMIT = 0.001  # of a core


def processor_seconds(pid):
    """Of all threads of a process, to the nanosecond."""
    tasks = pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text(encoding="ascii").split()[0]) for task in tasks) / 1e9


class IdleTest(ToolTest):
    def test_idle_ranks_use_no_processor(self):
        plan = self.compile(SPECS / "1f1b.yaml", pipeline__ranks=4, pipeline__microbatches=4, costs__forward="6000s",
                            costs__backward_input="6000s", costs__backward_weight="6000s")
        # The operations outlast patience: the run is killed with the test.
        _, pids = self.launch(plan, "--steps", 1, "--deadline", 100000)
        self.assertEqual(len(pids), 4)

        def idle():
            before = [processor_seconds(pid) for pid in pids.values()]
            begin = time.monotonic()
            time.sleep(SECONDS)
            elapsed = time.monotonic() - begin
            shares = [(processor_seconds(pid) - used) / elapsed for pid, used in zip(pids.values(), before)]
            print("processor of each rank: " + ", ".join(f"{100 * share:.4f} %" for share in shares))
            return max(shares) < LIMIT

        until(idle, f"ranks that use less than {100 * LIMIT} % of a processor")  # the first seconds hold their start


if __name__ == "__main__":
    unittest.main()
