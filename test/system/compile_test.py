"""Specs to plans: every example compiles, its report has what the design lists, and its times are those of the
schedule's definition."""
import json
import re
import time
import unittest

import reference
from support import CHECK, OK, SMALLER, SPECS, ToolTest, sets, tool
from timing import judge

KEYS = {"schedule", "ranks", "stages", "microbatches", "makespan_ms", "span_ms", "bubble_rate", "span_bubble_rate",
        "lower_bound_ms", "span_lower_bound_ms", "bound", "span_bound", "gap", "span_gap", "peak_activation_bytes",
        "peak_bytes", "instructions"}
OF_THE_PLAN = {"plan_bytes", "compile_ms", "variants"}


def of_a_plan(report):
    """Without what a plan does not say: how long its compile took, what its costs would allow in as much memory, what its
    shards could do instead."""
    others = ("compile_ms", "healthy_ms", "won_back", "moved_bytes", "balances")
    return {key: [of_a_plan(each) for each in value] if key == "variants" else value for key, value in report.items()
            if key not in others and not key.endswith("gap_at_own_memory")}


class CompileTest(ToolTest):
    def test_orders_of_slices_and_of_two_copies(self):
        """What the catalogue says, written as an order file and read in, is the same step in the same memory."""
        spelled = {"F": "F", "B": "I", "W": "W", "BW": "B"}
        for example, settings in (("chimera", []), ("chimera", ["--set", "backward=split"]), ("seq1f1b", []),
                                  ("seq1f1b-interleaved", []), ("seq1f1b", ["--set", "schedule=gpipe", "--set", "memory.limit=64GiB"])):
            spec = SPECS / f"{example}.yaml"
            rows = {}
            for event in json.loads(self.pipec("compile", spec, *settings, "--emit=perfetto").stdout)["traceEvents"]:
                if event["ph"] == "X" and (kind := event["args"]["kind"]) in spelled:
                    cell = f"{event['args']['stage']}{spelled[kind]}{event['args']['microbatch']}"
                    rows.setdefault(event["pid"], []).append((event["ts"], cell))
            order = self.folder / "order.csv"
            order.write_text("\n".join(",".join(cell for _, cell in sorted(rows[rank])) for rank in sorted(rows)) + "\n")
            named, given = (json.loads(self.pipec("report", spec, *settings, *more, "--json").stdout)
                            for more in ([], ["--set", f"schedule={{name: order, file: {order}}}"]))
            for key in ("makespan_ms", "span_ms", "peak_bytes", "instructions", "microbatches", "stages"):
                self.assertEqual(named[key], given[key], f"{example} {settings} {key}")

    def test_the_time_of_an_exact_search_is_that_of_all_of_it(self):
        begin = time.monotonic()
        done = tool("pipec", "search", SPECS / "auto.yaml", "--exact", "--time", "100ms", "--json")
        whole = time.monotonic() - begin
        if "built without" in done.stderr:
            self.skipTest("no solver")
        self.assertEqual(done.returncode, OK, done.stderr)
        seconds = json.loads(done.stdout)["exact"]["seconds"]
        self.assertGreater(seconds, 0)
        self.assertLess(seconds, whole)
        judge(self, "what an exact search does not count as its time", 1 - seconds / whole, 0.3)

    def test_every_example_compiles_verifies_and_reports(self):
        """And the same spec gives the same bytes, wherever it stands."""
        examples = sorted(SPECS.glob("*.yaml"))
        self.assertTrue(examples)
        for example in examples:
            with self.subTest(example.name):
                smaller = SMALLER.get(example.name, {})
                plan = self.compile(example, **smaller)
                self.pipec("verify", plan)
                copy = self.folder / "elsewhere.yaml"  # a plan names no file
                copy.write_bytes(example.read_bytes())
                self.pipec("compile", copy.name, *sets(smaller), cwd=self.folder)  # beside its spec
                self.assertEqual(plan.read_bytes(), copy.with_suffix(".pipe").read_bytes())
                report = self.report(example, **smaller)
                self.assertLessEqual(KEYS | OF_THE_PLAN, report.keys())
                self.assertEqual(report["plan_bytes"], plan.stat().st_size)
                for variant in report["variants"]:
                    self.assertLessEqual(KEYS, variant.keys())
                for each in ("peak_activation_bytes", "peak_bytes", "instructions"):
                    self.assertEqual(len(report[each]), report["ranks"] * report["shards"])
                self.assertGreaterEqual(report["makespan_ms"], report["lower_bound_ms"])
                self.assertGreaterEqual(report["span_ms"], report["span_lower_bound_ms"])
                self.assertGreaterEqual(report["makespan_ms"], report["span_ms"])
                self.assertEqual(of_a_plan(report), of_a_plan(self.report(plan)))

    def test_the_gpt_has_the_paper_s_bubble_rate(self):
        report = self.report(SPECS / "gpt-1.5b-1f1b.yaml")
        self.assertEqual(round(report["bubble_rate"], 4), 0.2431)  # arXiv 2401.10241, table 5, 1F1B, 24 microbatches

    def test_times_are_those_of_the_definition(self):
        for schedule in ("1f1b", "gpipe"):
            for ranks, microbatches, latency, optimizer in [(4, 8, 0, 0), (4, 8, 1000, 0), (3, 7, 1000, 5000), (8, 3, 250, 0),
                                                            (5, 13, 3000, 1000), (1, 4, 0, 700), (6, 6, 10000, 0)]:
                with self.subTest(schedule=schedule, ranks=ranks, microbatches=microbatches, latency=latency):
                    report = self.report(SPECS / f"{schedule}.yaml", pipeline__ranks=ranks,
                                         pipeline__microbatches=microbatches, costs__forward="2ms",
                                         costs__backward_input="3ms", costs__backward_weight="1ms",
                                         costs__link=f"{{latency: {latency}us}}", costs__optimizer=f"{optimizer}us")
                    costs = {"forward": 2000, "backward": 4000, "latency": latency, "optimizer": optimizer}
                    shape = (schedule, ranks, microbatches)
                    self.assertEqual(report["makespan_ms"] * 1000, reference.makespan(*shape, **costs))
                    # Rounded up to a picosecond.
                    self.assertAlmostEqual(report["span_ms"] * 1000, float(reference.span(*shape, **costs)), delta=1.1e-6)

    def test_closed_forms(self):
        for ranks, microbatches in [(2, 2), (4, 8), (8, 24)]:
            with self.subTest(ranks=ranks, microbatches=microbatches):
                settings = {"pipeline__ranks": ranks, "pipeline__microbatches": microbatches}
                for schedule in ("1f1b", "gpipe"):  # free links: (m + p - 1)(F + B), bubble (p - 1)/(m + p - 1)
                    report = self.report(SPECS / f"{schedule}.yaml", **settings)
                    self.assertEqual(report["makespan_ms"], (microbatches + ranks - 1) * 6)
                    self.assertAlmostEqual(report["bubble_rate"], (ranks - 1) / (microbatches + ranks - 1), delta=1e-12)
                # GPipe pays each link twice.
                report = self.report(SPECS / "gpipe.yaml", costs__link="{latency: 1ms}", **settings)
                self.assertEqual(report["makespan_ms"], (microbatches + ranks - 1) * 6 + 2 * (ranks - 1))

    def test_1f1b_holds_as_many_activations_as_ranks_follow(self):
        report = self.report(SPECS / "1f1b.yaml")
        held = (256 + 64) << 20
        self.assertEqual(report["peak_activation_bytes"], [held * each for each in (4, 3, 2, 1)])
        report = self.report(SPECS / "gpipe.yaml")
        self.assertEqual(report["peak_activation_bytes"], [held * 8] * 4)

    def test_a_regular_plan_does_not_grow_with_the_microbatches(self):
        sizes = [self.report(SPECS / "1f1b.yaml", pipeline__microbatches=m)["plan_bytes"] for m in (64, 4096)]
        self.assertLessEqual(sizes[1], sizes[0] + 64)

    def test_auto_takes_what_memory_leaves_for_buffers_into_account(self):
        """Words that fill the memory wait for buffers: with a little more of it, auto must not end up with those."""
        spans = [self.report(SPECS / "auto.yaml", memory__limit=f"{mebibytes}MiB")["span_ms"]
                 for mebibytes in (8400, 8800, 9000)]
        self.assertEqual(spans, [340, 340, 340])

    def test_more_memory_hardly_makes_auto_longer_where_buffers_take_most_of_it(self):
        """Not 1.9 times as long, as where the search alone fills each limit with words."""
        spec = """\
            pipec: 1
            pipeline: {ranks: 3, microbatches: 6, stages_per_rank: 3, placement: loop}
            costs: {forward: 12ms, backward_input: 26ms, backward_weight: 19ms}
            tensors: {activation: [1MiB, 1MiB, 0B, 4MiB, 1MiB, 4MiB, 1MiB, 3MiB, 1MiB], weight_context: 256KiB,
                      boundary: 4650KiB}
            schedule: {name: auto, objective: makespan}
            """
        times = [self.report(spec, memory__limit=f"{mebibytes}MiB")["makespan_ms"] for mebibytes in (30, 32, 34, 36)]
        for less, more in zip(times, times[1:]):
            self.assertLess(more, 1.02 * less)

    def test_auto_looks_at_what_the_other_objective_finds(self):
        """Transfers that share a queue: words found for the makespan take less of the span than those found for it."""
        spec = """\
            pipec: 1
            pipeline: {ranks: 5, microbatches: 11}
            costs: {forward: [2081us, 121us, 100us, 529us, 1400us], backward_input: [206us, 800us, 1800us, 1000us, 300us],
                    backward_weight: [2827us, 2864us, 500us, 1553us, 1400us],
                    optimizer: [820us, 763us, 1200us, 200us, 1600us], link: {latency: 465us},
                    links: [{from: 0, to: 1, latency: 1841us}, {from: 3, to: 2, latency: 2842us}]}
            tensors: {boundary: 907B}
            communicator: shared
            """
        span, makespan = (self.report(spec, schedule=f"{{name: auto, objective: {objective}}}")["span_ms"]
                          for objective in ("span", "makespan"))
        self.assertLessEqual(span, makespan)

    def test_auto_takes_what_fits_of_the_catalogue_where_its_own_words_stop(self):
        """On one communicator that all transfers share, programs that hold few buffers wait for each other."""
        self.report("""\
            pipec: 1
            pipeline: {ranks: 2, microbatches: 6, stages_per_rank: 3}
            costs: {forward: [100us, 2419us, 2582us, 918us, 1400us, 967us],
                    backward_input: [1000us, 400us, 500us, 634us, 300us, 1695us],
                    backward_weight: [319us, 453us, 2643us, 1600us, 100us, 1900us],
                    link: {bandwidth: 10MB/s}, links: [{from: 0, to: 1, latency: 3327us}]}
            tensors: {activation: [1024B, 1024B, 5120B, 3072B, 5120B, 3072B], weight_context: 256B, boundary: 28672B}
            memory: {limit: 184576B}
            communicator: shared
            schedule: auto
            """)

    def test_a_limit_that_everything_fits_into_makes_auto_no_longer(self):
        spec = """\
            pipec: 1
            pipeline: {ranks: 2, microbatches: 8, stages_per_rank: 3}
            costs: {forward: [2040us, 1224us, 2305us, 2126us, 321us, 965us],
                    backward_input: [1128us, 1754us, 2726us, 685us, 1263us, 2983us],
                    backward_weight: [2116us, 1298us, 269us, 2139us, 710us, 2575us],
                    link: {latency: 2985us, bandwidth: 1MB/s}}
            tensors: {activation: [4004B, 1001B, 1001B, 4004B, 5005B, 1001B], weight_context: 1539B, boundary: 1B}
            communicator: per_pair
            schedule: auto
            """
        self.assertLessEqual(self.report(spec, memory__limit="1GiB")["span_ms"], self.report(spec)["span_ms"])

    def test_long_autos_in_queues_are_no_longer_than_the_catalogue(self):
        """The search knows no queues; words that it finds to be the shortest take a fifth longer in these."""
        given = {"pipeline__ranks": 16, "pipeline__microbatches": 1100, "memory__limit": "64GiB",
                 "communicator": "shared", "tensors__boundary": "64MiB"}
        found, named = (self.report(SPECS / "auto.yaml", schedule=name, **given)["span_ms"]
                        for name in ("auto", "dualpipe-v"))
        self.assertLessEqual(found, named)

    def test_of_two_copies_the_least_limit_is_that_of_the_schedule_that_needs_least(self):
        spec = """\
            pipec: 1
            pipeline: {ranks: 4, microbatches: 8, placement: bidirectional}
            costs: {forward: 2us, backward_input: 2us, backward_weight: 1us}
            tensors: {activation: [2002B, 1001B, 3003B, 1001B], weight_context: 1539B,
                      static: [300B, 300B, 1836B, 300B], gradients: 300B, boundary: 4318B, workspace: 77B}
            communicator: shared
            schedule: auto
            """
        refused = self.pipec("report", self.spec(spec), "--set", "memory.limit=1B", code=CHECK)
        least = int(re.search(r"least limit that would do is .* \((\d+)B\)", refused.stderr).group(1))
        self.report(spec, memory__limit=f"{least}B")
        for name in ("chimera", "dualpipe"):
            self.pipec("report", self.spec(spec), "--set", f"memory.limit={least - 1}B", "--set", f"schedule={name}",
                       code=CHECK)

    def test_a_least_limit_that_is_said_does_where_transfers_share_queues(self):
        """Slots as the predicted run takes them stop these words; as many as the words need do not."""
        spec = """\
            pipec: 1
            pipeline: {ranks: 2, microbatches: 5, stages_per_rank: 3}
            costs: {forward: [1860us, 2238us, 2728us, 2460us, 855us, 883us],
                    backward_input: [1998us, 2062us, 2284us, 1149us, 2694us, 1326us],
                    backward_weight: 2288us, link: {latency: 1762us}}
            tensors: {activation: [0B, 4004B, 2002B, 4004B, 5005B, 0B],
                      weight_context: [1026B, 1539B, 1026B, 513B, 513B, 513B],
                      static: [0B, 1024B, 0B, 1024B, 512B, 1024B], boundary: 1854B, workspace: 77B}
            communicator: per_pair
            schedule: interleaved-1f1b
            """
        for limit, code in ((45460, OK), (45459, CHECK)):
            done = self.pipec("report", self.spec(spec), "--set", f"memory.limit={limit}B", code=code)
        self.assertIn("the least limit that would do is 44.395 KiB (45460B)", done.stderr)

    def test_auto_tries_words_of_less_memory_where_queues_stop_those_of_more(self):
        """More than twice as long without."""
        spec = """\
            pipec: 1
            pipeline: {ranks: 6, microbatches: 10, stages_per_rank: 4, placement: loop}
            costs:
              forward: [100us, 500us, 2600us, 100us, 2000us, 300us, 2100us, 900us, 2600us, 700us, 200us, 1900us, 2400us,
                        1700us, 2000us, 700us, 2100us, 2100us, 400us, 1200us, 900us, 2400us, 2600us, 1300us]
              backward_input: [1200us, 500us, 600us, 600us, 1300us, 1100us, 2000us, 600us, 2000us, 1300us, 2000us, 900us,
                               1700us, 2200us, 600us, 400us, 2400us, 400us, 2200us, 1200us, 2800us, 2100us, 1600us,
                               1000us]
              backward_weight: 1600us
              link: {bandwidth: 10MB/s}
            tensors: {activation: 1KiB, weight_context: 256B, boundary: 4096B}
            communicator: shared
            schedule: auto
            """
        less, more = (self.report(spec, memory__limit=f"{limit}B")["span_ms"] for limit in (21504, 33331))
        self.assertLessEqual(more, less)

    def test_the_least_limit_of_auto_does_and_a_byte_less_does_not(self):
        """Sizes differ from stage to stage; in the second, less does where the chunks lie there and back."""
        there_and_back = """\
            pipec: 1
            pipeline: {ranks: 4, microbatches: 6, stages_per_rank: 2, placement: v}
            costs: {forward: 0us, backward_input: 0us, backward_weight: 0us,
                    links: [{from: 1, to: 2, latency: 20us}]}
            tensors: {activation: [0B, 21B, 20B, 38B, 10B, 14B, 35B, 30B], weight_context: 9B,
                      boundary: [2B, 7B, 0B, 3B, 4B, 4B, 9B, 0B], static: [18B, 10B, 16B, 8B, 12B, 14B, 16B, 24B]}
            schedule: auto
            """
        either = """\
            pipec: 1
            pipeline: {ranks: 2, microbatches: 13, stages_per_rank: 2}
            costs: {forward: 0us, backward_input: 0us, backward_weight: 0us}
            tensors: {activation: [0B, 0B, 12B, 0B], weight_context: [10B, 6B, 14B, 17B],
                      boundary: [5B, 5B, 6B, 5B], static: 16B}
            schedule: {name: auto, objective: makespan}
            """
        for spec, least in ((there_and_back, 132), (either, 76)):
            self.report(spec, memory__limit=f"{least}B")
            refused = self.pipec("report", self.spec(spec), "--set", f"memory.limit={least - 1}B", code=CHECK)
            self.assertIn(f"{least}B) is the least that does", refused.stderr)

    def test_without_a_limit_the_gap_is_told_at_the_schedules_own_memory(self):
        free = self.report(SPECS / "v-half.yaml", memory="{}")
        limited = self.report(SPECS / "v-half.yaml", memory__limit=f"{max(free['peak_bytes'])}B")
        self.assertEqual((free["gap_at_own_memory"], free["span_gap_at_own_memory"]),
                         (limited["gap"], limited["span_gap"]))
        self.assertLess(free["span_gap_at_own_memory"], free["span_gap"])
        self.assertNotIn("gap_at_own_memory", limited)
        plan = self.folder / "free.pipe"  # has the bounds, but not what others are worked out from
        self.pipec("compile", SPECS / "v-half.yaml", "--set", "memory={}", "-o", plan)
        of_plan = json.loads(self.pipec("report", plan, "--json").stdout)
        self.assertEqual(of_plan["span_gap"], free["span_gap"])
        self.assertNotIn("gap_at_own_memory", of_plan)

    def test_json_alone_goes_to_standard_output(self):
        done = self.pipec("compile", SPECS / "1f1b.yaml", "-o", self.folder / "x.pipe", "--json")
        self.assertEqual(json.loads(done.stdout)["ranks"], 4)

    def test_show_draws_a_row_for_each_rank(self):
        text = self.pipec("show", SPECS / "1f1b.yaml", "--columns", 100, "--color", "never").stdout
        self.assertNotIn("\x1b", text)
        self.assertIn("makespan 66", text)
        self.assertTrue(all(len(line) <= 100 for line in text.splitlines()[1:]), text)


if __name__ == "__main__":
    unittest.main()
