"""The stage library with shards in whole runs: bit for bit one process's weights and losses in every step, whatever the
shards own and work, through swaps and from checkpoints."""
import collections
import itertools
import json
import subprocess
import time
import unittest

from support import BIN, HANG, RUN, SOAK, SPECS, ToolTest, patient, until

SPEC = SPECS / "stages" / "tensor" / "tensor.yaml"
LIBRARY = BIN / "tensor.so"
STEPS = 12
# Small, so that a step takes little; what a layer is thought to take stays, so portions are what they are.
SMALL = {"tensors__boundary": "16KiB", "provider__width": 16, "provider__samples": 16}
SLOW = {"tensor_parallel__slow": "[{rank: 0, shard: 1, factor: 4}]"}


class TensorTest(ToolTest):
    def train(self, *arguments, steps=STEPS, **settings):
        """A new run: what it says, and of each step the loss and the sum of all hashes."""
        log = self.folder / "log.csv"
        log.unlink(missing_ok=True)
        plan = self.compile(SPEC, **SMALL, **settings, provider__log=log)
        run = self.run_json(plan, f"--stage={LIBRARY}", "--steps", steps, *arguments)
        return run, self.read(log)

    def read(self, log):
        hashes, losses, lines = collections.Counter(), collections.defaultdict(set), collections.Counter()
        for line in log.read_text(encoding="ascii").splitlines():
            step, _, _, digest, loss, _ = line.split(",")
            hashes[int(step)] += int(digest, 16)
            lines[int(step)] += 1
            if loss:
                losses[int(step)].add(loss)
        self.assertEqual(len(set(lines.values())), 1, "a line a stage, shard and step")
        self.assertEqual({step for step, each in losses.items() if len(each) != 1}, set(), "shards with other losses")
        return {step: (losses[step].pop(), hashes[step] % 2**64) for step in hashes}

    def one(self, steps=STEPS):
        said = self.train(tensor_parallel__shards=1, steps=steps)[1]
        self.assertEqual(len(said), steps)
        self.assertEqual(len(set(said.values())), steps)
        return said

    def test_any_number_of_shards_trains_the_same(self):
        one = self.one()
        ways = list(itertools.product([2, 3, 4], ["even", "auto", "migrate"]))
        for shards, balance in ways if SOAK else ways[1::3] + ways[2:3]:
            with self.subTest(shards=shards, balance=balance):
                run, said = self.train(tensor_parallel__shards=shards, tensor_parallel__balance=balance, **SLOW)
                self.assertEqual(said, one)
                self.assertEqual(len(run["factors"]), shards)

    def test_two_ranks_of_two_shards_train_the_same(self):
        one = self.one()
        for backward, schedule in [("split", "zb-h1"), ("fused", "1f1b")]:
            with self.subTest(schedule=schedule):
                said = self.train(pipeline__ranks=2, schedule=schedule, backward=backward,
                                  tensor_parallel__balance="auto", **SLOW)[1]
                self.assertEqual(said, one)

    def test_swaps_between_balances(self):
        steps = 1000 if SOAK else 60
        run, said = self.train("--swap-every", 10 if SOAK else 3, steps=steps, **SLOW,
                               variants="[" + ", ".join("{tensor_parallel: {balance: %s}}" % balance for balance in
                                                         ["even", "auto", "migrate"]) + "]")
        self.assertGreater(run["swaps"], 0)
        self.assertEqual(said, self.one(steps))

    def test_choosing_variants_by_measured_factors(self):
        """Which swaps there are depends on the clock; what is learned does not."""
        network = self.folder / "slow.json"
        network.write_text(json.dumps({"scenario": 1, "faults": [{"slow": 0, "shard": 1, "percent": 400, "at": "100ms"},
                                                                 {"slow": 0, "shard": 1, "percent": 100}]}))
        steps = 400 if SOAK else 60
        run, said = self.train("--adapt", "--network", network, steps=steps,
                               variants="[{schedule: gpipe}, {tensor_parallel: {balance: auto, slow: [{rank: 0, shard: 1, factor: 4}]}}]")
        self.assertEqual(said, self.one(steps))
        if SOAK:
            self.assertGreater(run["swaps"], 0)

    def test_a_run_goes_on_under_another_balance(self):
        one = self.one()
        states = self.folder / "states"
        first = self.train("--checkpoint", states, steps=5, tensor_parallel__balance="migrate", **SLOW)[1]
        second = self.train("--checkpoint", states, "--resume", tensor_parallel__balance="auto", **SLOW)[1]
        self.assertEqual({**first, **second}, one)
        self.assertEqual(len(second), STEPS - 5)

    def test_a_killed_run_goes_on_under_another_balance(self):
        one = self.one()
        log, states = self.folder / "log.csv", self.folder / "states"
        log.unlink()
        plan = self.compile(SPEC, **SMALL, **SLOW, tensor_parallel__balance="auto", provider__log=log)
        run = subprocess.Popen([BIN / "piperun", *patient([plan, "--local", f"--stage={LIBRARY}", "--steps", 100000, "--checkpoint",
                                                           states, "--every", 2])],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        until((states / "manifest.json").exists, "a checkpoint")
        run.kill()
        run.wait(timeout=HANG)
        until(lambda: self.idle(log), "the end of all its processes")
        done, said = self.train("--checkpoint", states, "--resume", steps=STEPS, tensor_parallel__balance="migrate", **SLOW)
        self.assertGreater(done["first_step"], 0)
        self.assertEqual(said, {step: one[step] for step in range(min(done["first_step"], STEPS), STEPS)})

    def idle(self, log):
        """Whether nobody writes any more: a launcher that is killed leaves its processes to find out."""
        before = log.stat().st_size
        time.sleep(0.5)
        return log.stat().st_size == before

    def test_what_is_left_out_changes_what_is_learned(self):
        one = self.one()
        for balance in ["{name: auto, most: 0.25}", "{name: resize, impute: average, priority: random}", "semi"]:
            with self.subTest(balance=balance):
                said = self.train(tensor_parallel__balance=balance, **SLOW)[1]
                self.assertEqual(len(said), STEPS)
                self.assertNotEqual(said[0], one[0])

    def test_a_plan_of_other_units_is_refused(self):
        plan = self.compile(SPEC, **{**SMALL, "provider__columns": 128})
        done = self.piperun(plan, "--local", f"--stage={LIBRARY}", code=RUN)
        self.assertIn("split columns has 448 units in the plan and 128 here (the provider's columns)", done.stderr)

    def test_the_profile_is_a_specs_layers(self):
        printed = subprocess.run([BIN / "tensor-profile", '{"width": 16, "columns": 32, "samples": 16}', "4"], check=True,
                                 capture_output=True, text=True).stdout
        spec = "pipeline: {ranks: 1, microbatches: 2}\nschedule: gpipe\ntensors: {boundary: 16KiB}\n" + printed
        self.pipec("compile", self.spec(spec.replace("- name: heads", "- name: heads\n    units: 8")
                                        .replace("- name: columns", "- name: columns\n    units: 32")),
                   "-o", self.folder / "plan.pipe")


if __name__ == "__main__":
    unittest.main()
