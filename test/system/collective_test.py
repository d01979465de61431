"""Runs with a global norm: one all-reduce a rank and step, in the simulated time, across swaps to schedules without one;
and ranks that do not come to it."""
import collections
import json
import os
import signal
import time
import unittest

from support import OK, RUN, SOAK, ToolTest, tool

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
DEADLINE = 4  # seconds a wait may last in the runs that fail


class CollectiveTest(ToolTest):
    def plan(self, communicator="per_edge"):
        return self.compile(SPEC.format(communicator=communicator, backward="500us"))

    def slow(self):
        """A plan in which rank 0's only backward takes a minute: all others soon wait in the all-reduce."""
        return self.compile(SPEC.format(communicator="per_edge", backward="[60s, 500us, 500us, 500us]"),
                            pipeline__microbatches=1)

    def start(self, plan, *arguments):
        """A run, once all ranks have met, and their pids."""
        return self.launch(plan, "--deadline", DEADLINE, *arguments)

    def sums(self, trace):
        """{step: {rank: its all-reduces}} and {step: epoch}."""
        sums, epochs = collections.defaultdict(collections.Counter), {}
        for event in json.loads(trace.read_text())["traceEvents"]:
            if event["ph"] == "X":
                epochs[event["args"]["step"]] = event["args"]["epoch"]
                sums[event["args"]["step"]][event["pid"]] += event["args"]["kind"] == "all_reduce"
        return sums, epochs

    def test_each_rank_and_step_has_one(self):
        for communicator in ("per_edge", "per_pair", "shared"):
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
                steps = 3000 if SOAK else 300
                launcher, _ = self.start(self.plan(communicator), "--steps", steps, "--trace", trace, "--control", control,
                                         "--json")
                for variant in (1, 0, 1):
                    done = tool("piperun", "--control", control, "swap", variant)
                    self.assertEqual(done.returncode, OK, done.stderr)
                out, messages = launcher.communicate(timeout=120)
                self.assertEqual(launcher.returncode, OK, messages)
                self.assertEqual(json.loads(out)["swaps"], 3)
                sums, epochs = self.sums(trace)
                self.assertEqual(set(epochs.values()), {0, 1, 2, 3})
                self.assertEqual(sums, {step: dict.fromkeys(range(4), 1 - epochs[step] % 2) for step in range(steps)})

    def test_a_rank_that_does_not_come_is_named(self):
        launcher, _ = self.start(self.slow())
        begin = time.monotonic()
        _, messages = launcher.communicate(timeout=60)
        self.assertEqual(launcher.returncode, RUN, messages)
        self.assertLess(time.monotonic() - begin, DEADLINE + 6, messages)
        self.assertRegex(messages, "rank 1: all_reduce: rank 0 did not come to it|rank 0: .* waits for .rank 0: BW")

    def test_a_rank_killed_while_the_others_wait_ends_the_run(self):
        control = self.folder / "control"
        launcher, pids = self.start(self.slow(), "--control", control)
        begin = time.monotonic()
        while time.monotonic() - begin < DEADLINE / 2:  # long enough for three ranks to start and come to it
            tool("piperun", "--control", control, "status")
        os.kill(pids[0], signal.SIGKILL)
        begin = time.monotonic()
        _, messages = launcher.communicate(timeout=60)
        self.assertEqual(launcher.returncode, RUN, messages)
        self.assertLess(time.monotonic() - begin, DEADLINE, messages)
        self.assertRegex(messages, r"rank 0 \(pid \d+\) was killed by signal 9")
        self.assertRegex(messages, "rank [123]: all_reduce: lost rank 0")


if __name__ == "__main__":
    unittest.main()
