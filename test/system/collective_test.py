"""Runs with a global norm: one all-reduce a rank and step, in the simulated time, across swaps to schedules without one;
and ranks that do not come to it."""
import collections
import json
import os
import re
import signal
import time
import unittest

from support import HANG, OK, RUN, SOAK, ToolTest

SPEC = """
pipec: 1
pipeline: {{ranks: 4, microbatches: 8}}
costs:
  forward: 500us
  backward_input: {backward}
  backward_weight: 300us
  optimizer: {{time: 200us, global_norm: true}}
  link: {{latency: 50us, bandwidth: 10GB/s}}
tensors: {{boundary: 64KiB}}
schedule: 1f1b
communicator: {communicator}
variants: [{{schedule: 1f1b}}, {{schedule: gpipe, costs: {{optimizer: {{time: 200us, global_norm: false}}}}}}]
"""


class CollectiveTest(ToolTest):
    def plan(self, communicator="per_edge"):
        return self.compile(SPEC.format(communicator=communicator, backward="500us"))

    def slow(self):
        """A plan in which rank 0's only backward takes hours: all others soon wait in the all-reduce."""
        return self.compile(SPEC.format(communicator="per_edge", backward="[9000s, 500us, 500us, 500us]"),
                            pipeline__microbatches=1)

    def sums(self, trace):
        """{step: {rank: its all-reduces}} and {step: epoch}."""
        sums, epochs = collections.defaultdict(collections.Counter), {}
        for event in json.loads(trace.read_text())["traceEvents"]:
            if event["ph"] == "X":
                epochs[event["args"]["step"]] = event["args"]["epoch"]
                sums[event["args"]["step"]][event["pid"]] += event["args"]["kind"] == "all_reduce"
        return sums, epochs

    def test_each_rank_and_step_has_one(self):
        for communicator in ("per_edge", "per_pair", "launch_order", "shared"):
            for mode in ("carry", "naive"):
                with self.subTest(communicator, mode=mode):
                    trace = self.folder / "trace.json"
                    self.run_json(self.plan(communicator), "--steps", 5, "--trace", trace, "--emulate", mode)
                    sums, _ = self.sums(trace)
                    self.assertEqual(sums, {step: dict.fromkeys(range(4), 1) for step in range(5)})

    def test_swaps_to_a_schedule_without_one_and_back(self):
        for communicator in ("per_edge", "shared"):
            with self.subTest(communicator):
                trace, control = self.folder / "trace.json", self.folder / "control"
                launcher, _ = self.launch(self.plan(communicator), "--steps", 100000, "--trace", trace, "--control", control,
                                          "--json")
                swaps = 99 if SOAK else 3
                for n in range(swaps):
                    self.piperun("--control", control, "swap", 1 - n % 2)
                self.piperun("--control", control, "stop")
                out, messages = launcher.communicate(timeout=HANG)
                self.assertEqual(launcher.returncode, OK, messages)
                self.assertEqual(json.loads(out)["swaps"], swaps)
                steps = json.loads(out)["steps"]
                sums, epochs = self.sums(trace)
                self.assertEqual(set(epochs.values()), set(range(swaps + 1)))
                self.assertEqual(sums, {step: dict.fromkeys(range(4), 1 - epochs[step] % 2) for step in range(steps)})

    def test_a_rank_that_does_not_come_is_named(self):
        said = "rank 1: all_reduce norm: rank 0 did not come to it|rank 0: .* waits for .rank 0: BW"
        for deadline in (2, 20, 200):  # where a busy machine makes another one late for it, longer
            begin = time.monotonic()
            messages = self.piperun(self.slow(), "--local", "--deadline", deadline, "--rendezvous", HANG, code=RUN).stderr
            self.assertGreater(time.monotonic() - begin, deadline)
            if re.search(said, messages):
                break
        self.assertRegex(messages, said)

    def test_a_rank_killed_while_the_others_wait_ends_the_run(self):
        said = "rank [123]: all_reduce norm: lost rank 0"
        for seconds in (2, 10, 50, 250):  # long enough for three ranks to start and come to it
            launcher, pids = self.launch(self.slow(), "--deadline", 10 * HANG)
            time.sleep(seconds)
            os.kill(pids[0], signal.SIGKILL)
            _, messages = launcher.communicate(timeout=HANG)  # long before the deadline
            self.assertEqual(launcher.returncode, RUN, messages)
            self.assertRegex(messages, r"rank 0 \(pid \d+\) was killed by signal 9")
            if re.search(said, messages):
                break
        self.assertRegex(messages, said)


if __name__ == "__main__":
    unittest.main()
