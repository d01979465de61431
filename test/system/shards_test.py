"""Shards in whole runs: emulated steps, swaps to other portions, a shard that dies or stands still, the launcher's count,
what is refused, and what --json and traces say of each process."""
import collections
import json
import os
import pathlib
import signal
import unittest

from support import HANG, INPUT, RUN, SOAK, USAGE, ToolTest, tool

PROBES = pathlib.Path(os.environ["PIPEC_PROBES"])

SPEC = """
pipec: 1
pipeline: {ranks: %d, microbatches: 4}
layers:
  - name: block
    count: 4
    forward: 100us
    backward: 200us
    boundary: 64KiB
    splits: [{name: heads, units: 12, forward: 1ms, backward: 2ms, sum: 1MiB, weights: 1MB, gradients: 1MB}]
costs: {link: {latency: 60us}, optimizer: {time: 200us}}
schedule: 1f1b
tensor_parallel:
  shards: %d
  link: {latency: 20us, bandwidth: 100GB/s}
  slow: [{rank: 0, shard: 1, factor: 4}]
  balance: %s
"""


class ShardsTest(ToolTest):
    def planned(self, ranks, shards, balance="auto", **settings):
        return self.compile(SPEC % (ranks, shards, balance), **settings)


class RunTest(ShardsTest):
    def test_every_process_has_its_own_time(self):
        for ranks, shards in ((1, 4), (2, 2)):
            with self.subTest(ranks=ranks, shards=shards):
                run = self.run_json(self.planned(ranks, shards, "even"), "--steps", 3)
                self.assertEqual((run["ranks"], run["shards"], run["processes"]), (ranks, shards, ranks * shards))
                self.assertEqual(len(run["own_ms"]), ranks * shards)
                self.assertEqual([round(factor, 3) for factor in run["factors"]],
                                 [4 if process == 1 else 1 for process in range(ranks * shards)])
        self.run_json(self.planned(2, 2), "--steps", 3, "--emulate", "naive")

    def test_one_process_a_rank_has_none(self):
        run = self.run_json(self.compile("{pipec: 1, pipeline: {ranks: 2, microbatches: 2}, schedule: 1f1b}",
                                         **{"costs__forward": "1ms", "costs__backward_input": "1ms",
                                            "costs__backward_weight": "1ms"}), "--steps", 2)
        self.assertEqual((run["shards"], run["own_ms"], run["factors"]), (1, None, None))

    def test_it_swaps_to_other_portions_and_resumes_under_others(self):
        plan = self.planned(2, 2, variants="[{schedule: 1f1b}, {schedule: gpipe}]")
        folder = self.folder / "states"
        run = self.run_json(plan, "--steps", 20, "--swap-every", 3, "--checkpoint", folder, "--every", 5)
        self.assertEqual(run["swaps"], 6)
        manifest = json.loads((folder / "manifest.json").read_text())
        self.assertEqual(manifest["shards"], 2)
        self.assertEqual([sum(count for each in owned for _, count in each["owned"]) > 0 for owned in manifest["owned"]],
                         [True] * 4)
        names = sorted(file["name"] for file in manifest["files"])
        self.assertEqual(names, [f"step-20-rank-{rank}-shard-{shard}.state" for rank in (0, 1) for shard in (0, 1)])
        self.run_json(self.planned(2, 2, "even"), "--steps", 30, "--checkpoint", folder, "--resume")
        other = self.piperun(self.planned(2, 4), "--local", "--checkpoint", folder, "--resume", code=INPUT)
        self.assertIn("is of 2 shards of each rank, the plan has 4", other.stderr)

    def test_a_scenario_slows_one(self):
        network = self.folder / "slow.json"
        network.write_text(json.dumps({"scenario": 1, "faults": [{"slow": 0, "shard": 0, "percent": 300}]}))
        run = self.run_json(self.planned(1, 2, "even"), "--steps", 3, "--network", network)
        self.assertEqual([round(factor, 3) for factor in run["factors"]], [3, 4])

    def test_traces_have_all_processes(self):
        trace = self.folder / "trace.json"
        self.run_json(self.planned(2, 2), "--steps", 2, "--trace", trace)
        names, kinds = {}, collections.Counter()
        for event in json.loads(trace.read_text())["traceEvents"]:
            if event["ph"] == "M" and event["name"] == "process_name":
                names[event["pid"]] = event["args"]["name"]
            if event["ph"] == "X":
                self.assertEqual(event["args"]["shard"], event["pid"] % 2)
                kinds[event["pid"], event["args"]["kind"]] += 1
                if event["args"]["kind"] == "F":
                    self.assertGreater(event["args"]["own_ms"], 0)
                    self.assertGreaterEqual(event["args"]["wait_ms"], 0)
        self.assertEqual(names, {2 * rank + shard: f"rank {rank} shard {shard}" for rank in (0, 1) for shard in (0, 1)})
        self.assertTrue(all(kinds[2 * (pid // 2), kind] == count for (pid, kind), count in kinds.items()))

    @unittest.skipUnless(SOAK, "of the clock")
    def test_emulated_steps_take_what_was_predicted(self):
        for ranks, shards in ((1, 4), (2, 2)):
            for balance in ("even", "auto", "migrate", "resize", "semi"):
                plan = self.planned(ranks, shards, balance)

                def off():
                    run = self.run_json(plan, "--steps", 20)
                    return max(abs(a / b - 1) for a, b in zip(run["step_ms"], run["simulated_step_ms"]))
                self.assertLess(min(off() for _ in range(3)), 0.02)


class FaultTest(ShardsTest):
    def test_a_shard_that_dies_ends_all_and_is_named(self):
        launcher, pids = self.launch(self.planned(2, 2), "--steps", 1000000)
        self.assertEqual(set(pids), {(0, 0), (0, 1), (1, 0), (1, 1)})
        os.kill(pids[1, 0], signal.SIGKILL)
        messages = launcher.communicate(timeout=HANG)[1]
        self.assertEqual(launcher.returncode, RUN)
        self.assertIn(f"rank 1 shard 0 (pid {pids[1, 0]}) was killed by signal 9", messages)
        self.nobody_is_left(pids.values())

    def test_a_shard_that_stands_still_is_named(self):
        self.names_who_stands_still(self.planned(1, 3), (0, 1), "meeting 1: rank 0 shard 1 did not come to it within")

    def test_a_launcher_must_start_all_of_them(self):
        for source, rank, world in (("torchrun", "RANK", "WORLD_SIZE"), ("Slurm", "SLURM_PROCID", "SLURM_NTASKS"),
                                    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")):
            env = {**os.environ, rank: "0", world: "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
            done = tool("piperun", self.planned(2, 2), "--no-secret", env=env)
            self.assertEqual(done.returncode, USAGE, done.stderr)
            self.assertIn(f"the plan is of 2 ranks of 2 shards, 4 processes, {source} has started 2 processes", done.stderr)

    def test_what_shards_cannot(self):
        plan = self.planned(2, 2)
        for transport in ([], ["--transport=ipc"], ["--transport=nccl"]):
            done = self.piperun(plan, "--local", "--device=cuda", *transport, code=USAGE)
            self.assertIn("the plan's ranks have shards, whose sums are not supported on GPUs yet", done.stderr)
        done = self.piperun(plan, "--local", f"--stage={PROBES}/probe-backward.so", code=INPUT)
        self.assertIn("has no pipec_stage_portions, and the plan has shards", done.stderr)
        done = self.piperun(plan, "--local", "--checkpoint", self.folder / "states", "--replan", self.folder / "spec.yaml",
                            "--cut", code=USAGE)
        self.assertIn("the plan has shards, each of which has its own part of a layer's state", done.stderr)
        network = self.folder / "slow.json"
        network.write_text(json.dumps({"scenario": 1, "faults": [{"slow": 0, "shard": 2, "percent": 300}]}))
        done = self.piperun(plan, "--local", "--network", network, code=INPUT)
        self.assertIn("there is no shard 2 of rank 0, it has 2", done.stderr)


if __name__ == "__main__":
    unittest.main()
