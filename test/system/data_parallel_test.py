"""What a step takes under each policy of exchanging gradients, on DeAR's five models, beside an independent replay of the
same layers, and what test/bench/data_parallel.py asks of these figures. Computed: no clock is judged. With PIPEC_SOAK all
models and networks."""
import importlib.util
import json
import unittest

from support import BIN, CHECK, SOAK, SOURCE, SPECS, ToolTest

BENCH = SOURCE / "test/bench/data_parallel.py"


def bench():
    spec = importlib.util.spec_from_file_location("data_parallel", BENCH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class DearTest(ToolTest):
    MODELS = {"resnet50": (107, 161, 25_557_032), "densenet201": (402, 604, 20_013_928), "inceptionv4": (299, 449, 42_679_816),
              "bert_base": (105, 206, 110_111_042), "bert_large": (201, 398, 336_232_258)}

    def setUp(self):
        super().setUp()
        self.bench = bench()

    def test_the_models_are_those_of_the_paper(self):
        for name, counts in self.MODELS.items():
            layers = self.bench.DATA["models"][name]["layers"]
            tensors = [each for layer in layers for each in layer[3]]
            self.assertEqual((len(layers), len(tensors), sum(tensors)), counts)

    def test_each_policy_takes_what_its_replay_takes(self):
        pairs = [(model, network) for model in self.MODELS for network in ("eth10_code", "ib100_code")]
        for model, network in pairs if SOAK else [("resnet50", "eth10_code"), ("bert_large", "ib100_code")]:
            with self.subTest(model=model, network=network):
                rows, _ = self.bench.sweep(BIN / "pipec", model, network)
                unfused = self.bench.unfused(BIN / "pipec", model, network)
                taken = {**{name: row["span_ms"] for name, row in rows.items()}, "unfused": unfused}
                for policy, expected in self.bench.DATA["replay"][network][model].items():
                    most = 0.1 if policy in ("horovod", "bytescheduler") else 0.05
                    self.assertLess(abs(taken[policy] / expected - 1), most, policy)
                self.assertEqual(self.bench.misses(model, network, rows, unfused, 0), [])
                for row in rows.values():
                    self.assertGreaterEqual(row["span_ms"], row["span_lower_bound_ms"])
                    self.assertGreaterEqual(row["exposed_ms"], 0)


class PipelineTest(ToolTest):
    def sweep(self, *settings, spec=SPECS / "data-parallel.yaml"):
        arguments = [each for setting in settings for each in ("--set", setting)]
        done = self.pipec("search", spec, "--sweep", "data-parallel", "--json", *arguments)
        return {row["policy"]: row for row in json.loads(done.stdout)["policies"]}

    def report(self, *settings, spec=SPECS / "data-parallel.yaml"):
        arguments = [each for setting in settings for each in ("--set", setting)]
        return json.loads(self.pipec("report", spec, "--json", *arguments).stdout)

    def test_one_forward_one_backward_exposes_what_arithmetic_says(self):
        rows = self.sweep("schedule=1f1b")
        for policy, exposed in [("none", 100), ("ddp", 82.5), ("dear-queue", 73.75)]:
            self.assertAlmostEqual(rows[policy]["exposed_ms"], exposed)
        self.assertAlmostEqual(rows["dear-queue"]["span_ms"], 1243.75)
        self.assertAlmostEqual(self.sweep("schedule=zb-h1")["dear-queue"]["span_ms"], 1112.5)

    def test_auto_puts_sums_into_the_pipelines_own_time(self):
        rows = self.sweep()
        self.assertLessEqual(rows["auto"]["span_ms"], 1035)
        self.assertEqual(min(row["span_ms"] for row in rows.values()), rows["auto"]["span_ms"])

    def test_a_plan_takes_what_the_sweep_says(self):
        for spec, settings in [(SPECS / "dear.yaml", []), (SPECS / "dear.yaml", ["schedule=zb-h1", "layers[0].backward_input=2ms",
                                                                                "layers[0].backward_weight=2ms"]),
                               (SPECS / "data-parallel.yaml", ["schedule=1f1b", "pipeline.microbatches=12"])]:
            rows = self.sweep(*settings, spec=spec)
            for policy in ("none", "wfbp", "mg-wfbp", "ddp", "horovod", "bytescheduler", "dear-queue", "auto"):
                with self.subTest(spec=spec.name, settings=settings, policy=policy):
                    plan = self.report(*settings, f"data_parallel.policy={policy}", spec=spec)
                    for key in ("span_ms", "span_lower_bound_ms", "exposed_ms"):
                        self.assertAlmostEqual(plan[key], rows[policy][key], msg=key)
                    self.assertEqual(plan["collectives"], rows[policy]["collectives"])
                    self.assertGreaterEqual(plan["span_gap"], 0)
                    self.assertGreaterEqual(plan["gap"], 0)

    def test_auto_compiles_to_what_the_issue_asks(self):
        plan = self.report()
        self.assertLessEqual(plan["span_ms"], 1035)
        self.assertLessEqual(max(plan["peak_bytes"]), 10.25 * 2**30)

    def test_shared_ports_never_make_auto_slower_than_none(self):
        for settings in (["schedule=1f1b"], ["schedule=1f1b", "data_parallel.link.bandwidth=200MB/s"]):
            rows = self.sweep("data_parallel.port=shared", "costs.link.bandwidth=300MB/s", *settings, spec=SPECS / "dear.yaml")
            self.assertLessEqual(rows["auto"]["span_ms"], rows["none"]["span_ms"])
            own = self.sweep("costs.link.bandwidth=300MB/s", *settings, spec=SPECS / "dear.yaml")
            self.assertGreater(sum(row["span_ms"] for row in rows.values()), sum(row["span_ms"] for row in own.values()),
                               "the case shows nothing")

    def test_state_is_counted_once_over_the_replicas(self):
        whole = self.report("data_parallel.shard=none", "data_parallel.policy=auto", spec=SPECS / "dear.yaml")
        shared = self.report("data_parallel.collective=decoupled", "data_parallel.policy=auto", spec=SPECS / "dear.yaml")
        for mine, theirs in zip(shared["peak_bytes"], whole["peak_bytes"]):
            self.assertEqual(theirs - mine, 4 * 8_000_000 // 2)

    def test_what_does_not_fit_is_said_as_for_every_search(self):
        done = self.pipec("search", SPECS / "data-parallel.yaml", "--sweep", "data-parallel", "--set", "memory.limit=1MiB",
                          code=CHECK)
        self.assertIn("memory.limit", done.stderr)


if __name__ == "__main__":
    unittest.main()
