"""Replicas in whole runs: whatever the policy, the bundles and the collectives, training on ranks x replicas gives the
weights of one process; and what happens when a replica dies, or a run goes on from a checkpoint."""
import collections
import json
import os
import pathlib
import signal
import struct
import unittest

from support import BIN, HANG, INPUT, RUN, SOAK, USAGE, ToolTest, tool

LIBRARY = BIN / "mlp.so"
PROBES = pathlib.Path(os.environ["PIPEC_PROBES"])

# Eight layers of (8 + 1) x 8 numbers, and eight microbatches of a step, over all replicas.
HIDDEN, LAYERS, MICROBATCHES = 8, 8, 8
LAYER = (HIDDEN + 1) * HIDDEN * 4
TRAINING = """
pipec: 1
pipeline: {ranks: %d, microbatches: %d}
layers:
  - {count: 8, forward: 1ms, backward_input: 1ms, backward_weight: 1ms, boundary: 128B, gradients: 288B, optimizer: 100us}
costs: {link: {latency: 60us}, optimizer: {time: 0ms, global_norm: %s}}
schedule: 1f1b
backward: fused
data_parallel: {degree: %d, costs: {all_reduce: {start: 500us, bandwidth: 1MB/s}}, %s}
provider: {hidden: 8, samples: 4, seed: 1, rate: 0.5, clip: %g}
"""
WAYS = ["policy: auto", "policy: none", "policy: wfbp", "policy: {name: ddp, bundle: 600B, first: 300B}", "policy: dear-queue",
        "collective: decoupled, shard: none, fusion: none", "collective: decoupled, shard: optimizer, fusion: 900B",
        "policy: mg-wfbp", "policy: auto, port: shared"]
SHAPES = [(1, 4), (2, 2), (4, 2)]


class ReplicasTest(ToolTest):
    STEPS = 50

    def planned(self, ranks, degree, way="policy: auto", norm=False, clip=0, **settings):
        return self.compile(TRAINING % (ranks, MICROBATCHES // degree, str(norm).lower(), degree, way, clip), **settings)

    def weights(self, folder, degree):
        """Of all layers; all replicas have the same."""
        files = json.loads((folder / "manifest.json").read_text())["files"]
        replicas = [[] for _ in range(degree)]
        for world, file in enumerate(files):
            state = (folder / file["name"]).read_bytes()
            for at in range(32, len(state), 32 + LAYER):
                replicas[world % degree] += struct.unpack(f"<{LAYER // 4}f", state[at:at + LAYER])
        for replica in replicas:
            self.assertTrue(replica == replicas[0], "replicas have other weights")
        return replicas[0]

    def train(self, plan, degree, *arguments, steps=STEPS, into="states"):
        folder = self.folder / into
        run = self.run_json(plan, f"--stage={LIBRARY}", "--steps", steps, "--checkpoint", folder, "--overwrite", *arguments)
        self.assertEqual(run["steps"], steps)
        return self.weights(folder, degree), run

    def near(self, found, expected):
        self.assertEqual(len(found), len(expected))
        self.assertLess(max(abs(a - b) for a, b in zip(found, expected)), 1e-5)


class TrainingTest(ReplicasTest):
    def test_a_rank_may_have_no_gradients(self):
        """So no collective, and no need of its replicas."""
        plan = self.compile("""
pipec: 1
pipeline: {ranks: 2, microbatches: 2}
layers:
  - {count: 2, forward: 1ms, backward: 1ms}
  - {count: 2, forward: 1ms, backward: 1ms, gradients: 1MB}
tensors: {boundary: 1KiB}
schedule: 1f1b
data_parallel: {degree: 2, policy: wfbp, link: {latency: 50us, bandwidth: 1GB/s}}
""")
        self.assertEqual(self.run_json(plan, "--steps", 3)["steps"], 3)

    def test_every_way_to_exchange_gives_the_weights_of_one_process(self):
        one, run = self.train(self.planned(1, 1), 1)
        self.assertEqual((run["ranks"], run["degree"], run["processes"]), (1, 1, 1))
        for ranks, degree in SHAPES:
            first = None
            for way in WAYS:
                with self.subTest(ranks=ranks, degree=degree, way=way):
                    found, run = self.train(self.planned(ranks, degree, way), degree)
                    self.assertEqual((run["ranks"], run["degree"], run["processes"]), (ranks, degree, ranks * degree))
                    first = first or found
                    self.assertTrue(found == first, "other weights")
            self.near(first, one)

    def test_so_does_clipping_by_the_norm_of_all(self):
        one, _ = self.train(self.planned(2, 1, norm=True, clip=0.05), 1)  # a single rank asks for no norm
        self.assertTrue(one != self.train(self.planned(2, 1), 1)[0], "nothing is clipped")
        for ranks, degree in SHAPES:
            for way in WAYS[-3:]:
                self.near(self.train(self.planned(ranks, degree, way, norm=True, clip=0.05), degree)[0], one)

    def test_so_do_swaps_and_the_synthetic_stage_sees_every_sum(self):
        plan = self.planned(2, 2, "policy: none")
        expected, _ = self.train(plan, 2)
        both = self.planned(2, 2, "policy: none", variants="[{schedule: 1f1b}, {schedule: gpipe}]")
        found, run = self.train(both, 2, "--swap-every", 3)
        self.assertEqual(run["swaps"], self.STEPS // 3)
        self.assertTrue(found == expected, "other weights")
        for way in WAYS:
            for mode in ("carry", "naive"):
                self.run_json(self.planned(2, 2, way), "--steps", 10, "--emulate", mode)
        self.run_json(both, "--steps", 10, "--swap-every", 3)

    def test_a_run_goes_on_from_its_checkpoint_on_the_same_degree(self):
        plan = self.planned(2, 2, WAYS[6])
        expected, _ = self.train(plan, 2)
        self.train(plan, 2, steps=20, into="begun")
        folder = self.folder / "begun"
        self.run_json(plan, f"--stage={LIBRARY}", "--steps", self.STEPS, "--checkpoint", folder, "--resume")
        self.assertTrue(self.weights(folder, 2) == expected, "other weights")
        names = sorted(file["name"] for file in json.loads((folder / "manifest.json").read_text())["files"])
        self.assertEqual(names, [f"step-50-rank-{rank}-replica-{replica}.state" for rank in (0, 1) for replica in (0, 1)])
        other = self.piperun(self.planned(2, 4), "--local", f"--stage={LIBRARY}", "--checkpoint", folder, "--resume", code=INPUT)
        self.assertIn("is of 2 replicas of each rank, the plan has 4", other.stderr)


class FaultTest(ReplicasTest):
    def test_a_replica_that_dies_ends_all_and_is_named(self):
        launcher, pids = self.launch(self.planned(2, 2), "--steps", 1000000)
        self.assertEqual(set(pids), {(0, 0), (0, 1), (1, 0), (1, 1)})
        os.kill(pids[1, 0], signal.SIGKILL)
        messages = launcher.communicate(timeout=HANG)[1]
        self.assertEqual(launcher.returncode, RUN)
        self.assertIn(f"rank 1 replica 0 (pid {pids[1, 0]}) was killed by signal 9", messages)
        self.nobody_is_left(pids.values())

    def test_a_replica_that_stands_still_is_named(self):
        self.names_who_stands_still(self.planned(1, 3), (0, 1), "rank 0 replica 1 did not come to it within")

    def test_a_launcher_must_start_all_of_them(self):
        env = {**os.environ, "RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
        done = tool("piperun", self.planned(2, 2), "--no-secret", env=env)
        self.assertEqual(done.returncode, USAGE, done.stderr)
        self.assertIn("the plan is of 2 ranks of 2 replicas, 4 processes, torchrun has started 2 processes", done.stderr)

    def test_a_library_must_know_its_layers(self):
        done = self.piperun(self.planned(1, 2), "--local", f"--stage={PROBES}/probe-backward.so", code=INPUT)
        self.assertIn("has no pipec_stage_layer, and the plan has replicas", done.stderr)

    def test_layers_do_not_move(self):
        done = self.piperun(self.planned(2, 2), "--local", "--checkpoint", self.folder / "states", "--replan",
                            self.folder / "spec.yaml", "--cut", code=USAGE)
        self.assertIn("the plan has replicas, each of which has its own share of a layer's state", done.stderr)


class TimingTest(ReplicasTest):
    def test_traces_have_all_processes(self):
        trace = self.folder / "trace.json"
        self.run_json(self.planned(2, 2), "--steps", 3, "--trace", trace)
        names, kinds = {}, collections.Counter()
        for event in json.loads(trace.read_text())["traceEvents"]:
            if event["ph"] == "M" and event["name"] == "process_name":
                names[event["pid"]] = event["args"]["name"]
            if event["ph"] == "X":
                self.assertEqual(event["args"]["replica"], event["pid"] % 2)
                kinds[event["pid"], event["args"]["kind"]] += 1
        self.assertEqual(names, {2 * rank + replica: f"rank {rank} replica {replica}" for rank in (0, 1) for replica in (0, 1)})
        self.assertTrue(all(kinds[2 * rank, kind] == count for (pid, kind), count in kinds.items() for rank in [pid // 2]))

    def test_a_run_lies_under_its_prediction(self):
        plan, trace = self.planned(2, 2, "policy: dear-queue"), self.folder / "trace.json"
        self.run_json(plan, "--steps", 3, "--trace", trace)
        scopes = {tuple(event["args"].get("layers", ())) for event in json.loads(trace.read_text())["traceEvents"]
                  if event["ph"] == "X" and event["args"]["kind"] == "reduce_scatter"}
        self.assertEqual(scopes, {(layer, 1) for layer in range(LAYERS // 2)})
        self.assertIn("rank 1 plan", self.pipec("show", plan, "--trace", trace).stdout)
        self.assertIn("rank 1", self.pipec("explain", plan, "--trace", trace, "--rank", 1, "--at", "1ms").stdout)
        page = self.folder / "page.html"
        self.pipec("show", plan, "--trace", trace, "--emit=html", "-o", page)
        self.assertGreater(page.stat().st_size, 10000)

    @unittest.skipUnless(SOAK, "of the clock")
    def test_emulated_steps_take_what_was_predicted(self):
        for ranks, degree in SHAPES:
            for way in WAYS:
                plan = self.planned(ranks, degree, way)

                def off():
                    run = self.run_json(plan, "--steps", 20)
                    return max(abs(a / b - 1) for a, b in zip(run["step_ms"], run["simulated_step_ms"]))
                self.assertLess(min(off() for _ in range(3)), 0.02)


if __name__ == "__main__":
    unittest.main()
