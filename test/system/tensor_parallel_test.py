"""Shards of ranks with slow ones among them: what each balance wins back on the paper's grid, what is compiled for shards under
every schedule and communicator, and what is refused. Computed: no clock is judged."""
import importlib.util
import itertools
import json
import random
import unittest

from support import BIN, CHECK, INPUT, OK, SOAK, SOURCE, SPECS, ToolTest, tool

BENCH = SOURCE / "test/bench/tensor_parallel.py"
SPEC = SPECS / "slow-shard.yaml"


def bench():
    spec = importlib.util.spec_from_file_location("tensor_parallel", BENCH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def random_spec(of):
    """Layers with and without splits and own work, slow shards, any balance, cut, schedule, backward, some of them recomputed."""
    def times(*most):
        return ", ".join(f"{key}: {of.randint(0, top)}us" for key, top in zip(("forward", "backward_input", "backward_weight"), most))

    ranks, shards = of.choice([1, 2, 3, 4]), of.choice([2, 3, 4])
    schedule = of.choice(["1f1b", "gpipe", "auto", "interleaved-1f1b", "{name: kfkb, k: 2}", "zb-h1", "v-half"])
    layers, left = [], 2 * ranks * of.choice([1, 2, 3])
    while left > 0:
        count = of.randint(1, left)
        left -= count
        splits = [f"{{name: s{i}, units: {of.choice([1, 2, 3, 5, 8, 16, 24])}, {times(3000, 3000, 2000)}, sum: {of.choice(['0B', '1MiB'])}, "
                  f"activation: {of.randint(0, 9)}MiB, weights: {of.randint(0, 9)}MB, optimizer: {of.choice([0, 100])}us}}"
                  for i in range(of.choice([0, 1, 2] if layers else [1, 2]))]
        layers.append(f"- {{name: l{len(layers)}, count: {count}, {times(*of.choice([(0, 0, 0), (1000, 900, 500)]))}, "
                      f"activation: {of.randint(0, 3)}MiB, splits: [{', '.join(splits)}]}}".replace(", splits: []", ""))
    slow = ", ".join(f"{{rank: {rank}, shard: {shard}, factor: {of.choice([1.5, 2, 4, 8])}}}"
                     for rank in range(ranks) for shard in range(shards) if of.random() < 0.3)
    balance = of.choice(["auto", "auto", "even", "migrate", "semi", "{name: resize, gamma: auto}", "{name: auto, most: 0.25}"])
    more = [line for line, part in (("memory: {limit: %dMiB}" % of.randint(50, 400), 0.2), ("recompute: all", 0.1),
                                    ("backward: split", 0.2)) if of.random() < part]
    return "\n".join([
        "pipec: 1", f"pipeline: {{ranks: {ranks}, microbatches: {of.choice([2, 4, 8])}, cut: auto}}", "layers:", *layers,
        "tensors: {boundary: 1MiB}", f"costs: {{link: {{latency: {of.choice([0, 50])}us, bandwidth: 10GB/s}}}}", f"schedule: {schedule}",
        f"tensor_parallel: {{shards: {shards}, link: {{latency: 20us, bandwidth: 100GB/s}}, slow: [{slow}], balance: {balance}, "
        f"sequence: {of.choice(['true', 'false'])}}}", *more, ""])


EXPECTED = "over the limit of|does not have|expected at least one for each of|keeps? |would keep|no order fits|expected layers with splits"


class GridTest(ToolTest):
    def test_what_is_won_back_on_the_papers_grid(self):
        grid = bench().Bench(BIN / "pipec", self.folder)
        grid.paper()
        grid.goes_round()
        self.assertEqual(grid.wrong, [])

    def test_units_and_cut_together(self):
        both = bench().Bench(BIN / "pipec", self.folder)
        both.cut()
        self.assertEqual(both.wrong, [])


class ShardsTest(ToolTest):
    def figures(self, *settings, spec=SPEC):
        arguments = [each for setting in settings for each in ("--set", setting)]
        return json.loads(self.pipec("report", spec, "--json", *arguments).stdout)

    def test_a_report_has_a_row_for_each_balance(self):
        report = self.figures()
        self.assertEqual(report["shards"], 2)
        rows = {row["name"]: row for row in report["balances"]}
        self.assertEqual(list(rows), ["auto", "even", "migrate", "resize", "semi", "without"])
        self.assertEqual((rows["even"]["won_back"], rows["without"]["won_back"]), (0, 1))
        self.assertEqual((report["won_back"], report["healthy_ms"]), (rows["auto"]["won_back"], rows["without"]["span_ms"]))
        self.assertGreater(rows["resize"]["dropped"], 0)
        self.assertEqual((rows["auto"]["dropped"], rows["auto"]["moved_bytes"]), (0, 0))
        self.assertGreater(rows["migrate"]["moved_bytes"], 0)
        self.assertLess(rows["auto"]["span_ms"], rows["even"]["span_ms"])
        for row in report["portions"]:
            self.assertEqual(sum(row["owned"]), row["units"])
            self.assertEqual(sum(row["worked"]), row["units"])
        slow = [row for row in report["portions"] if row["stage"] == 0]
        self.assertTrue(all(row["owned"][1] < row["owned"][0] for row in slow))
        self.assertEqual([len(report[key]) for key in ("peak_bytes", "peak_activation_bytes")], [4, 4])

    def test_with_one_shard_splits_are_plain_time(self):
        spec = self.folder / "plain.yaml"
        spec.write_text("pipeline: {ranks: 2, microbatches: 8}\nschedule: 1f1b\ntensors: {boundary: 4MiB}\n"
                        "costs: {link: {latency: 20us, bandwidth: 10GB/s}}\nlayers:\n- {count: 8, forward: 6200us, "
                        "backward: 12400us, activation: 12MiB, weights: 24MB, gradients: 24MB, optimizer_state: 48MB}\n")
        plain, split = self.figures(spec=spec), self.figures("tensor_parallel={shards: 1}")
        for key in ("makespan_ms", "span_ms", "lower_bound_ms", "peak_bytes", "instructions"):
            self.assertEqual(plain[key], split[key], key)
        self.assertNotIn("portions", split)

    def test_every_way_compiles_and_is_proven(self):
        schedules = ["1f1b", "gpipe", "zb-h1", "{name: kfkb, k: 2}", "interleaved-1f1b", "v-half", "auto"]
        balances = ["auto", "{name: auto, most: 0.25}", "even", "migrate", "resize", "semi"]
        ways = list(itertools.product(schedules, balances, ["per_edge", "per_pair", "launch_order", "shared"], [False, True]))
        split = [f"layers[0].{key}" for key in ("backward_input=200us", "backward_weight=200us")] + \
                [f"layers[0].splits[{i}].{key}" for i in (0, 1) for key in ("backward_input=2ms", "backward_weight=2ms")]
        for schedule, balance, communicator, sequence in ways if SOAK else random.Random(1).sample(ways, 28):
            with self.subTest(schedule=schedule, balance=balance, communicator=communicator, sequence=sequence):
                settings = [f"schedule={schedule}", f"tensor_parallel.balance={balance}", f"communicator={communicator}",
                            f"tensor_parallel.sequence={str(sequence).lower()}", *split]
                plan = self.folder / "plan.pipe"
                self.pipec("compile", SPEC, "-o", plan, *[each for one in settings for each in ("--set", one)])
                self.pipec("verify", plan)
                report = json.loads(self.pipec("report", plan, "--json").stdout)
                self.assertLessEqual(report["span_lower_bound_ms"], report["span_ms"])
                self.assertLessEqual(report["lower_bound_ms"], report["makespan_ms"])

    def test_random_specs_compile_or_are_refused(self):
        """A bound above what is found, or a figure that a rule does not find again, would be an error of another kind."""
        compiled = 0
        for seed in range(2000 if SOAK else 30):
            spec = self.folder / "random.yaml"
            spec.write_text(random_spec(random.Random(seed)))
            done = tool("pipec", "compile", spec, "-o", self.folder / "random.pipe")
            compiled += done.returncode == OK
            if done.returncode != OK:
                self.assertRegex(done.stderr.splitlines()[0], EXPECTED, f"seed {seed}\n{spec.read_text()}")
        self.assertGreater(compiled, 20)

    def test_no_plan_is_under_the_bound_of_auto(self):
        """Whatever the portions, a step takes no less than the bound over all of them."""
        even = self.figures("tensor_parallel.balance=even")
        found = self.figures()
        self.assertLessEqual(found["span_lower_bound_ms"], found["span_ms"])
        self.assertLess(found["span_lower_bound_ms"], even["span_ms"])

    def test_a_chosen_cut_is_near_the_best_of_all(self):
        """All cuts of 16 layers into three stages, each with the units that suit it."""
        for seed in range(4 if SOAK else 1):
            draw = random.Random(seed)
            layers = [{"forward": f"{draw.randint(0, 300)}us", "backward": f"{draw.randint(0, 600)}us",
                       "splits": [{"name": "columns", "units": draw.randint(4, 32), "sum": "1MiB", "forward":
                                   f"{draw.randint(500, 4000)}us", "backward": f"{draw.randint(1000, 8000)}us"}]}
                      for _ in range(16)]
            slow = [{"rank": draw.randrange(3), "shard": draw.randrange(2), "factor": draw.choice([2, 3, 4])}]
            spec = {"pipeline": {"ranks": 3, "microbatches": 6, "cut": "auto"}, "schedule": "1f1b", "layers": layers,
                    "tensor_parallel": {"shards": 2, "slow": slow, "link": {"latency": "10us", "bandwidth": "10GB/s"}}}
            path = self.folder / "cut.yaml"
            path.write_text(json.dumps(spec))

            def span(*settings):
                plan = self.folder / "cut.pipe"
                done = self.pipec("compile", path, "-o", plan, "--json", *[each for one in settings for each in ("--set", one)])
                return json.loads(done.stdout)["span_ms"]

            every = [span(f"pipeline.cut=[{first}, {second - first}, {16 - second}]")
                     for first, second in itertools.combinations(range(1, 16), 2)]
            self.assertLessEqual(span(), 1.01 * min(every))

    def test_recomputed_stages_and_norms(self):
        for settings in (["recompute=all"], ["recompute=[1]"], ["costs={optimizer: {time: 1ms, global_norm: true}}"],
                         ["recompute=auto", "memory.limit=1GiB"]):
            with self.subTest(settings=settings):
                self.assertGreater(self.figures(*settings)["span_ms"], 0)

    def test_too_little_memory_names_what_would_do(self):
        done = self.pipec("compile", SPEC, "-o", self.folder / "plan.pipe", "--set", "memory.limit=100MB", code=CHECK)
        self.assertRegex(done.stderr, r"slow-shard.yaml|--set")
        self.assertRegex(done.stderr, r"least|at least")
        self.assertFalse((self.folder / "plan.pipe").exists())

    def test_variants_of_balances_share_their_shards(self):
        plan = self.folder / "plan.pipe"
        self.pipec("compile", SPEC, "-o", plan, "--set",
                   "variants=[{tensor_parallel: {balance: even}}, {tensor_parallel: {balance: auto}}]")
        self.pipec("verify", plan)
        self.assertEqual(len(json.loads(self.pipec("report", plan, "--json").stdout)["variants"]), 2)
        done = self.pipec("compile", SPEC, "-o", plan, "--set", "variants=[{}, {tensor_parallel: {shards: 4}}]", code=INPUT)
        self.assertIn("expected the same in all variants", done.stderr)

    def test_text_passes_come_to_the_same(self):
        design = self.pipec("compile", SPEC, "--emit=pipe").stdout
        self.assertIn("shards <count = 2", design)
        self.assertIn("shards <count = 2", self.pipec("compile", SPEC, "--emit=programs").stdout)


if __name__ == "__main__":
    unittest.main()
