"""Evaluations between steps: what a plan says of them, and runs of synthetic stages under schedules of every sort."""
import re
import unittest

from support import CHECK, SPECS, USAGE, ToolTest, tool

SPEC = """
pipec: 1
pipeline: {ranks: %d, stages_per_rank: %d, microbatches: 8%s}
costs: {forward: 1ms, backward_input: 1ms, backward_weight: 1ms, optimizer: 200us, link: {latency: 20us, bandwidth: 10GB/s}}
tensors: {boundary: 64KiB, activation: 1MiB, weight_context: 512KiB, static: 4MiB}
schedule: %s
"""


def text(ranks, stages, schedule, more="", tail=""):
    return SPEC % (ranks, stages, more, schedule) + tail


V = ", placement: v"
PLANS = {
    "1f1b": text(3, 1, "1f1b"),
    "zb-h1, shared communicator": text(3, 1, "zb-h1", tail="communicator: shared\n"),
    "gpipe, a pair's": text(2, 1, "gpipe", tail="communicator: per_pair\n"),
    "interleaved": text(2, 3, "interleaved-1f1b", tail="communicator: per_pair\n"),
    "interleaved, launch order": text(2, 2, "interleaved-1f1b", tail="communicator: launch_order\n"),
    "v-half": text(3, 2, "v-half", V),
    "v-min, recomputed": text(3, 2, "v-min", V, "recompute: all\n"),
    "fill": text(2, 1, "1f1b", tail="backward: split\nweights: fill\n"),
    "slices": text(2, 1, "seq1f1b", ", slices: 2"),
    "one rank": text(1, 2, "interleaved-1f1b"),
    "a rank each way": text(2, 1, "chimera", ", placement: bidirectional"),
}


class EvaluateTest(ToolTest):
    def test_runs_evaluate_between_steps(self):
        for what, spec in PLANS.items():
            with self.subTest(what):
                run = self.run_json(self.compile(spec), "--steps", 5, "--evaluate-every", 2)
                self.assertEqual([each["step"] for each in run["evaluations"]], [2, 4])
                self.assertTrue(all(each["ms"] > 0 for each in run["evaluations"]))
                self.assertEqual((run["steps"], len(run["step_ms"]), run["swaps"]), (5, 5, 0))
        said = self.piperun(self.compile(PLANS["1f1b"]), "--local", "--steps", 4, "--evaluate-every", 2).stdout
        self.assertRegex(said, r"evaluations: 2, [\d.]+ ms in the mean")

    def test_plans_of_processes_for_a_rank(self):
        small = {"layers[0]__count": 2, "pipeline__ranks": 2, "pipeline__microbatches": 2}
        for spec, settings in (("dear.yaml", small), ("slow-shard.yaml", {
                "pipeline__ranks": 1, "tensor_parallel__shards": 2, "pipeline__cut": "auto",
                "tensor_parallel__slow": "[{rank: 0, shard: 1, factor: 2}]"})):
            with self.subTest(spec):
                run = self.run_json(self.compile(SPECS / spec, **settings), "--steps", 3, "--evaluate-every", 1)
                self.assertEqual([each["step"] for each in run["evaluations"]], [1, 2, 3])

    def test_a_swap_and_an_evaluation_in_the_same_gap(self):
        spec = text(2, 1, "1f1b", tail="variants: [{schedule: 1f1b}, {schedule: gpipe}, {schedule: zb-h1}]\n")
        run = self.run_json(self.compile(spec), "--steps", 9, "--evaluate-every", 3, "--swap-every", 3)
        self.assertEqual([each["step"] for each in run["evaluations"]], [3, 6, 9])
        self.assertEqual(run["epochs"], [0] * 3 + [1] * 3 + [2] * 3)

    def test_checkpoints_and_adaptation_go_on(self):
        plan, states = self.compile(text(2, 1, "1f1b", tail="variants: [{schedule: 1f1b}, {schedule: zb-h1}]\n")), self.folder / "states"
        arguments = ["--evaluate-every", 2, "--checkpoint", states, "--every", 2]
        first = self.run_json(plan, "--steps", 3, *arguments)
        self.assertEqual([each["step"] for each in first["evaluations"]], [2])
        # A resumed run does not evaluate again where it begins.
        second = self.run_json(plan, "--steps", 8, "--resume", "--adapt", *arguments)
        self.assertEqual([each["step"] for each in second["evaluations"]], [4, 6, 8])
        self.assertEqual(len(second["adapt"]["candidates"]), 2)

    def test_the_report_says_what_an_evaluation_takes(self):
        for what, spec in PLANS.items():
            with self.subTest(what):
                report = self.report(spec)
                self.assertEqual(report["evaluate"], report["variants"][0]["evaluate"])
                self.assertLess(report["evaluate"]["makespan_ms"], report["makespan_ms"])
                for own, step in zip(report["evaluate"]["peak_bytes"], report["peak_bytes"]):
                    self.assertLess(own, step)
        # Of one stage on each rank, all of the same cost: the pipeline's least.
        report = self.report(text(3, 1, "1f1b"), costs__link="{latency: 0ms}")
        self.assertEqual(report["evaluate"]["makespan_ms"], 10)
        # Of two a rank: each rank computes twice as long, and nowhere waits but at both ends.
        report = self.report(text(3, 2, "v-half", ", placement: v"), costs__link="{latency: 0ms}", rings="any")
        self.assertLess(report["evaluate"]["makespan_ms"], 24)

    def test_the_programs_are_forwards_alone(self):
        plan = self.compile(text(3, 1, "1f1b"))
        lines = self.pipec("disasm", plan, "--variant", "evaluate", "--rank", 1).stdout
        self.assertIn("variant 0 evaluate: 3 stages, 8 microbatches", lines)
        self.assertIn("repeat", lines)
        self.assertEqual(set(re.findall(r"\] (\w+(?: [FB])?) stage 1 microbatch", lines)), {"recv F", "F", "send F"})
        self.assertIn("F", self.pipec("show", plan, "--variant", "evaluate").stdout)

    def test_what_has_no_evaluation_is_refused(self):
        burst = self.compile(SPECS / "burst.yaml")
        message = self.piperun(burst, "--local", "--evaluate-every", 2, code=CHECK).stderr
        self.assertIn("a plan whose stages are on several ranks has no evaluation yet", message)
        done = tool("pipec", "disasm", burst, "--variant", "256")
        self.assertEqual(done.returncode, USAGE)
        self.assertEqual(self.run_json(self.compile(PLANS["1f1b"]), "--steps", 2)["evaluations"], [])


if __name__ == "__main__":
    unittest.main()
