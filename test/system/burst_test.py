"""Stages on several ranks, each with its samples, in whole runs: training gives the losses of one process whatever the widths,
the synthetic stage sees each sample in its place and each sum, jobs run where nothing else does, and what is refused. How long
steps take is for test/bench/jobs.py."""
import json
import os
import signal
import unittest

from support import BIN, HANG, INPUT, RUN, SOURCE, USAGE, ToolTest

LIBRARY = BIN / "mlp64.so"

# Six layers of (32 + 1) x 32 doubles, 64 rows.
ONE = """
pipec: 1
pipeline: {ranks: 1, microbatches: 1}
layers: [{count: 6, forward: 1ms, backward: 2ms}]
schedule: 1f1b
backward: fused
provider: {hidden: 32, samples: 64, seed: 1, rate: 0.1, log: %s}
"""
SEVERAL = """
pipec: 1
pipeline: {ranks: 4, batch: 8}
costs: {link: {latency: 20us, bandwidth: 10GB/s}, optimizer: 100us}
schedule: {name: burst, widths: %s, choices: all, sync: %s}
layers:
- {count: 6, forward: {samples: {1: 1ms, 8: 4ms}}, backward: {samples: {1: 2ms, 8: 8ms}}, gradients: 8448B,
   boundary: {per_sample: 2KiB}}
provider: {hidden: 32, samples: 64, seed: 1, rate: 0.1, log: %s}
"""
WIDTHS = ["4", "[4, 4, 2, 2, 1, 1]", "[1, 2, 4, 4, 2, 3]", "[2, 4, 2, 4, 2, 4]", "[3, 3, 3, 1, 1, 4]"]
STEPS = 20


class BurstTest(ToolTest):
    def planned(self, widths, sync="overlap", **settings):
        return self.compile(SEVERAL % (widths, sync, self.folder / "losses"), **settings)

    def losses(self):
        """Of the last stage, by step; all members of a stage have the same weights."""
        losses, weights = {}, {}
        for line in (self.folder / "losses").read_text(encoding="ascii").splitlines():
            step, stage, found, loss, *member = line.split(",")
            self.assertEqual(weights.setdefault((step, stage), found), found, f"member {member} of stage {stage}")
            if loss:
                losses[int(step)] = losses.get(int(step), 0) + float(loss)
        (self.folder / "losses").unlink()
        return losses

    def train(self, plan, *arguments, steps=STEPS):
        self.run_json(plan, f"--stage={LIBRARY}", "--steps", steps, *arguments)
        return self.losses()

    def near(self, found, expected):
        self.assertEqual(sorted(found), sorted(expected))
        for step, loss in expected.items():
            self.assertLess(abs(found[step] - loss), 1e-12, f"step {step}")


class TrainingTest(BurstTest):
    def test_losses_are_those_of_one_process(self):
        one = self.train(self.compile(ONE % (self.folder / "losses")))
        self.assertEqual(len(one), STEPS)
        self.assertLess(one[STEPS - 1], 0.5 * one[0])
        for widths in WIDTHS:
            for sync in ("overlap", "end"):
                with self.subTest(widths=widths, sync=sync):
                    self.near(self.train(self.planned(widths, sync)), one)

    def test_so_they_are_through_swaps_and_from_a_checkpoint(self):
        expected = self.train(self.planned(WIDTHS[1]))
        both = self.planned(WIDTHS[1], variants="[{schedule: {name: burst, widths: [4, 4, 2, 2, 1, 1]}}, "
                                                "{schedule: {name: burst, widths: [4, 4, 2, 2, 1, 1], sync: end}}]")
        self.near(self.train(both, "--swap-every", 3), expected)
        states = ["--checkpoint", self.folder / "states"]
        begun = self.train(both, *states, steps=7)
        self.near(begun | self.train(both, *states, "--resume"), expected)

    def test_the_synthetic_stage_sees_every_sample_and_sum(self):
        for widths in WIDTHS:
            for pace in ("carry", "naive"):
                self.assertEqual(self.run_json(self.planned(widths), "--steps", 5, "--emulate", pace)["steps"], 5)

    def test_a_trace_has_the_reshards(self):
        trace = self.folder / "trace.json"
        self.run_json(self.planned("[4, 4, 4, 2, 2, 2]"), "--steps", 2, "--trace", trace)
        events = json.loads(trace.read_text())["traceEvents"]
        found = [event["args"].get("of") for event in events
                 if event.get("ph") == "X" and event["args"].get("kind") == "reshard" and event["args"]["step"] == 1]
        self.assertEqual(sorted(found), ["B"] * 4 + ["F"] * 4)


class JobsTest(BurstTest):
    JOBS = "jobs: {slow_down: 5%, work: [{name: a, samples: 8, atoms: 16, atom: 200us, overhead: 100us}]}\n"

    def test_a_rank_without_stages_runs_its_job_all_the_time(self):
        spec = SEVERAL % ("2", "overlap", self.folder / "losses") + self.JOBS
        plan = self.compile(spec)
        run = self.run_json(plan, "--steps", 20)
        predicted = json.loads(self.pipec("report", plan, "--json").stdout)["jobs"][0]["pieces"]
        self.assertGreater(min(predicted[2:]), 0)
        for job in run["jobs"][2:]:
            self.assertGreater(job["pieces"], 15 * predicted[job["rank"]])
        self.assertEqual(self.run_json(plan, "--steps", 5, "--no-jobs")["jobs"], [])

    def test_its_state_is_in_the_checkpoint(self):
        plan = self.compile(SEVERAL % ("2", "overlap", self.folder / "losses") + self.JOBS)
        states = ["--checkpoint", self.folder / "states", "--every", 5]
        self.run_json(plan, "--steps", 12, *states)
        manifest = json.loads((self.folder / "states" / "manifest.json").read_text())
        self.assertGreater(min(each["atoms"] for each in manifest["jobs"] if each["process"] > 1), 0)
        run = self.run_json(plan, "--steps", 20, "--resume", *states)
        self.assertEqual({job["failed"] for job in run["jobs"]}, {None})


class FaultTest(BurstTest):
    def test_a_member_that_dies_ends_all_and_is_named(self):
        launcher, pids = self.launch(self.planned(WIDTHS[1]), "--steps", 1000000)
        os.kill(pids[3], signal.SIGKILL)
        messages = launcher.communicate(timeout=HANG)[1]
        self.assertEqual(launcher.returncode, RUN)
        self.assertRegex(messages, r"rank 3 \(pid \d+\) was killed by signal 9")
        self.nobody_is_left(pids.values())

    def test_a_member_that_stands_still_is_named(self):
        self.names_who_stands_still(self.planned(WIDTHS[1]), 3, "rank 3 did not come to it within")

    def test_what_is_refused(self):
        plan = self.planned(WIDTHS[1])
        run = self.piperun(plan, "--local", "--device", "cuda", code=USAGE)
        self.assertIn("the plan's stages are on several ranks, whose reshards are not supported on GPUs yet", run.stderr)
        old = SOURCE / "test" / "golden" / "format-1.9.plan"
        self.assertIn("the plan does not say what its stages hand on of a sample: compile it anew",
                      self.piperun(old, "--local", code=INPUT).stderr)
        wrong = self.planned(WIDTHS[1], provider__samples=36)
        self.assertIn("provider: samples is 36, expected a multiple of 4 x the plan's batch",
                      self.piperun(wrong, "--local", f"--stage={LIBRARY}", code=RUN).stderr)


if __name__ == "__main__":
    unittest.main()
