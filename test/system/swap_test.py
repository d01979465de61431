"""Swaps while a run goes on, judged from what it did: its trace. Every instruction of every step exactly once, one epoch
a step on all ranks, whoever is killed and whatever is offered meanwhile."""
import collections
import json
import os
import random
import signal
import stat
import statistics
import unittest

from support import CHECK, HANG, INPUT, OK, RUN, SOAK, USAGE, ControlledTest
from timing import judge

STEPS = 3000 if SOAK else 300
SPEC = """
pipec: 1
pipeline: {{ranks: {ranks}, microbatches: {microbatches}}}
costs: {{forward: 500us, backward_input: 500us, backward_weight: 300us, link: {{latency: 20us, bandwidth: 10GB/s}}}}
tensors: {{boundary: 256KiB, activation: 1MiB, weight_context: 1MiB}}
schedule: 1f1b
variants: [{{schedule: 1f1b}}, {{schedule: gpipe}}, {{schedule: {{name: kfkb, k: 2}}}}]
"""


# One batch in 16, 4 or 8 microbatches; the variant that runs first has the smallest payloads.
SIZES = """
pipec: 1
pipeline: {ranks: 4, batch: 16, microbatch_size: 1}
costs:
  forward: {fixed: 100us, per_sample: 100us}
  backward_input: {fixed: 100us, per_sample: 100us}
  backward_weight: {fixed: 50us, per_sample: 50us}
  link: {latency: 20us, bandwidth: 10GB/s}
tensors:
  boundary: {fixed: 1KiB, per_sample: 64KiB}
  activation: {fixed: 0B, per_sample: 1MiB}
  weight_context: {fixed: 0B, per_sample: 1MiB}
schedule: 1f1b
variants: [{}, {pipeline: {microbatch_size: 4}}, {pipeline: {microbatch_size: 2}, schedule: gpipe}]
"""


class SwapTest(ControlledTest):
    def variants(self, ranks):
        return self.compile(SPEC.format(ranks=ranks, microbatches=ranks))

    def check(self, trace, steps, microbatches):
        """{step: epoch}, after all that must hold of a trace does; microbatches: how many a step has, by its epoch."""
        seen = collections.Counter()
        epochs = collections.defaultdict(set)
        for event in json.loads(trace.read_text())["traceEvents"]:
            if event["ph"] != "X":
                continue
            a = event["args"]
            epochs[a["step"]].add(a["epoch"])
            seen[(a["step"], a["stage"], a["kind"] + a.get("of", ""), a["microbatch"])] += 1
        self.assertEqual(sorted(epochs), list(range(steps)))
        self.assertEqual({step: each for step, each in epochs.items() if len(each) != 1}, {})
        self.assertEqual({key for key, times in seen.items() if times != 1}, set())
        stages = {stage for _, stage, _, _ in seen}
        epochs = {step: each.pop() for step, each in epochs.items()}
        for kind in ("F", "BW"):
            expected = {(step, stage, kind, m) for step in range(steps) for stage in stages
                        for m in range(microbatches(epochs[step]))}
            self.assertEqual({key for key in seen if key[2] == kind} ^ expected, set())
        return epochs

    def test_a_hundred_swaps_in_three_hundred_steps(self):
        for ranks in (4, 8):
            with self.subTest(ranks=ranks):
                trace = self.folder / "trace.json"
                run = self.run_json(self.variants(ranks), "--steps", STEPS, "--swap-every", 3, "--trace", trace)
                epochs = self.check(trace, STEPS, lambda epoch: ranks)
                self.assertEqual([epochs[step] for step in range(STEPS)], run["epochs"])
                self.assertEqual(run["swaps"], max(run["epochs"]))
                self.assertEqual((run["lost_steps"], len(run["step_ms"])), (0, STEPS))
                # A late answer costs a swap its step, never the run: on a busy machine some are late.
                self.assertGreater(run["swaps"], 0)
                judge(self, f"swaps late, {ranks} ranks", 1 - run["swaps"] / (STEPS // 3 - 1), 0.01)
                judge(self, f"wait for a permit, {ranks} ranks, of 0.1 ms", run["permit_wait_ms"]["p50"] / 0.1, 1)
                # A step costs what its variant's steps cost, whether a swap was before it or not.
                relative = {True: [], False: []}
                for step in range(1, STEPS):
                    swapped = run["epochs"][step] != run["epochs"][step - 1]
                    relative[swapped].append(run["step_ms"][step] / run["simulated_step_ms"][step])
                if min(map(len, relative.values())):
                    judge(self, f"cost of a swap, {ranks} ranks",
                          statistics.median(relative[True]) / statistics.median(relative[False]) - 1, 0.01)

    def test_a_rank_killed_among_swaps_ends_all(self):
        launcher, control, pids = self.start(self.variants(4), "--steps", 100000, "--swap-every", 3, "--deadline", 10 * HANG)
        while self.status(control)["swaps"] < 20:
            pass
        victim = random.randrange(4)
        os.kill(pids[victim], signal.SIGKILL)
        _, messages = launcher.communicate(timeout=HANG)
        self.assertEqual(launcher.returncode, RUN, messages)
        self.assertRegex(messages, rf"error: rank {victim} \(pid {pids[victim]}\) was killed by signal 9")
        self.nobody_is_left(pids.values())
        self.assertFalse(control.exists())

    def test_a_damaged_plan_is_refused_and_the_run_goes_on(self):
        plan = self.variants(4)
        damaged = self.folder / "damaged.pipe"
        content = bytearray(plan.read_bytes())
        content[len(content) // 2] ^= 1
        damaged.write_bytes(content)
        trace = self.folder / "trace.json"
        launcher, control, _ = self.start(plan, "--steps", 100000, "--swap-every", 3, "--trace", trace)
        offered = 0
        while offered < (100 if SOAK else 10) or self.status(control)["swaps"] < 2:
            self.ask(control, "load", damaged, code=INPUT)
            offered += 1
        self.ask(control, "stop")
        out, messages = launcher.communicate(timeout=HANG)
        self.assertEqual(launcher.returncode, OK, messages)
        run = json.loads(out)
        self.assertEqual(len(set(self.check(trace, run["steps"], lambda epoch: 4).values())), run["swaps"] + 1)

    def test_swaps_between_microbatch_sizes(self):
        # Payloads are whole, and each is checked where it is consumed: a slot made for the smallest would not hold them.
        plan = self.compile(SIZES)
        trace = self.folder / "trace.json"
        launcher, control, _ = self.start(plan, "--steps", 100000, "--network", "real", "--trace", trace)
        swaps = 30 if SOAK else 7
        for n in range(swaps):
            self.ask(control, "swap", (n + 1) % 3)
        self.ask(control, "stop")
        out, messages = launcher.communicate(timeout=HANG)
        self.assertEqual(launcher.returncode, OK, messages)
        run = json.loads(out)
        self.assertEqual(run["swaps"], swaps)
        epochs = self.check(trace, run["steps"], lambda epoch: (16, 4, 8)[epoch % 3])
        self.assertEqual([epochs[step] for step in range(run["steps"])], run["epochs"])
        # What was not there at the start is allocated while the plan is prepared, as far as its memory limit allows.
        larger, limited = self.folder / "larger.pipe", self.folder / "limited.pipe"
        eight = ["--set", "pipeline.microbatch_size=8", "--set", "tensors.boundary.per_sample=256KiB", "--set", "variants=[{}]"]
        self.pipec("compile", self.folder / "spec.yaml", "-o", larger, *eight)
        peak = max(json.loads(self.pipec("report", larger, "--json").stdout)["peak_bytes"])
        self.pipec("compile", self.folder / "spec.yaml", "-o", limited, *eight, "--set", f"memory.limit={peak}B")
        launcher, control, _ = self.start(plan, "--steps", 100000, "--network", "real")
        self.assertRegex(self.ask(control, "load", limited, code=CHECK).stderr,
                         r"the plan needs \d+ more bytes for transfers, beside the \d+ that this run has allocated; its memory limit leaves \d+")
        self.assertIn("larger.pipe", self.ask(control, "load", larger).stdout)
        step = self.status(control)["step"]
        while self.status(control)["step"] < step + 3: # each payload is checked where it is consumed
            pass
        self.ask(control, "stop")
        self.assertEqual(launcher.wait(timeout=HANG), OK)

    def test_the_control_socket(self):
        plan = self.variants(4)
        launcher, control, _ = self.start(plan, "--steps", 100000)
        self.assertEqual(stat.S_IMODE(os.stat(control).st_mode), 0o600)
        first = self.status(control)
        self.assertEqual((first["epoch"], first["ranks"], first["swaps"]), (0, 4, 0))
        self.assertIn("variant 2 (kfkb k=2)", self.ask(control, "swap", "2").stdout)
        self.assertIn("variant 1 (gpipe)", self.ask(control, "swap", "gpipe").stdout)
        self.assertIn("epoch 2 ", self.ask(control, "swap", "1").stdout)  # it runs already
        self.assertEqual(self.status(control)["epoch"], 2)
        refused = self.ask(control, "swap", "zigzag", code=USAGE)
        self.assertIn('there is no variant "zigzag"; the plan has variant 0 (1f1b), variant 1 (gpipe)', refused.stderr)
        # A plan that was not in the file, and one that cannot be.
        other = self.folder / "other.pipe"
        self.pipec("compile", self.folder / "spec.yaml", "-o", other, "--set", "variants=[{schedule: {name: kfkb, k: 3}}]")
        self.assertIn(str(other), self.ask(control, "load", other).stdout)
        self.assertEqual(self.status(control)["epoch"], 3)
        self.pipec("compile", self.folder / "spec.yaml", "-o", other, "--set", "pipeline.ranks=3")
        self.assertIn("the plan is of 3 ranks, the one that runs of 4", self.ask(control, "load", other, code=CHECK).stderr)
        self.pipec("compile", self.folder / "spec.yaml", "-o", other, "--set", "tensors.boundary=512KiB", "--set",
                   "communicator=shared")
        self.assertRegex(self.ask(control, "load", other, code=CHECK).stderr,
                         r"rank \d+ \(pid \d+\) refused: rank \d+: the plan needs a queue \"(transfers|link with \d)\"")
        self.assertIn("cannot", self.ask(control, "load", self.folder / "missing.pipe", code=INPUT).stderr)
        self.assertEqual(self.status(control)["epoch"], 3)
        self.assertEqual(self.ask(control, "stop").stdout, "the run has ended\n")
        out, messages = launcher.communicate(timeout=HANG)
        self.assertEqual(launcher.returncode, OK, messages)
        run = json.loads(out)
        self.assertEqual((run["swaps"], run["lost_steps"], run["ended"], run["steps_asked"]), (3, 0, "stop", 100000))
        self.assertEqual(len(run["epochs"]), run["steps"])
        self.assertFalse(control.exists())
        self.assertIn("no run listens", self.ask(control, "status", code=RUN).stderr)

    def test_a_socket_that_cannot_be_is_a_wrong_usage(self):
        plan = self.variants(4)
        taken = self.folder / "taken"
        taken.write_text("")
        for path, message in [(taken, "is there and is no socket"), ("x" * 200, "1 to 107 bytes"),
                              (self.folder / "no" / "folder", "cannot listen")]:
            done = self.piperun(plan, "--local", "--steps", 1, "--control", path, code=USAGE)
            self.assertIn(message, done.stderr)
        self.assertTrue(taken.exists())


if __name__ == "__main__":
    unittest.main()
