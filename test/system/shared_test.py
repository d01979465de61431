"""Weights that layers of several ranks hold: whatever the schedule, the plan sums their gradients once a step, behind the
last backward of each holder and before its update. The synthetic stage checks every sum and every update."""
import json
import unittest

from support import INPUT, USAGE, ToolTest

SPEC = """
pipec: 1
pipeline: {ranks: %d, stages_per_rank: %d, microbatches: 8}
costs: {forward: 1ms, backward_input: 1ms, backward_weight: 1ms, optimizer: %s, link: {latency: 20us, bandwidth: 10GB/s}}
tensors: {boundary: 4KiB, gradients: 100MB}
schedule: %s
shared: [{layers: [0, %d], gradients: 100MB}]
"""
ONE = ["1f1b", "gpipe", "eager-1f1b", "{name: kfkb, k: 2}", "zb-h1", "zb-h2", "auto"]
TWO = ["interleaved-1f1b", "looped-bfs", "interleaved-zb"]
V = ["v-half", "v-min", "zb-v", "dualpipe-v"]  # there and back: both holders are on rank 0
SUM = 2 * 20e-3 + 10  # ms: a ring of two, 100 MB at 10 GB/s


def spec(schedule, ranks=4, chunks=1, optimizer="1ms"):
    return SPEC % (ranks, chunks, optimizer, schedule, ranks * chunks - 1)


class SharedTest(ToolTest):
    def sums(self, plan):
        return [line for line in self.pipec("disasm", plan).stdout.splitlines() if "all_reduce shared" in line]

    def test_every_schedule_sums_once(self):
        for schedule, chunks in [*((each, 1) for each in ONE), *((each, 2) for each in TWO)]:
            with self.subTest(schedule=schedule):
                plan = self.compile(spec(schedule, chunks=chunks))
                self.pipec("verify", plan)
                self.assertEqual(len(self.sums(plan)), 2)  # the first rank's and the last one's
                with_sum = json.loads(self.pipec("report", plan, "--json").stdout)
                self.assertGreaterEqual(with_sum["makespan_ms"], with_sum["lower_bound_ms"])
                self.assertGreaterEqual(with_sum["span_ms"], with_sum["span_lower_bound_ms"])
                self.assertEqual(with_sum["shared"], [{"layers": [0, 4 * chunks - 1], "stages": [0, 4 * chunks - 1],
                                                       "gradient_bytes": 100_000_000}])

    def test_holders_on_one_rank_sum_nothing(self):
        for schedule in V:
            with self.subTest(schedule=schedule):
                text = spec(schedule, chunks=2)
                plan = self.compile(text)
                self.pipec("verify", plan)
                self.assertEqual(self.sums(plan), [])
                alone = self.report(text.replace("shared: ", "# "))
                self.assertEqual(self.report(text)["makespan_ms"], alone["makespan_ms"])

    def test_runs_sum_what_the_plan_says(self):
        for schedule, chunks, ways in [("1f1b", 1, {}), ("zb-h1", 1, {}), ("zb-h1", 1, {"weights": "fill"}),
                                       ("zb-h1", 1, {"backward": "mixed", "costs__backward": "2ms"}),
                                       ("interleaved-1f1b", 2, {"costs__optimizer": "{time: 1ms, global_norm: true}"}),
                                       ("1f1b", 1, {"shared": "[{layers: [0, 1, 3], gradients: 6MB}, {layers: [1, 2], gradients: 3MB}]"}),
                                       ("seq1f1b", 1, {"pipeline__slices": 2}), ("1f1b", 1, {"communicator": "shared"}),
                                       ("1f1b", 1, {"communicator": "launch_order"})]:
            with self.subTest(schedule=schedule, ways=ways):
                plan = self.compile(spec(schedule, chunks=chunks), **ways)
                self.pipec("verify", plan)
                self.assertTrue(self.sums(plan))
                for mode in ("carry", "naive"):
                    run = self.run_json(plan, "--steps", 4, "--emulate", mode)
                    self.assertEqual(run["steps"], 4)

    def test_replicas_of_holders_sum_too(self):
        text = """
pipec: 1
pipeline: {ranks: 2, microbatches: 2}
costs: {forward: 1ms, backward: 2ms, optimizer: {time: 1ms, global_norm: %s}, link: {latency: 20us, bandwidth: 1GB/s}}
tensors: {boundary: 4KiB, gradients: 4MB}
schedule: 1f1b
data_parallel: {degree: 2, link: {latency: 50us, bandwidth: 1GB/s}, %s}
shared: [{layers: [0, 1], gradients: 1MB}]
"""
        for norm, way in [("true", "policy: wfbp"), ("false", "policy: none"), ("true", "policy: auto"), ("false", "policy: auto"),
                          ("false", "collective: decoupled, fusion: none"), ("false", "policy: dear-queue")]:
            with self.subTest(norm=norm, way=way):
                plan = self.compile(text % (norm, way))
                self.pipec("verify", plan)
                self.assertEqual(len(self.sums(plan)), 2)
                self.assertIn("processes 0 1 2 3", self.pipec("disasm", plan).stdout)
                self.assertEqual(self.run_json(plan, "--steps", 4, "--emulate", "carry")["steps"], 4)
        for change, message in [("data_parallel.shard=optimizer", "not supported yet with replicas that update shares of layers"),
                                ("pipeline.stages_per_rank=1", "shared: expected a layer with the 1000000 bytes of gradients of the weight that it holds")]:
            small = text.replace("gradients: 4MB", "gradients: 1kB") % ("false", "policy: auto")
            found = self.pipec("compile", self.spec(small), "-o", self.folder / "none.pipe", "--set", change, code=INPUT)
            self.assertIn(message, found.stderr)

    def test_replicas_update_layers_without_other_gradients(self):
        """Layers whose gradients are the weight's alone: no sum of replicas is theirs, and updates of them may take no time."""
        text = """
pipec: 1
pipeline: {ranks: 2, microbatches: 2}
layers: [{count: 4, forward: 1ms, backward: 2ms, gradients: 1MB}]
costs: {optimizer: {time: 1ms, global_norm: %s}, link: {latency: 20us, bandwidth: 1GB/s}}
tensors: {boundary: 4KiB}
schedule: 1f1b
data_parallel: {degree: 2, link: {latency: 50us, bandwidth: 1GB/s}, collective: all_reduce}
shared: [{layers: [0, 3], gradients: 1MB}]
"""
        for norm in ("true", "false"):
            with self.subTest(norm=norm):
                plan = self.compile(text % norm)
                self.assertRegex(self.pipec("disasm", plan).stdout, "optimizer stage 0 (layer 0|layers 0 to 1) ")
                self.assertEqual(self.run_json(plan, "--steps", 4)["steps"], 4)

    def test_swaps_and_checkpoints(self):
        plan = self.compile(spec("1f1b", ranks=2), variants="[{schedule: 1f1b}, {schedule: gpipe}, {schedule: zb-h1}]")
        folder = self.folder / "states"
        run = self.run_json(plan, "--steps", 9, "--swap-every", 2, "--checkpoint", folder)
        self.assertEqual(run["swaps"], 4)
        self.assertEqual(self.run_json(plan, "--steps", 12, "--checkpoint", folder, "--resume")["steps"], 12)

    def test_other_updates_hide_the_sum(self):
        """Placed behind the last backward of its holders, not at the end of the step: the rank's other updates go beside it."""
        for schedule, chunks in [("interleaved-1f1b", 2), ("looped-bfs", 2)]:
            found = self.report(spec(schedule, chunks=chunks, optimizer="4ms"))
            alone = self.report(spec(schedule, chunks=chunks, optimizer="4ms").replace("shared: ", "# "))
            exposed = found["makespan_ms"] - alone["makespan_ms"]
            self.assertLess(exposed, SUM - 3.9, schedule)
            self.assertLess(found["exposed_ms"], SUM - 3.9, schedule)
        end = self.report(spec("1f1b", optimizer="4ms"))  # a rank of one stage has nothing else to do
        alone = self.report(spec("1f1b", optimizer="4ms").replace("shared: ", "# "))
        self.assertAlmostEqual(end["makespan_ms"] - alone["makespan_ms"], SUM)

    def test_what_pipec_chooses(self):
        layers = "[{count: 1, forward: 1ms, backward: 2ms, gradients: 10MB, activation: 1MiB}, {count: 14, forward: 2ms, " \
                 "backward: 4ms, gradients: 1MB, activation: 2MiB}, {count: 1, forward: 3ms, backward: 6ms, gradients: 10MB, activation: 1MiB}]"
        text = "pipec: 1\npipeline: {ranks: 4, microbatches: 8, cut: auto}\nlayers: " + layers + \
               "\ncosts: {link: {latency: 20us, bandwidth: 1GB/s}}\nmemory: {limit: 64MiB}\nschedule: 1f1b\nrecompute: auto\n" \
               "shared: [{layers: [0, 15], gradients: 10MB}]\n"
        plan = self.compile(text)
        self.pipec("verify", plan)
        self.assertEqual(len(self.sums(plan)), 2)
        self.assertIn("shared weight 0 of layers 0 15", self.pipec("disasm", plan).stdout)
        self.run_json(plan, "--steps", 2, "--emulate", "carry")

    def test_what_is_seen_of_it(self):
        plan = self.compile(spec("interleaved-1f1b", chunks=2))
        self.assertRegex(self.pipec("report", plan).stdout, r"shared +1   weights that layers of several ranks hold")
        self.pipec("explain", plan)
        self.pipec("show", plan)
        trace = self.folder / "trace.json"
        self.run_json(plan, "--steps", 2, "--emulate", "carry", "--trace", trace)
        sums = [event for event in json.loads(trace.read_text())["traceEvents"] if event.get("args", {}).get("of") == "shared"]
        self.assertEqual(len(sums), 4)  # two ranks, two steps
        self.pipec("show", plan, "--trace", trace)

    def test_what_is_refused(self):
        for change, message in [
                ({"shared": "[{layers: [0, 4], gradients: 1MB}]"}, "1:15: error: shared: expected stages (there are no layers) from 0 to 3, found 4"),
                ({"shared": "[{layers: [0, 0], gradients: 1MB}]"}, "1:15: error: shared[0].layers[1]: layer 0 is given twice"),
                ({"shared": "[{layers: [0], gradients: 1MB}]"}, "error: shared[0].layers: expected two layers or more that hold one weight, found 1"),
                ({"shared": "[{layers: [0, 3], gradients: 0B}]"}, "error: shared[0].gradients: expected"),
                ({"shared": "[{layers: [0, 3], gradients: 1048576TiB}, {layers: [1, 2], gradients: 1B}]"},
                 "expected at most 1152921504606846976 bytes and 1048576 layers of all shared weights, found more"),
                ({"shared": "[{layers: [0, 3]}]"}, "error: shared[0].gradients is missing"),
                ({"shared": "[{layers: [0, 3], gradients: 1MB, weight: 1}]"}, "error: shared[0].weight: unknown key; known here: layers, gradients"),
                ({"schedule": "dualpipe"}, "error: shared: weights that several layers hold are not supported yet with two copies of the stages"),
                ({"jobs": "{work: [{name: a, atom: 1ms}]}"}, "error: shared: weights that several layers hold are not supported yet with background jobs"),
        ]:
            with self.subTest(change=change):
                found = self.pipec("compile", self.spec(spec("1f1b")), "-o", self.folder / "none.pipe",
                                   *[part for key, value in change.items() for part in ("--set", f"{key}={value}")], code=INPUT)
                self.assertIn(message, found.stderr)
        plan = self.compile(spec("1f1b"))
        self.assertIn("share over ranks, which a library cannot yet",
                      self.piperun(plan, "--local", "--steps", 1, "--stage=./none.so", code=USAGE).stderr)


if __name__ == "__main__":
    unittest.main()
